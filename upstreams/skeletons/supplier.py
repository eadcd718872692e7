"""A platform that a supplier serves, with the endpoints and records of `json_api`.

The name of the supplier's interface and its host are filled in, because only operators' files may contain them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from upstreams.skeletons.json_api import RECORDS

_DECLARATION = '''"""$title: accounts and their posts, from a partner source."""

from __future__ import annotations

from upstreams.model.archetypes import AUTHOR, POST_LIST
from upstreams.model.calls import Get, Pages, listing, single
from upstreams.model.endpoint import Platform
from upstreams.model.paging import ByToken
from upstreams.model.params import Param
from upstreams.platforms.$slug.records import author_of, post_of

HANDLE = Param("handle", "The account's name.", "ada", required=True, length_max=64, strip="@")

# The source sets the size of a page. A page without rows is the last one.
_OLDER = ByToken("cursor", "next_cursor", size="", size_max=20, empty_ends=True)

PLATFORM = Platform(
    slug="$slug",
    title="$title",
    category="social",
    docs_url="https://$slug.example/developers",
    terms_url="https://$slug.example/terms",
    checked_on="$today",
    sources={"partner": "@$supplier"},
    hosts=("$slug.example",),
    social=True,
    endpoints=(
        single(
            resource="profile",
            summary="One account.",
            archetype=AUTHOR,
            call=Get("/v1/$slug/profile", handle=HANDLE),
            record=author_of,
            at="account",
            needs=("partner",),
        ),
        listing(
            resource="profile/posts",
            summary="An account's posts, newest first.",
            archetype=POST_LIST,
            call=Get("/v1/$slug/posts", handle=HANDLE),
            pages=Pages(post_of, _OLDER, at="posts"),
            needs=("partner",),
        ),
    ),
)
'''

_CASES = '''"""$title's cases. The expected records come from separate tables, not from the platform's code."""

from __future__ import annotations

from tests.platforms.case import Case
from tests.platforms.table import at, below, ident, rows, table, utc
from upstreams.model.archetypes import author, byline, post

_API = "$supplier_host/v1/$slug"
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
PAID = {"success": True, "credits_charged": 1, "credits_remaining": 9}
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
    Case(
        "an account",
        "profile",
        {"handle": "ada"},
        {f"{_API}/profile": {**PAID, "account": ADA}},
        lambda body: AUTHOR(at(body, "account")),
    ),
    Case(
        "a page of posts",
        "profile/posts",
        {"handle": "@ada"},
        {f"{_API}/posts": {**PAID, "posts": [NOTE], "next_cursor": "older"}},
        rows("posts", POST),
        has_more=True,
    ),
)
'''

_TRAPS = '''"""The peculiarities of $title, one test for each."""

from __future__ import annotations

import pytest

from tests.platforms.case import Case, check, drive
from tests.platforms.drive import always, page_of
from upstreams.model.errors import NotFound
from upstreams.platforms.$slug import PLATFORM

from .cases import CASES, PAID


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answer_matches_its_table(case: Case) -> None:
    check(PLATFORM, case)


def test_failure_with_a_success_status_is_a_refusal() -> None:
    with pytest.raises(NotFound):
        drive(PLATFORM, "profile", {"handle": "ada"}, always({"success": False, "message": "User not found"}))


def test_page_without_rows_is_the_last() -> None:
    empty = always({**PAID, "posts": [], "next_cursor": "older"})
    assert page_of(PLATFORM, "profile/posts", {"handle": "ada"}, empty).next is None
'''

_STAND_IN = """{
  "failures": {
    "missing": {
      "status": 404,
      "body": {
        "success": false,
        "message": "Not found"
      }
    },
    "throttled": {
      "status": 429,
      "headers": {
        "retry-after": "10"
      },
      "body": {
        "success": false,
        "message": "Too many requests"
      }
    }
  },
  "calls": [
    {
      "call": "GET $supplier_host/v1/$slug/profile",
      "body": {
        "account": {
          "id": "$number",
          "name": "${handle}",
          "url": "$url",
          "about": "$text",
          "followers_count": "$count",
          "created_at": "$instant"
        }
      }
    },
    {
      "call": "GET $supplier_host/v1/$slug/posts",
      "rows": "posts",
      "paging": {
        "ByToken": {
          "size": "",
          "size_max": 20,
          "name": "cursor",
          "member": "next_cursor",
          "empty_ends": true
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
