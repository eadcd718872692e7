"""GitLab's recordings as cases, and handmade bodies for what no recording contains.

These recordings belong to no endpoint: `branches.json`, `tree.json`, `group.json`, `release.json` and
`recorded_award_emoji.json`.
"""

from __future__ import annotations

from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, below, ident, rows, table, utc
from upstreams.model.archetypes import author, byline, comment, owner, post, release, repository
from upstreams.model.errors import NotFound

_API = "gitlab.com/api/v4"


def words(row: Json) -> str:
    """Return the title and text of an issue as one text."""
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
AT_ISSUE = {
    "id": ident("iid"),
    "url": "web_url",
    "text": words,
    "author": below("author", table(byline, **BYLINE)),
    "likes": "upvotes",
    "comments": "user_notes_count",
    "published_at": utc("created_at"),
}
EXT = {
    "state": "state",
    "labels": "labels",
    "downvotes": "downvotes",
    "milestone": "milestone.title",
    "updated_at": utc("updated_at"),
    "closed_at": utc("closed_at"),
}
ISSUE = table(post, **AT_ISSUE, ext=EXT)
MERGE_REQUEST = table(
    post,
    **AT_ISSUE,
    ext={
        **EXT,
        "draft": lambda row: row["draft"] if "draft" in row else row["work_in_progress"],
        "merged_at": utc("merged_at"),
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
    """Return the notes that a person wrote, without system notes."""
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
MERGED: Json = {**TICKET, "draft": False, "state": "merged", "merged_at": "2025-01-31T14:00:00Z"}
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
"""The bodies above are handmade, because no recording contains them."""
_LOGIN = {"handle": "ada", "host": "gitlab.com"}
_PROJECT = {"repo": "ada/tools", "host": "gitlab.com"}
_TICKET = {"issue": "ada/tools#7", "host": "gitlab.com"}
_FDROID = {"repo": "fdroid/fdroiddata"}
_DIASPORA = {"repo": "diaspora/diaspora"}


def case(name: str, resource: str, params: Json, path: str, answer: Any, expected: Any, **more: Any) -> Case:
    """Return a case that makes one call."""
    return Case(name, resource, params, {f"{_API}/{path}": answer}, expected, **more)


def by_hand(resource: str, body: Json, read: Any) -> Case:
    """Return a case for a list that belongs to a project. Its only row is handmade."""
    path = f"projects/ada/tools/{resource.partition('/')[2].replace('-', '_')}"
    return case(f"{resource} by hand", resource, _PROJECT, path, [body], rows("", read))


_BY_ADDRESS = {"url": "https://gitlab.com/ada/tools/-/issues/7#note_90", "host": "gitlab.com"}
_OLD = {"url": "https://gitlab.com/diaspora/diaspora.git"}
_ISSUES = ("recorded_issues_p1", "recorded_issues_p2", "issues", "recorded_empty")
_MERGES, _RELEASES = "projects/diaspora/diaspora/merge_requests", "projects/diaspora/diaspora/releases"
_NOTES = ("projects/fdroid/fdroiddata/issues/1/notes", "projects/ada/tools/issues/7/notes")

CASES: tuple[Case, ...] = (
    case("a project by hand", "repo", _PROJECT, "projects/ada/tools", TOOLS, PROJECT),
    case("a project", "repo", _FDROID, "projects/fdroid/fdroiddata", "recorded_project.json", PROJECT),
    case("a project of old times", "repo", _OLD, "projects/diaspora/diaspora", "project.json", PROJECT),
    *(
        case(
            f"issues: {file}",
            "repo/issues",
            {**_FDROID, "state": "all"},
            "projects/fdroid/fdroiddata/issues",
            f"{file}.json",
            rows("", ISSUE),
            has_more=False,
        )
        for file in _ISSUES
    ),
    by_hand("repo/issues", TICKET, ISSUE),
    case("merge requests", "repo/merge-requests", _DIASPORA, _MERGES, "merge_requests.json", rows("", MERGE_REQUEST)),
    by_hand("repo/merge-requests", MERGED, MERGE_REQUEST),
    by_hand("repo/forks", TOOLS, PROJECT),
    case("an issue by its address", "issue", _BY_ADDRESS, "projects/ada/tools/issues/7", TICKET, ISSUE),
    case("an issue", "issue", _TICKET, "projects/ada/tools/issues/7", TICKET, ISSUE),
    *(
        case(
            f"notes: {file}",
            "issue/comments",
            {"issue": "fdroid/fdroiddata#1"},
            _NOTES[0],
            f"{file}.json",
            people,
            has_more=False,
        )
        for file in ("recorded_issue_notes", "issue_notes")
    ),
    case("notes by hand", "issue/comments", _TICKET, _NOTES[1], [SAID, {**SAID, "system": True}], people),
    case("a note", "comment", {"note": "ada/tools#7/90"}, f"{_NOTES[1]}/90", SAID, NOTE),
    case("a note by its address", "comment", _BY_ADDRESS, f"{_NOTES[1]}/90", SAID, NOTE),
    case("releases", "repo/releases", _DIASPORA, _RELEASES, "releases.json", rows("", RELEASE)),
    by_hand("repo/releases", MADE, RELEASE),
    case("projects that a search found", "search", {"query": "x"}, "projects", "projects.json", rows("", PROJECT)),
    case("a search by hand", "search", {"query": "x", "host": "gitlab.com"}, "projects", [TOOLS], rows("", PROJECT)),
    case("a group's projects", "group/repos", {"group": "ada"}, "groups/ada/projects", [TOOLS], rows("", PROJECT)),
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
    case("nobody's login", "profile", {"handle": "no"}, "users", "recorded_empty.json", None, refused=NotFound),
    *(
        Case(
            resource,
            resource,
            _LOGIN,
            {f"{_API}/users": [ADA], f"{_API}/users/22/{path}": [TOOLS]},
            rows("", PROJECT),
            has_more=False,
        )
        for resource, path in (("profile/repos", "projects"), ("profile/starred", "starred_projects"))
    ),
)
