"""GitLab's recordings as cases, and bodies by hand of what none of them has.

These belong to no endpoint: `branches.json`, `merge_requests.json`, `tree.json`, `group.json`, `release.json` and
`recorded_award_emoji.json`.
"""

from __future__ import annotations

from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, below, ident, rows, table, utc
from upstreams.model.archetypes import author, byline, comment, owner, post, release, repository
from upstreams.model.errors import NotFound

_API = "gitlab.com/api/v4"
_DATA = f"{_API}/projects/fdroid/fdroiddata"


def words(row: Json) -> str:
    """The title and the text of an issue."""
    return "\n\n".join(filter(None, (row["title"], row["description"])))


OWNER = table(
    owner,
    username=lambda row: at(row, "full_path") or at(row, "path"),
    avatar_url=lambda row: (path := at(row, "avatar_url")) and f"https://gitlab.com{path}",
    type="kind",
)
PROJECT = table(
    repository,
    id=ident("id"),
    url="web_url",
    full_name="path_with_namespace",
    name="name",
    owner=below("namespace", OWNER),
    description="description",
    topics=lambda row: row["topics"] if "topics" in row else row.get("tag_list"),
    license="license.key",
    stars="star_count",
    forks="forks_count",
    open_issues="open_issues_count",
    default_branch="default_branch",
    archived="archived",
    created_at=utc("created_at"),
    updated_at=utc("last_activity_at"),
)
BYLINE = {
    "id": ident("id"),
    "username": "username",
    "display_name": "name",
    "avatar_url": "avatar_url",
    "url": "web_url",
}
ACCOUNT = table(
    author,
    **BYLINE,
    bio="bio",
    followers="followers",
    following="following",
    joined_at=utc("created_at"),
    location="location",
    external_url="website_url",
    ext={"organization": "organization", "job_title": "job_title", "state": "state", "bot": "bot"},
)
ISSUE = table(
    post,
    id=ident("iid"),
    url="web_url",
    text=words,
    author=below("author", table(byline, **BYLINE)),
    likes="upvotes",
    comments="user_notes_count",
    published_at=utc("created_at"),
    ext={
        "state": "state",
        "labels": "labels",
        "downvotes": "downvotes",
        "milestone": "milestone.title",
        "updated_at": utc("updated_at"),
        "closed_at": utc("closed_at"),
    },
)
NOTE = table(
    comment,
    id=ident("id"),
    post_id=ident("noteable_iid"),
    text="body",
    author=below("author", table(byline, **BYLINE)),
    published_at=utc("created_at"),
)
RELEASE = table(
    release,
    id="tag_name",
    url="_links.self",
    tag="tag_name",
    name="name",
    text="description",
    author="author.username",
    published_at=utc("released_at"),
    ext={"upcoming": "upcoming_release", "created_at": utc("created_at")},
)


def people(*bodies: Any) -> list[Json]:
    """The notes that no system wrote."""
    return [NOTE(row) for row in bodies[-1] if not row.get("system")]


ADA: Json = {
    "id": 22,
    "username": "ada",
    "name": "Ada",
    "avatar_url": "https://secure.example.com/22.png",
    "web_url": "https://gitlab.com/ada",
}
WHOLE: Json = {
    **ADA,
    "bio": "Reads.",
    "followers": 3,
    "following": 4,
    "created_at": "2020-01-31T12:00:00.123Z",
    "location": "Reading",
    "website_url": "https://ada.example.com",
    "organization": "Ada Ltd",
    "job_title": "Engineer",
    "state": "active",
    "bot": False,
}
TOOLS: Json = {
    "id": 4711,
    "web_url": "https://gitlab.com/ada/tools",
    "path_with_namespace": "ada/tools",
    "name": "Tools",
    "namespace": {"full_path": "ada", "kind": "user", "avatar_url": "/uploads/-/system/user/avatar/22/a.png"},
    "description": "Tools that read.",
    "topics": ["parsers"],
    "license": {"key": "mit"},
    "star_count": 5,
    "forks_count": 2,
    "open_issues_count": 1,
    "default_branch": "main",
    "archived": False,
    "created_at": "2020-01-31T12:00:00.000Z",
    "last_activity_at": "2025-01-31T12:00:00.500+02:00",
}
TICKET: Json = {
    "iid": 7,
    "web_url": "https://gitlab.com/ada/tools/-/issues/7",
    "title": "It stops",
    "description": "At once.",
    "author": ADA,
    "upvotes": 2,
    "downvotes": 0,
    "user_notes_count": 1,
    "created_at": "2025-01-31T12:00:00Z",
    "updated_at": "2025-01-31T13:00:00Z",
    "closed_at": "2025-01-31T14:00:00Z",
    "state": "closed",
    "labels": ["bug"],
    "milestone": {"title": "1.0"},
}
SAID: Json = {
    "id": 90,
    "noteable_iid": 7,
    "body": "Here too.",
    "system": False,
    "author": ADA,
    "created_at": "2025-01-31T12:30:00Z",
}
MADE: Json = {
    "tag_name": "v1",
    "name": "One",
    "description": "The first.",
    "_links": {"self": "https://gitlab.com/ada/tools/-/releases/v1"},
    "author": ADA,
    "released_at": "2025-01-31T12:00:00Z",
    "created_at": "2025-01-30T12:00:00Z",
    "upcoming_release": False,
}
"""Bodies made by hand."""
_LOGIN = {"handle": "ada", "host": "gitlab.com"}
_PROJECT = {"repo": "ada/tools", "host": "gitlab.com"}

CASES: tuple[Case, ...] = (
    Case("a project by hand", "repo", _PROJECT, {f"{_API}/projects/ada/tools": TOOLS}, PROJECT),
    Case("a project", "repo", {"repo": "fdroid/fdroiddata"}, {_DATA: "recorded_project.json"}, PROJECT),
    Case(
        "a project of old times",
        "repo",
        {"url": "https://gitlab.com/diaspora/diaspora.git"},
        {f"{_API}/projects/diaspora/diaspora": "project.json"},
        PROJECT,
    ),
    *(
        Case(
            f"issues: {file}",
            "repo/issues",
            {"repo": "fdroid/fdroiddata", "state": "all"},
            {f"{_DATA}/issues": f"{file}.json"},
            rows("", ISSUE),
            has_more=False,
        )
        for file in ("recorded_issues_p1", "recorded_issues_p2", "issues", "recorded_empty")
    ),
    Case("issues by hand", "repo/issues", _PROJECT, {f"{_API}/projects/ada/tools/issues": [TICKET]}, rows("", ISSUE)),
    Case(
        "an issue by its address",
        "issue",
        {"url": "https://gitlab.com/ada/tools/-/issues/7#note_90", "host": "gitlab.com"},
        {f"{_API}/projects/ada/tools/issues/7": TICKET},
        ISSUE,
    ),
    Case(
        "an issue",
        "issue",
        {"issue": "ada/tools#7", "host": "gitlab.com"},
        {f"{_API}/projects/ada/tools/issues/7": TICKET},
        ISSUE,
    ),
    *(
        Case(
            f"notes: {file}",
            "issue/comments",
            {"issue": "fdroid/fdroiddata#1"},
            {f"{_DATA}/issues/1/notes": f"{file}.json"},
            people,
            has_more=False,
        )
        for file in ("recorded_issue_notes", "issue_notes")
    ),
    Case(
        "notes by hand",
        "issue/comments",
        {"issue": "ada/tools#7", "host": "gitlab.com"},
        {f"{_API}/projects/ada/tools/issues/7/notes": [SAID, {**SAID, "id": 91, "system": True}]},
        people,
        has_more=False,
    ),
    Case(
        "releases",
        "repo/releases",
        {"repo": "diaspora/diaspora"},
        {f"{_API}/projects/diaspora/diaspora/releases": "releases.json"},
        rows("", RELEASE),
    ),
    Case(
        "releases by hand",
        "repo/releases",
        _PROJECT,
        {f"{_API}/projects/ada/tools/releases": [MADE]},
        rows("", RELEASE),
    ),
    Case(
        "projects that a search found",
        "search",
        {"query": "diaspora"},
        {f"{_API}/projects": "projects.json"},
        rows("", PROJECT),
    ),
    Case(
        "a search by hand",
        "search",
        {"query": "tools", "host": "gitlab.com"},
        {f"{_API}/projects": [TOOLS]},
        rows("", PROJECT),
    ),
    Case(
        "an account that a server shows to everybody",
        "profile",
        {"handle": "@john_smith"},
        {f"{_API}/users": "user_search.json", f"{_API}/users/1": "user.json"},
        lambda _listed, whole: ACCOUNT(whole),
    ),
    Case(
        "an account by hand",
        "profile",
        _LOGIN,
        {f"{_API}/users": [ADA], f"{_API}/users/22": WHOLE},
        lambda _listed, whole: ACCOUNT(whole),
    ),
    Case(
        "a login that nobody has",
        "profile",
        {"handle": "nobody"},
        {f"{_API}/users": "recorded_empty.json"},
        refused=NotFound,
    ),
    Case(
        "an account's projects by hand",
        "profile/repos",
        _LOGIN,
        {f"{_API}/users": [ADA], f"{_API}/users/22/projects": [TOOLS]},
        rows("", PROJECT),
        has_more=False,
    ),
)
