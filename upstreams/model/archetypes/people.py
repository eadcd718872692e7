"""People, organizations and channels."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Instant, Record, Url
from upstreams.model.computed import author_computed


def author(  # noqa: PLR0913 - one argument a field of the archetype
    *,
    id: Annotated[str | None, "The platform's own id of the account."],  # noqa: A002 - the field's own name
    username: Annotated[str | None, "The name that the account is called by."] = None,
    display_name: Annotated[str | None, "The name that the account shows."] = None,
    avatar_url: Annotated[Url, "The address of its picture."] = None,
    bio: Annotated[str | None, "What it says about itself, as plain text."] = None,
    verified: Annotated[bool | None, "Whether the platform vouches for it."] = None,
    followers: Annotated[int | None, "Accounts that follow it."] = None,
    following: Annotated[int | None, "Accounts that it follows."] = None,
    posts_count: Annotated[int | None, "Posts that it made, repositories on code hosts."] = None,
    likes_count: Annotated[int | None, "Likes that it received, or what comes closest: karma, reputation."] = None,
    url: Annotated[Url, "Its page on the platform."] = None,
    private: Annotated[bool | None, "Whether only some may see its posts."] = None,
    joined_at: Annotated[Instant, "The time since when it exists."] = None,
    location: Annotated[str | None, "Where it says that it is."] = None,
    external_url: Annotated[str | None, "The website that it names."] = None,
    ext: Annotated[Record | None, "More that this platform alone tells."] = None,
) -> Record:
    """One account."""
    ext = ext or {}
    return locals()


def byline(
    *,
    id: Annotated[str | None, "The platform's own id of the account."],  # noqa: A002 - the field's own name
    username: Annotated[str | None, "The name that the account is called by."] = None,
    display_name: Annotated[str | None, "The name that the account shows."] = None,
    avatar_url: Annotated[Url, "The address of its picture."] = None,
    verified: Annotated[bool | None, "Whether the platform vouches for it."] = None,
    url: Annotated[Url, "Its page on the platform."] = None,
) -> Record:
    """The author of a post or comment, as far as a row tells."""
    return locals()


AUTHOR = Archetype("Author", "author", author, computed=author_computed)
AUTHOR_LIST = Archetype("AuthorList", "author", author, many=True, computed=author_computed)
