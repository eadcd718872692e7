"""The skeleton of a platform that `sluice platforms new` writes: one endpoint of each kind, with test cases."""

from __future__ import annotations

import keyword
import re
from datetime import UTC, datetime
from pathlib import Path
from string import Template

_SLUG = re.compile(r"[a-z][a-z0-9_]{0,39}")
_OWN_IMPORTS = re.compile(r"(?:^from (?:tests|upstreams)\b[^\n]*\n)+", re.MULTILINE)
_PACKAGE = Path("upstreams", "platforms")

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

_RECORDS = '''"""$title's JSON as our records: tables of our fields and theirs."""

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

_FILES = {
    "upstreams/platforms/$slug/__init__.py": _DECLARATION,
    "upstreams/platforms/$slug/records.py": _RECORDS,
    "tests/platforms/$slug/__init__.py": "",
    "tests/platforms/$slug/cases.py": _CASES,
    "tests/platforms/$slug/test_traps.py": _TRAPS,
}


class SkeletonRefused(Exception):
    """The skeleton could not be written; the message contains the reason."""


def write_skeleton(slug: str, folder: Path) -> list[Path]:
    """Write the files of a new platform into a checkout, and return their paths.

    Raises:
        SkeletonRefused: The slug is invalid or already in use, or the folder is not a checkout.
    """
    if _SLUG.fullmatch(slug) is None or keyword.iskeyword(slug):
        raise SkeletonRefused(
            f"{slug!r} is not a valid slug. Use lowercase letters, digits and underscores, starting with a letter."
        )
    if not (folder / _PACKAGE).is_dir():
        raise SkeletonRefused(f"{folder} is not a checkout: it does not contain {_PACKAGE}")
    if (folder / _PACKAGE / slug).exists():
        raise SkeletonRefused(f"the platform {slug} already exists")
    today = datetime.now(UTC).date().isoformat()
    written = []
    for name, text in _FILES.items():
        path = folder / Template(name).substitute(slug=slug)
        path.parent.mkdir(parents=True, exist_ok=True)
        title = slug.replace("_", " ").title()
        code = Template(text).substitute(slug=slug, title=title, today=today)
        path.write_text(_OWN_IMPORTS.sub(_sorted, code))
        written.append(path)
    return written


def _sorted(imports: re.Match[str]) -> str:
    """Return a sorted block of imports. It is sorted here, because the position of the slug depends on its letters."""
    return "".join(sorted(imports[0].splitlines(keepends=True), key=lambda line: line.split()[1]))
