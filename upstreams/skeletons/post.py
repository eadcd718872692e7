"""An API whose queries are sent as JSON by POST: pages of search results."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_DECLARATION = '''"""$title: a search, whose queries are sent as JSON by POST."""

from __future__ import annotations

from upstreams.model.archetypes import POST_LIST
from upstreams.model.calls import Pages, Post, listing
from upstreams.model.endpoint import Platform
from upstreams.model.paging import ByOffset
from upstreams.model.params import Param
from upstreams.model.refusals import Refusals
from upstreams.platforms.$slug.records import post_of

QUERY = Param("query", "The words to search for.", "engines", required=True, length_max=200)
SORT = Param("sort", "Sort order.", "date", default="relevance", choices=("relevance", "date"))

_NEXT = ByOffset("offset", size_max=50, total="total")

PLATFORM = Platform(
    slug="$slug",
    title="$title",
    category="forums",
    docs_url="https://api.$slug.example/docs",
    terms_url="https://$slug.example/terms",
    checked_on="$today",
    sources={"api": "https://api.$slug.example/v1"},
    refusals=Refusals(code="code", message="error", bad={"bad_query": "query"}),
    endpoints=(
        listing(
            resource="search",
            summary="Search for posts.",
            archetype=POST_LIST,
            call=Post("/search", query=QUERY, sort=SORT, kind="post"),
            pages=Pages(post_of, _NEXT, at="results"),
            newest={"sort": "date"},
        ),
    ),
)
'''

_RECORDS = '''"""$title's JSON as our records: tables of our fields and theirs."""

from __future__ import annotations

from upstreams.model.archetypes import byline, post
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map

_byline_of = record_map(byline, id=read.ident("id"), username=read.text("name"), url=read.text("url"))
post_of = record_map(
    post,
    id=read.ident("id"),
    url=read.text("url"),
    text=read.html("content"),
    author=_byline_of.at("author"),
    likes=read.count("votes"),
    published_at=read.instant("created_at"),
)
"""A post."""
'''

_CASES = '''"""$title's cases. The expected records come from separate tables, not from the platform's code."""

from __future__ import annotations

from tests.platforms.case import Case
from tests.platforms.table import below, ident, rows, table, utc
from upstreams.model.archetypes import byline, post

BYLINE = table(byline, id=ident("id"), username="name", url="url")
POST = table(
    post,
    id=ident("id"),
    url="url",
    text="content",
    author=below("author", BYLINE),
    likes="votes",
    published_at=utc("created_at"),
)
NOTE = {
    "id": 70,
    "url": "https://$slug.example/posts/70",
    "content": "A note on engines.",
    "author": {"id": 7, "name": "ada", "url": "https://$slug.example/ada"},
    "votes": 3,
    "created_at": "2024-03-02T10:00:00Z",
}
CASES = (
    Case(
        "a page of results",
        "search",
        {"query": "engines"},
        {"api.$slug.example/v1/search": {"results": [NOTE], "total": 21}},
        rows("results", POST),
        has_more=True,
        total=21,
    ),
)
'''

_TRAPS = '''"""The peculiarities of $title, one test for each."""

from __future__ import annotations

import pytest

from tests.platforms.case import Case, check, drive
from tests.platforms.drive import always, watched
from upstreams.model.errors import InvalidArgument
from upstreams.platforms.$slug import PLATFORM

from .cases import CASES, NOTE


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answer_matches_its_table(case: Case) -> None:
    check(PLATFORM, case)


def test_query_and_page_are_sent_as_json() -> None:
    calls, upstream = watched(always({"results": [NOTE], "total": 1}))
    drive(PLATFORM, "search", {"query": "engines"}, upstream)
    ((_, call),) = calls
    assert call.json == {"query": "engines", "sort": "relevance", "kind": "post", "limit": 20, "offset": 0}


def test_refused_query_names_our_parameter() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        drive(PLATFORM, "search", {"query": "*"}, always({"code": "bad_query", "error": "too short"}, 400))
    assert refusal.value.param == "query"
'''

_STAND_IN = """{
  "failures": {},
  "calls": [
    {
      "call": "POST api.$slug.example/v1/search",
      "rows": "results",
      "paging": {
        "ByOffset": {
          "size_max": 50,
          "total": "total",
          "name": "offset"
        }
      },
      "body": {
        "results": [
          {
            "id": "$number",
            "url": "$url",
            "content": "$text",
            "author": {
              "id": "$number",
              "name": "$name",
              "url": "$url"
            },
            "votes": "$count",
            "created_at": "$instant"
          }
        ]
      }
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
