"""The named response shapes: constructors of records, and how rows are wrapped (spec 2.2, decisions 3).

A record holds every field of its archetype; what the upstream did not send is None. Where the fields are flat they are
the constructor's arguments, in their order (`locals()`), so that no name is written twice. `ext.language`, where a
platform sets it, is the upstream's own language tag and wins over detection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from upstreams.model.computed import Computed, author_computed, post_computed

Record = dict[str, Any]


def author(  # noqa: PLR0913 - one argument a field of the archetype
    *,
    id: str | None,  # noqa: A002 - the field's own name
    username: str | None = None,
    display_name: str | None = None,
    avatar_url: str | None = None,
    bio: str | None = None,
    verified: bool | None = None,
    followers: int | None = None,
    following: int | None = None,
    posts_count: int | None = None,
    likes_count: int | None = None,
    url: str | None = None,
    private: bool | None = None,
    joined_at: str | None = None,
    location: str | None = None,
    external_url: str | None = None,
    ext: Record | None = None,
) -> Record:
    """One account."""
    ext = ext or {}
    return locals()


def byline(
    *,
    id: str | None,  # noqa: A002 - the field's own name
    username: str | None = None,
    display_name: str | None = None,
    avatar_url: str | None = None,
    verified: bool | None = None,
    url: str | None = None,
) -> Record:
    """The author of a post or comment, as far as a row tells."""
    return locals()


def post(  # noqa: PLR0913 - one argument a field of the archetype
    *,
    id: str | None,  # noqa: A002 - the field's own name
    url: str | None,
    text: str | None,
    author: Record | None,
    media_urls: list[str] | None = None,
    thumbnail_url: str | None = None,
    duration_seconds: float | None = None,
    views: int | None = None,
    likes: int | None = None,
    comments: int | None = None,
    shares: int | None = None,
    saves: int | None = None,
    pinned: bool | None = None,
    deleted: bool | None = None,
    nsfw: bool | None = None,
    spoiler: bool | None = None,
    published_at: str | None = None,
    ext: Record | None = None,
) -> Record:
    """One post: a story, an issue, a question, a message."""
    return {
        "id": id,
        "url": url,
        "content": {
            "text": text,
            "media_urls": media_urls or [],
            "thumbnail_url": thumbnail_url,
            "duration_seconds": duration_seconds,
        },
        "author": author,
        "engagement": {"views": views, "likes": likes, "comments": comments, "shares": shares, "saves": saves},
        "flags": {"pinned": pinned, "deleted": deleted, "nsfw": nsfw, "spoiler": spoiler},
        "published_at": published_at,
        "ext": ext or {},
    }


def comment(
    *,
    id: str | None,  # noqa: A002 - the field's own name
    url: str | None = None,
    parent_id: str | None = None,
    post_id: str | None = None,
    text: str | None = None,
    author: Record | None = None,
    likes: int | None = None,
    replies_count: int | None = None,
    pinned: bool | None = None,
    deleted: bool | None = None,
    published_at: str | None = None,
    replies: list[Record] | None = None,
) -> Record:
    """One comment; a tombstone has `deleted=True`, no text and no author."""
    return {
        "id": id,
        "url": url,
        "parent_id": parent_id,
        "post_id": post_id,
        "text": text,
        "author": author,
        "engagement": {"likes": likes, "replies": replies_count},
        "flags": {"pinned": pinned, "deleted": deleted},
        "published_at": published_at,
        "replies": replies or [],
    }


def repository(  # noqa: PLR0913 - one argument a field of the archetype
    *,
    id: str | None,  # noqa: A002 - the field's own name
    url: str | None,
    full_name: str | None,
    name: str | None,
    owner: Record | None,
    description: str | None = None,
    homepage: str | None = None,
    language: str | None = None,
    topics: list[str] | None = None,
    license: str | None = None,  # noqa: A002 - the field's own name
    stars: int | None = None,
    forks: int | None = None,
    watchers: int | None = None,
    open_issues: int | None = None,
    size_kb: int | None = None,
    default_branch: str | None = None,
    archived: bool | None = None,
    fork: bool | None = None,
    created_at: str | None = None,
    updated_at: str | None = None,
    pushed_at: str | None = None,
) -> Record:
    """One code repository."""
    return locals()


def owner(*, username: str | None, avatar_url: str | None = None, type: str | None = None) -> Record:  # noqa: A002
    """The owner of a repository."""
    return locals()


def release(
    *,
    id: str | None,  # noqa: A002 - the field's own name
    url: str | None,
    tag: str | None,
    name: str | None,
    text: str | None,
    prerelease: bool | None = None,
    author: str | None = None,
    published_at: str | None = None,
    ext: Record | None = None,
) -> Record:
    """One release of a repository; `author` is a username."""
    ext = ext or {}
    return locals()


def article(
    *,
    id: str | None,  # noqa: A002 - the field's own name
    url: str | None,
    title: str | None,
    text: str | None,
    description: str | None = None,
    image_url: str | None = None,
    language: str | None = None,
    updated_at: str | None = None,
    ext: Record | None = None,
) -> Record:
    """One page of text: a readme, an encyclopedia page."""
    ext = ext or {}
    return locals()


@dataclass(frozen=True, slots=True)
class Archetype:
    """A named shape: `key` is the record's name in `data` and in each row; an empty key spreads the record itself."""

    name: str
    key: str
    many: bool = False
    computed: Computed | None = None

    def wrap(self, record: Record, warnings: list[str]) -> Record:
        """The record under its key, with its computed fields beside it (decisions 3); a dict of its own."""
        if not self.key:
            return {**record}
        if self.computed is None:
            return {self.key: record}
        return {self.key: record, "computed": self.computed(record, warnings)}


AUTHOR = Archetype("Author", "author", computed=author_computed)
AUTHOR_LIST = Archetype("AuthorList", "author", many=True, computed=author_computed)
POST = Archetype("Post", "post", computed=post_computed)
POST_LIST = Archetype("PostList", "post", many=True, computed=post_computed)
COMMENT_LIST = Archetype("CommentList", "comment", many=True)
REPOSITORY = Archetype("Repository", "repository")
REPOSITORY_LIST = Archetype("RepositoryList", "repository", many=True)
RELEASE_LIST = Archetype("ReleaseList", "release", many=True)
ARTICLE = Archetype("Article", "article")
DOSSIER = Archetype("RepositoryDossier", "")
VELOCITY = Archetype("ProfileVelocity", "")
