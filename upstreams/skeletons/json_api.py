"""A JSON API: one account by name, and the pages of its posts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_DECLARATION = '''"""$title: accounts and their posts, from its API."""

from __future__ import annotations

from upstreams.model.archetypes import AUTHOR, POST_LIST
from upstreams.model.calls import Get, Pages, listing, single
from upstreams.model.endpoint import Platform
from upstreams.model.paging import ByToken
from upstreams.model.params import Param
from upstreams.model.refusals import Refusals, Remaining
from upstreams.platforms.$slug.records import author_of, post_of

HANDLE = Param("handle", "The account's name.", "ada", required=True, length_max=64, strip="@")

_OLDER = ByToken("cursor", "next_cursor", size_max=50)

PLATFORM = Platform(
    slug="$slug",
    title="$title",
    category="social",
    docs_url="https://api.$slug.example/docs",
    terms_url="https://$slug.example/terms",
    checked_on="$today",
    sources={"api": "https://api.$slug.example/v1"},
    social=True,
    refusals=Refusals(gone=(410,), message="error"),
    rest=Remaining("x-ratelimit-remaining", "x-ratelimit-reset"),
    endpoints=(
        single(
            resource="profile",
            summary="One account.",
            archetype=AUTHOR,
            call=Get("/accounts/{handle}", handle=HANDLE),
            record=author_of,
        ),
        listing(
            resource="profile/posts",
            summary="An account's posts, newest first.",
            archetype=POST_LIST,
            call=Get("/accounts/{handle}/posts", handle=HANDLE),
            pages=Pages(post_of, _OLDER, at="posts"),
        ),
    ),
)
'''

RECORDS = '''"""$title's JSON as our records: tables of our fields and theirs."""

from __future__ import annotations

from upstreams.model.fields import readers as read
from upstreams.model.archetypes import author, byline, post
from upstreams.model.fields.maps import record_map

_byline_of = record_map(byline, id=read.ident("id"), username=read.text("name"), url=read.text("url"))
author_of = _byline_of.with_fields(
    author, bio=read.html("about"), followers=read.count("followers_count"), joined_at=read.instant("created_at")
)
"""An account."""
post_of = record_map(
    post,
    id=read.ident("id"),
    url=read.text("url"),
    text=read.html("content"),
    author=_byline_of.at("account"),
    likes=read.count("likes_count"),
    published_at=read.instant("created_at"),
)
"""A post."""
'''

_CASES = '''"""$title's cases. The expected records come from separate tables, not from the platform's code."""

from __future__ import annotations

from tests.platforms.case import Case
from tests.platforms.table import below, ident, rows, table, utc
from upstreams.model.archetypes import author, byline, post

_API = "api.$slug.example/v1"
_ACCOUNT = {"id": ident("id"), "username": "name", "url": "url"}
AUTHOR = table(author, **_ACCOUNT, bio="about", followers="followers_count", joined_at=utc("created_at"))
POST = table(
    post,
    id=ident("id"),
    url="url",
    text="content",
    author=below("account", table(byline, **_ACCOUNT)),
    likes="likes_count",
    published_at=utc("created_at"),
)
ADA = {
    "id": 7,
    "name": "ada",
    "url": "https://$slug.example/ada",
    "about": "Writes notes.",
    "followers_count": 12,
    "created_at": "2024-03-01T10:00:00Z",
}
NOTE = {
    "id": 70,
    "url": "https://$slug.example/ada/70",
    "content": "A note on engines.",
    "account": {"id": 7, "name": "ada", "url": "https://$slug.example/ada"},
    "likes_count": 3,
    "created_at": "2024-03-02T10:00:00Z",
}
CASES = (
    Case("an account", "profile", {"handle": "ada"}, {f"{_API}/accounts/ada": ADA}, AUTHOR),
    Case(
        "a page of posts",
        "profile/posts",
        {"handle": "@ada"},
        {f"{_API}/accounts/ada/posts": {"posts": [NOTE], "next_cursor": "older"}},
        rows("posts", POST),
        has_more=True,
    ),
)
'''

_TRAPS = '''"""The peculiarities of $title, one test for each."""

from __future__ import annotations

import pytest

from tests.platforms.case import Case, check, drive
from tests.platforms.drive import always
from upstreams.model.errors import NotFound
from upstreams.platforms.$slug import PLATFORM

from .cases import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answer_matches_its_table(case: Case) -> None:
    check(PLATFORM, case)


def test_suspended_account_is_gone() -> None:
    with pytest.raises(NotFound) as refusal:
        drive(PLATFORM, "profile", {"handle": "ada"}, always({"error": "suspended"}, 410))
    assert refusal.value.reason == "account_gone"
'''

_STAND_IN = """{
  "failures": {},
  "calls": [
    {
      "call": "GET api.$slug.example/v1/accounts/{handle}",
      "body": {
        "id": "$number",
        "name": "${handle}",
        "url": "$url",
        "about": "$text",
        "followers_count": "$count",
        "created_at": "$instant"
      }
    },
    {
      "call": "GET api.$slug.example/v1/accounts/{handle}/posts",
      "rows": "posts",
      "paging": {
        "ByToken": {
          "size_max": 50,
          "name": "cursor",
          "member": "next_cursor"
        }
      },
      "body": {
        "posts": [
          {
            "id": "$number",
            "url": "$url",
            "content": "$text",
            "account": {
              "id": "$number",
              "name": "${handle}",
              "url": "$url"
            },
            "likes_count": "$count",
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
        "upstreams/platforms/$slug/records.py": RECORDS,
        "tests/platforms/$slug/__init__.py": "",
        "tests/platforms/$slug/cases.py": _CASES,
        "tests/platforms/$slug/test_traps.py": _TRAPS,
        "upstreams/sandbox/made/$slug.json": _STAND_IN,
    }
)
