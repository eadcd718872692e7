"""People, organizations and channels."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Record, Url
from upstreams.model.computed import author_computed


def author(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The account's ID on the platform."],  # noqa: A002 - the field's own name
    username: Annotated[str | None, "Username of the account."] = None,
    display_name: Annotated[str | None, "Display name of the account."] = None,
    avatar_url: Annotated[Url, "URL of the avatar."] = None,
    bio: Annotated[str | None, "The profile text, as plain text."] = None,
    verified: Annotated[bool | None, "Whether the platform has verified the account."] = None,
    followers: Annotated[int | None, "Number of followers."] = None,
    following: Annotated[int | None, "Number of accounts that the account follows."] = None,
    posts_count: Annotated[int | None, "Number of posts, or of repositories on code hosts."] = None,
    likes_count: Annotated[int | None, "Likes received, or the closest equivalent: karma or reputation."] = None,
    url: Annotated[Url, "URL of the profile."] = None,
    private: Annotated[bool | None, "Whether only approved accounts can see the posts."] = None,
    joined_at: Annotated[Instant, "When the account was created."] = None,
    last_post_at: Annotated[Instant, "Time of the latest post."] = None,
    location: Annotated[str | None, "The location that the profile states."] = None,
    external_url: Annotated[str | None, "The website that the profile links to."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """An account."""
    ext = ext or {}
    return locals()


def byline(
    *,
    id: Annotated[str | None, "The account's ID on the platform."],  # noqa: A002 - the field's own name
    username: Annotated[str | None, "Username of the account."] = None,
    display_name: Annotated[str | None, "Display name of the account."] = None,
    avatar_url: Annotated[Url, "URL of the avatar."] = None,
    verified: Annotated[bool | None, "Whether the platform has verified the account."] = None,
    url: Annotated[Url, "URL of the profile."] = None,
) -> Record:
    """The author of a post or comment, limited to the fields shown in a row."""
    return locals()


AUTHOR = Archetype(
    "Author",
    "author",
    author,
    computed=author_computed,
    kind="profile",
    lookup_rank=60,
    roles=(Contract("profile", "profile"),),
)
AUTHOR_LIST = Archetype("AuthorList", "author", author, many=True, computed=author_computed, row_kind="account")
ARCHETYPES = (AUTHOR, AUTHOR_LIST)
