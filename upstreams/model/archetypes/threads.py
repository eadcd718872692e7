"""Posts that were found on many platforms, what is said below them, and all comments on one."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.composites import resolved as resolved_record
from upstreams.model.archetypes.insight.words import tones
from upstreams.model.archetypes.posts import comment as comment_record
from upstreams.model.archetypes.posts import post as post_record
from upstreams.model.archetypes.shape import Archetype, Of, Record, Url
from upstreams.model.archetypes.shape import computed as computed_record


def sighting(
    *,
    platform: Annotated[str, "The slug of the platform that has it."],
    rank: Annotated[int, "Its place among that platform's rows, from 1 on, all pages together."],
    id: Annotated[str | None, "Its id there."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "Its page there."],
) -> Record:
    """One place where a row was found."""
    return locals()


def fused(
    *,
    post: Annotated[Record, Of(post_record), "The post, as the platform tells it that puts it highest."],
    computed: Annotated[Record, Of(computed_record), "What is computed of it."],
    platform: Annotated[str, "The slug of that platform."],
    score: Annotated[float, "The sum over its places of weight / (60 + rank); the rows stand in its order."],
    found_in: Annotated[list[Record], Of(sighting), "All places where it was found, the highest first."],
) -> Record:
    """One post that was found, perhaps on several platforms."""
    return locals()


def by_source(
    *,
    items_by_source: Annotated[
        Record, "The rows of each platform that answered, by its slug, in its own order: `{post, computed}` each."
    ],
) -> Record:
    """The same rows by the platforms that they came from."""
    return locals()


def comments_read(
    *,
    returned: Annotated[int, "The rows here; replies that stand within their comment are no rows."],
    scanned: Annotated[int, "The comments that were read, replies among them: whole pages."],
    sorted_by: Annotated[str | None, "likes_desc where `sort` is top; null: the newest first."],
    resolved: Annotated[Record, Of(resolved_record), "The endpoint that the pages came from."],
) -> Record:
    """How the comments were read."""
    return locals()


def expanded(
    *,
    post: Annotated[Record, Of(post_record), "The post."],
    computed: Annotated[Record, Of(computed_record), "What is computed of it."],
    comments: Annotated[
        list[Record] | None, Of(comment_record), "The first comments on it, 15 at most; null where they were not read."
    ],
) -> Record:
    """One post that was found, with the comments on it."""
    return locals()


def community_share(
    *,
    name: Annotated[str, "The community's name or number."],
    posts: Annotated[int, "Posts of this page that are in it."],
    likes: Annotated[int | None, "Their likes together; null where none is told."],
    comments: Annotated[int | None, "Their comments together, likewise."],
    tone: Annotated[Record, Of(tones), "The tone of the posts and of the comments that were read."],
) -> Record:
    """A community's part in a page of posts."""
    return locals()


def rolled_up(
    *,
    communities: Annotated[
        list[Record] | None, Of(community_share), "The communities of this page's posts, most posts first."
    ],
    threads_expanded: Annotated[int, "Posts whose comments were read."],
) -> Record:
    """A page of posts by community."""
    return locals()


GATHERED = Archetype("GatheredCommentList", "comment", comment_record, many=True, has_legs=True, beside=comments_read)
OMNI = Archetype("ExpandedPostList", "", expanded, many=True, has_legs=True, beside=rolled_up)
EVERYWHERE = Archetype("FusedPostList", "", fused, many=True, has_legs=True, beside=by_source)
