"""Map GitLab's JSON to our records."""

from __future__ import annotations

from upstreams.model.archetypes import author, byline, comment, owner, post, release, repository
from upstreams.model.fields import joined
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import of


def _page(host: str | None, path: str | None) -> str | None:
    """Return the full URL of a picture. Some servers omit the host."""
    return f"https://{host}{path}" if host and path and path.startswith("/") else path


def _topics(named: list[str] | None, tagged: list[str] | None) -> list[str] | None:
    """Return the project's topics, which older servers call tags."""
    return tagged if named is None else named


_PICTURE = of(_page, read.given("host"), read.text("avatar_url"))
repository_of = record_map(
    repository,
    id=read.ident("id"),
    url=read.text("web_url"),
    full_name=read.text("path_with_namespace"),
    name=read.text("name"),
    owner=record_map(owner, username=read.text("full_path", "path"), avatar_url=_PICTURE, type=read.text("kind")).at(
        "namespace"
    ),
    description=read.text("description"),
    topics=of(_topics, read.texts("topics"), read.texts("tag_list")),
    license=read.text("license.key"),
    stars=read.count("star_count"),
    forks=read.count("forks_count"),
    open_issues=read.count("open_issues_count"),
    default_branch=read.text("default_branch"),
    archived=read.flag("archived"),
    created_at=read.instant("created_at"),
    updated_at=read.instant("last_activity_at"),
)
"""A project. Its languages are unknown, because they would need another call."""
byline_of = record_map(
    byline,
    id=read.ident("id"),
    username=read.text("username"),
    display_name=read.text("name"),
    avatar_url=_PICTURE,
    url=read.text("web_url"),
)
author_of = byline_of.with_fields(
    author,
    bio=read.text("bio"),
    followers=read.count("followers"),
    following=read.count("following"),
    joined_at=read.instant("created_at"),
    location=read.text("location"),
    external_url=read.text("website_url"),
    ext={
        "organization": read.text("organization"),
        "job_title": read.text("job_title"),
        "state": read.text("state"),
        "bot": read.flag("bot"),
    },
)
"""An account. Many servers show anonymous callers only its name and picture."""
issue_of = record_map(
    post,
    id=read.ident("iid"),
    url=read.text("web_url"),
    text=of(joined, read.text("title"), read.text("description")),
    author=byline_of.at("author"),
    likes=read.count("upvotes"),
    comments=read.count("user_notes_count"),
    published_at=read.instant("created_at"),
    ext={
        "state": read.text("state"),
        "labels": read.texts("labels"),
        "downvotes": read.count("downvotes"),
        "milestone": read.text("milestone.title"),
        "updated_at": read.instant("updated_at"),
        "closed_at": read.instant("closed_at"),
    },
)
"""An issue. Its number is the one within its project."""
merge_request_of = issue_of.with_fields(
    ext={"draft": read.flag("draft", "work_in_progress"), "merged_at": read.instant("merged_at")}
)
note_of = record_map(
    comment,
    id=read.ident("id"),
    post_id=read.ident("noteable_iid"),
    text=read.text("body"),
    author=byline_of.at("author"),
    published_at=read.instant("created_at"),
)
release_of = record_map(
    release,
    id=read.text("tag_name"),
    url=read.text("_links.self"),
    tag=read.text("tag_name"),
    name=read.text("name"),
    text=read.text("description"),
    prerelease=read.always(None),
    author=read.text("author.username"),
    published_at=read.instant("released_at"),
    ext={"upcoming": read.flag("upcoming_release"), "created_at": read.instant("created_at")},
)
"""A release. Its id is its tag, because GitLab gives it no number."""
