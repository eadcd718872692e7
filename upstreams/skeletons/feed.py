"""A feed: the entries of a topic, from RSS or Atom."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_DECLARATION = '''"""$title: the entries of its feeds."""

from __future__ import annotations

from upstreams.content import FEED
from upstreams.model.archetypes import POST_LIST
from upstreams.model.calls import Get, Pages, listing
from upstreams.model.endpoint import Platform
from upstreams.model.paging import Whole
from upstreams.model.params import Param
from upstreams.platforms.$slug.records import entry_of

TOPIC = Param("topic", "The topic.", "engines", required=True, pattern=r"[a-z]{1,40}", fold=True)

PLATFORM = Platform(
    slug="$slug",
    title="$title",
    category="news",
    docs_url="https://$slug.example/feeds",
    terms_url="https://$slug.example/terms",
    checked_on="$today",
    sources={"feed": "https://feeds.$slug.example"},
    hosts=("$slug.example",),
    endpoints=(
        listing(
            resource="topic",
            summary="The entries of a topic, newest first.",
            archetype=POST_LIST,
            call=Get("/{topic}.xml", topic=TOPIC).via(accepts=FEED),
            pages=Pages(entry_of, Whole(size_max=50), at="items"),
        ),
    ),
)
'''

_RECORDS = '''"""The entries of $title's feeds as our records. `upstreams.content.feeds` lists the members of a feed."""

from __future__ import annotations

from upstreams.model.archetypes import byline, post
from upstreams.model.fields import joined
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import of

_byline_of = record_map(byline, id=read.NEVER, display_name=read.text("author"))
entry_of = record_map(
    post,
    id=read.text("id", "url"),
    url=read.text("url"),
    text=of(joined, read.text("title"), read.html("summary")),
    author=_byline_of.here(),
    published_at=read.instant("published_at"),
)
"""An entry."""
'''

_CASES = '''"""$title's cases. The expected records come from a separate table, not from the platform's code.

A hand-written body that is not JSON consists of bytes. The table receives it as text.
"""

from __future__ import annotations

from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import table, utc
from upstreams.content import FEED
from upstreams.model.archetypes import byline, post
from upstreams.model.fields import joined, plain

BYLINE = table(byline, display_name="author")
ENTRY = table(
    post,
    id="id",
    url="url",
    text=lambda row: joined(row["title"], plain(row["summary"])),
    author=BYLINE,
    published_at=utc("published_at"),
)
BODY = b"""<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel>
<title>Engines</title>
<item>
<title>A note on engines</title>
<link>https://$slug.example/notes/7</link>
<guid>https://$slug.example/notes/7</guid>
<dc:creator>Ada</dc:creator>
<pubDate>Sat, 02 Mar 2024 10:00:00 GMT</pubDate>
<description>They weave patterns.</description>
</item>
</channel>
</rss>
"""


def entries(body: str) -> list[dict[str, Any]]:
    """Return the expected records of the first page: 20 rows by default, because the list arrives whole."""
    return [ENTRY(row) for row in FEED.read(body.encode(), "application/rss+xml")["items"][:20]]


CASES = (
    Case(
        "the entries of a topic",
        "topic",
        {"topic": "engines"},
        {"feeds.$slug.example/engines.xml": BODY},
        entries,
        has_more=False,
    ),
)
'''

_TRAPS = '''"""The peculiarities of $title, one test for each."""

from __future__ import annotations

import pytest

from tests.platforms.case import Case, check
from tests.platforms.drive import always, page_of
from upstreams.platforms.$slug import PLATFORM

from .cases import BODY, CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answer_matches_its_table(case: Case) -> None:
    check(PLATFORM, case)


def test_entry_without_guid_is_identified_by_its_url() -> None:
    body = BODY.replace(b"<guid>https://$slug.example/notes/7</guid>", b"")
    (record,) = page_of(PLATFORM, "topic", {"topic": "engines"}, always(body.decode())).records
    assert record["id"] == "https://$slug.example/notes/7"
'''

_STAND_IN = r"""{
  "failures": {},
  "calls": [
    {
      "call": "GET feeds.$slug.example/{topic}.xml",
      "rows": "",
      "paging": {
        "Whole": {
          "size_max": 50
        }
      },
      "type": "application/rss+xml",
      "text": [
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
        "<rss version=\"2.0\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\">",
        "<channel>",
        "<title>$text</title>",
        "$rows",
        "</channel>",
        "</rss>"
      ],
      "row": [
        "<item>",
        "<title>$text</title>",
        "<link>$url</link>",
        "<guid isPermaLink=\"false\">$id</guid>",
        "<dc:creator>$name</dc:creator>",
        "<pubDate>$http_date</pubDate>",
        "<description>$html</description>",
        "</item>"
      ]
    }
  ]
}
"""

FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "upstreams/platforms/$slug/__init__.py": _DECLARATION,
        "upstreams/platforms/$slug/records.py": _RECORDS,
        "tests/platforms/$slug/__init__.py": "",
        "tests/platforms/$slug/cases.py": _CASES,
        "tests/platforms/$slug/test_traps.py": _TRAPS,
        "upstreams/sandbox/made/$slug.json": _STAND_IN,
    }
)
