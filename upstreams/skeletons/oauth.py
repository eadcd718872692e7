"""A JSON API that an application signs in to, with the same endpoints and records as `json_api`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from upstreams.skeletons.json_api import RECORDS

_DECLARATION = '''"""$title: accounts and their posts, from its API, which only applications with a token may call."""

from __future__ import annotations

from upstreams.model.archetypes import AUTHOR, POST_LIST
from upstreams.model.calls import Get, Pages, listing, single
from upstreams.model.endpoint import Platform
from upstreams.model.paging import ByToken
from upstreams.model.params import Param
from upstreams.model.refusals import Refusals, Remaining
from upstreams.model.sign_in import client_credentials
from upstreams.platforms.$slug.records import author_of, post_of

HANDLE = Param("handle", "The account's name.", "ada", required=True, length_max=64, strip="@")

_APPLICATION = ("identifier", "password")
"""The credentials of the application: its id and its secret."""
_OLDER = ByToken("cursor", "next_cursor", size_max=50)

PLATFORM = Platform(
    slug="$slug",
    title="$title",
    category="social",
    docs_url="https://api.$slug.example/docs",
    terms_url="https://$slug.example/terms",
    checked_on="$today",
    sources={"api": "https://api.$slug.example/v1", "sign_in": "https://auth.$slug.example"},
    open_session=client_credentials("/oauth2/token", source="sign_in", names=_APPLICATION),
    social=True,
    refusals=Refusals(gone=(410,), message="error"),
    rest=Remaining("x-ratelimit-remaining", "x-ratelimit-reset"),
    endpoints=(
        single(
            resource="profile",
            summary="One account.",
            archetype=AUTHOR,
            call=Get("/accounts/{handle}", handle=HANDLE).via(signed=True),
            record=author_of,
            needs=_APPLICATION,
        ),
        listing(
            resource="profile/posts",
            summary="An account's posts, newest first.",
            archetype=POST_LIST,
            call=Get("/accounts/{handle}/posts", handle=HANDLE).via(signed=True),
            pages=Pages(post_of, _OLDER, at="posts"),
            needs=_APPLICATION,
        ),
    ),
)
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
SIGN_IN = {"auth.$slug.example/oauth2/token": {"access_token": "a-token", "expires_in": 3600}}
APPLICATION = {"identifier": "an-id", "password": "a-secret"}
CASES = (
    Case(
        "an account",
        "profile",
        {"handle": "ada"},
        {**SIGN_IN, f"{_API}/accounts/ada": ADA},
        lambda _token, body: AUTHOR(body),
        credentials=APPLICATION,
    ),
    Case(
        "a page of posts",
        "profile/posts",
        {"handle": "@ada"},
        {**SIGN_IN, f"{_API}/accounts/ada/posts": {"posts": [NOTE], "next_cursor": "older"}},
        rows("posts", POST),
        has_more=True,
        credentials=APPLICATION,
    ),
)
'''

_TRAPS = '''"""The peculiarities of $title, one test for each."""

from __future__ import annotations

import pytest

from tests.platforms.case import Case, check, drive
from tests.platforms.drive import told, watched
from upstreams.model.errors import NotFound
from upstreams.model.steps import Answer, Call
from upstreams.platforms.$slug import PLATFORM

from .cases import APPLICATION, CASES, SIGN_IN


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answer_matches_its_table(case: Case) -> None:
    check(PLATFORM, case)


def suspended(host_and_path: str, _call: Call) -> Answer:
    """Accept the sign-in, and answer that the account is suspended."""
    return told(SIGN_IN[host_and_path]) if host_and_path in SIGN_IN else told({"error": "suspended"}, 410)


def test_application_signs_in_with_its_secret_and_suspended_account_is_gone() -> None:
    calls, upstream = watched(suspended)
    with pytest.raises(NotFound) as refusal:
        drive(PLATFORM, "profile", {"handle": "ada"}, upstream, credentials=APPLICATION)
    assert refusal.value.reason == "account_gone"
    (_, sign_in), (_, profile) = calls
    assert dict(sign_in.headers)["authorization"].startswith("Basic ")
    assert profile.needs_session
'''

_STAND_IN = """{
  "failures": {},
  "calls": [
    {
      "call": "POST auth.$slug.example/oauth2/token",
      "body": {
        "access_token": "$id",
        "expires_in": 3600
      }
    },
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
