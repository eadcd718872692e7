"""GitHub's JSON as our records: pure functions from one upstream object to one record."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from upstreams.model.archetypes import Record, article, author, byline, comment, post, release, repository
from upstreams.model.fields import (
    Json,
    count,
    decoded,
    flag,
    ident,
    instant,
    joined,
    obj,
    part,
    parts,
    text,
    texts,
    total_of,
)


def author_of(user: Json) -> Record:
    """A user or an organization; rows of lists carry only id, login, avatar and address."""
    return author(
        id=ident(user, "id"),
        username=text(user, "login"),
        display_name=text(user, "name"),
        avatar_url=text(user, "avatar_url"),
        bio=text(user, "bio"),
        followers=count(user, "followers"),
        following=count(user, "following"),
        posts_count=count(user, "public_repos"),
        url=text(user, "html_url"),
        joined_at=instant(user, "created_at"),
        location=text(user, "location"),
        external_url=text(user, "blog"),
        ext={
            "company": text(user, "company"),
            "twitter_username": text(user, "twitter_username"),
            "type": text(user, "type"),
            "public_gists": count(user, "public_gists"),
        },
    )


def repository_of(repo: Json) -> Record:
    """A repository; `watchers` is told only by the call for one repository (`watchers_count` repeats the stars)."""
    return repository(
        id=ident(repo, "id"),
        url=text(repo, "html_url"),
        full_name=text(repo, "full_name"),
        name=text(repo, "name"),
        owner=_owner_of(repo),
        description=text(repo, "description"),
        homepage=text(repo, "homepage"),
        language=text(repo, "language"),
        topics=texts(repo, "topics"),
        license=text(part(repo, "license"), "spdx_id"),
        stars=count(repo, "stargazers_count"),
        forks=count(repo, "forks_count"),
        watchers=count(repo, "subscribers_count"),
        open_issues=count(repo, "open_issues_count"),
        size_kb=count(repo, "size"),
        default_branch=text(repo, "default_branch"),
        archived=flag(repo, "archived"),
        fork=flag(repo, "fork"),
        created_at=instant(repo, "created_at"),
        updated_at=instant(repo, "updated_at"),
        pushed_at=instant(repo, "pushed_at"),
    )


def _owner_of(repo: Json) -> Record | None:
    owner = part(repo, "owner")
    if not owner:
        return None
    return {"username": text(owner, "login"), "avatar_url": text(owner, "avatar_url"), "type": text(owner, "type")}


def _byline_of(item: Json) -> Record | None:
    user = part(item, "user")
    if not user:
        return None
    return byline(
        id=ident(user, "id"),
        username=text(user, "login"),
        avatar_url=text(user, "avatar_url"),
        url=text(user, "html_url"),
    )


def issue_of(issue: Json) -> Record:
    """An issue or a pull request; the author of a deleted account is null."""
    return post(
        id=ident(issue, "number"),
        url=text(issue, "html_url"),
        text=joined(text(issue, "title"), text(issue, "body")),
        author=_byline_of(issue),
        likes=count(part(issue, "reactions"), "total_count"),
        comments=count(issue, "comments"),
        published_at=instant(issue, "created_at"),
        ext={
            "node": ident(issue, "id"),
            "state": text(issue, "state"),
            "state_reason": text(issue, "state_reason"),
            "labels": _labels_of(issue),
            "closed_at": instant(issue, "closed_at"),
            "is_pr": _is_pull_request(issue),
        },
    )


def _labels_of(issue: Json) -> list[str] | None:
    """The labels' names; GitHub documents a bare name in place of a label as well."""
    if not isinstance(issue.get("labels"), list):
        return None
    labels = (label if isinstance(label, dict) else {"name": label} for label in issue["labels"])
    return [name for label in labels if (name := text(label, "name"))]


def _is_pull_request(issue: Json) -> bool:
    """Old answers carry the member on every issue, with null addresses inside when it is none."""
    return any(part(issue, "pull_request").values())


def comment_of(entry: Json, post_id: str) -> Record:
    """A comment of an issue."""
    return comment(
        id=ident(entry, "id"),
        url=text(entry, "html_url"),
        post_id=post_id,
        text=text(entry, "body"),
        author=_byline_of(entry),
        likes=count(part(entry, "reactions"), "total_count"),
        published_at=instant(entry, "created_at"),
    )


def release_of(entry: Json) -> Record:
    """One release of a repository."""
    return release(
        id=ident(entry, "id"),
        url=text(entry, "html_url"),
        tag=text(entry, "tag_name"),
        name=text(entry, "name"),
        text=text(entry, "body"),
        prerelease=flag(entry, "prerelease"),
        author=text(part(entry, "author"), "login"),
        published_at=instant(entry, "published_at"),
        ext={"downloads": _downloads_of(entry)},
    )


def _downloads_of(entry: Json) -> int | None:
    """The downloads of all assets; a release that has none was downloaded zero times."""
    if not isinstance(entry.get("assets"), list):
        return None
    counts = [count(asset, "download_count") for asset in parts(entry, "assets")]
    return None if None in counts else total_of((0, *counts))


def readme_of(body: Any, full_name: str) -> Record:
    """A readme, from the JSON form (with its file name and base64 content) or from the raw text."""
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
    """The content; GitHub breaks its base64 into lines, and leaves it out of files above 1 MB."""
    content = text(file, "content")
    if content is None or text(file, "encoding") != "base64":
        return content
    return decoded(b64decode(content)) or None
