"""Map GitHub's JSON to our records: pure functions from one upstream object to one record."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from upstreams.model.archetypes import (
    Record,
    article,
    author,
    byline,
    comment,
    owner,
    post,
    release,
    repository,
)
from upstreams.model.fields import Json, count, decoded, joined, obj, text, total_of
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import of


def _label_names(labels: Any) -> list[str] | None:
    """Return the names of labels. GitHub documents that a label can also be a plain text."""
    if not isinstance(labels, list):
        return None
    return [
        name
        for label in labels
        if (name := label.get("name") if isinstance(label, dict) else label) and isinstance(name, str)
    ]


def _is_pull_request(links: Any) -> bool:
    """Return whether an issue is a pull request.

    In old answers, every issue has the member, and only its URLs are null.
    """
    return isinstance(links, dict) and any(links.values())


def _downloads(assets: Any) -> int | None:
    """Return the number of downloads of all assets, which is zero if a release has none."""
    if not isinstance(assets, list):
        return None
    counts = [count(asset, "download_count") for asset in assets if isinstance(asset, dict)]
    return None if None in counts else total_of((0, *counts))


_byline_of = record_map(
    byline,
    id=read.ident("id"),
    username=read.text("login"),
    avatar_url=read.text("avatar_url"),
    url=read.text("html_url"),
)
author_of = _byline_of.with_fields(
    author,
    display_name=read.text("name"),
    bio=read.text("bio"),
    followers=read.count("followers"),
    following=read.count("following"),
    posts_count=read.count("public_repos"),
    joined_at=read.instant("created_at"),
    location=read.text("location"),
    external_url=read.text("blog"),
    ext={
        "company": read.text("company"),
        "twitter_username": read.text("twitter_username"),
        "type": read.text("type"),
        "public_gists": read.count("public_gists"),
    },
)
"""A user or an organization. A row in a list contains only id, login, URL and avatar."""


def _number_in(issue: str | None) -> str | None:
    """Return the issue's number, which ends the issue's canonical name."""
    return issue and issue.rpartition("/")[2]


_owner_of = record_map(owner, username=read.text("login"), avatar_url=read.text("avatar_url"), type=read.text("type"))
repository_of = record_map(
    repository,
    id=read.ident("id"),
    url=read.text("html_url"),
    full_name=read.text("full_name"),
    name=read.text("name"),
    owner=_owner_of.at("owner"),
    description=read.text("description"),
    homepage=read.text("homepage"),
    language=read.text("language"),
    topics=read.texts("topics"),
    license=read.text("license.spdx_id"),
    stars=read.count("stargazers_count"),
    forks=read.count("forks_count"),
    watchers=read.count("subscribers_count"),
    open_issues=read.count("open_issues_count"),
    size_kb=read.count("size"),
    default_branch=read.text("default_branch"),
    archived=read.flag("archived"),
    fork=read.flag("fork"),
    created_at=read.instant("created_at"),
    updated_at=read.instant("updated_at"),
    pushed_at=read.instant("pushed_at"),
)
"""A repository. The number of watchers is known only if it was requested individually (`watchers_count` repeats the
stars)."""
issue_of = record_map(
    post,
    id=read.ident("number"),
    url=read.text("html_url"),
    text=of(joined, read.text("title"), read.text("body")),
    author=_byline_of.at("user"),
    likes=read.count("reactions.total_count"),
    comments=read.count("comments"),
    published_at=read.instant("created_at"),
    ext={
        "node": read.ident("id"),
        "state": read.text("state"),
        "state_reason": read.text("state_reason"),
        "labels": of(_label_names, "labels"),
        "closed_at": read.instant("closed_at"),
        "is_pr": of(_is_pull_request, "pull_request"),
    },
)
"""An issue or a pull request. Its author is null if the account was deleted."""
comment_of = record_map(
    comment,
    id=read.ident("id"),
    url=read.text("html_url"),
    post_id=of(_number_in, read.given("url")),
    text=read.text("body"),
    author=_byline_of.at("user"),
    likes=read.count("reactions.total_count"),
    published_at=read.instant("created_at"),
)
"""A comment on an issue. The issue's number comes from the request."""


def _issue_in(comment: str | None) -> str | None:
    """Return the issue's number, which a comment's canonical name contains."""
    return comment and comment.split("/")[-2]


lone_comment_of = comment_of.with_fields(post_id=of(_issue_in, read.given("url")))
"""A comment that was requested by its URL, which also identifies the issue."""
release_of = record_map(
    release,
    id=read.ident("id"),
    url=read.text("html_url"),
    tag=read.text("tag_name"),
    name=read.text("name"),
    text=read.text("body"),
    prerelease=read.flag("prerelease"),
    author=read.text("author.login"),
    published_at=read.instant("published_at"),
    ext={"downloads": of(_downloads, "assets")},
)
"""One release of a repository."""


def readme_of(body: Any, full_name: str) -> Record:
    """Return a readme, either from JSON (file name and base64 content) or from its raw text."""
    if isinstance(body, str):
        return article(id=None, url=f"https://github.com/{full_name}#readme", title=None, text=body or None)
    file = obj(body)
    return article(
        id=text(file, "sha"),
        url=text(file, "html_url"),
        title=text(file, "name"),
        text=_decoded(file),
        ext={"path": text(file, "path"), "size_bytes": count(file, "size")},
    )


def _decoded(file: Json) -> str | None:
    """Return the decoded content of a file. GitHub breaks base64 into lines, and sends none for files above 1 MB."""
    content = text(file, "content")
    if content is None or text(file, "encoding") != "base64":
        return content
    return decoded(b64decode(content)) or None
