"""Posts found on several platforms, the discussion below them, and all comments on one post."""

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
    platform: Annotated[str, "Slug of the platform."],
    rank: Annotated[int, "Position among the platform's rows, starting at 1, counted over all pages."],
    id: Annotated[str | None, "ID of the post on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the post on the platform."],
) -> Record:
    """One platform on which a row was found."""
    return locals()


def fused(
    *,
    post: Annotated[Record, Of(post_record), "The post, as returned by the platform that ranks it highest."],
    computed: Annotated[Record, Of(computed_record), "Fields computed from the post."],
    platform: Annotated[str, "Slug of the platform that ranks the post highest."],
    score: Annotated[float, "Sum of weight / (60 + rank) over all platforms. The rows are sorted by this score."],
    found_in: Annotated[list[Record], Of(sighting), "All platforms where the post was found, highest rank first."],
) -> Record:
    """A post found on one or more platforms."""
    return locals()


def by_source(
    *,
    items_by_source: Annotated[
        Record, "The rows by platform slug, in the platform's own order, each as `{post, computed}`."
    ],
) -> Record:
    """The same rows, grouped by platform."""
    return locals()


def comments_read(
    *,
    returned: Annotated[int, "Number of rows on this page. Replies inside a comment are not rows."],
    scanned: Annotated[int, "Number of comments read, including replies, in whole pages."],
    sorted_by: Annotated[str | None, "likes_desc if `sort` is top; null if newest first."],
    resolved: Annotated[Record, Of(resolved_record), "The endpoint that the pages came from."],
) -> Record:
    """How the comments were read."""
    return locals()


def expanded(
    *,
    post: Annotated[Record, Of(post_record), "The post."],
    computed: Annotated[Record, Of(computed_record), "Fields computed from the post."],
    comments: Annotated[
        list[Record] | None, Of(comment_record), "Up to 15 of the first comments; null if they were not read."
    ],
) -> Record:
    """A post with its first comments."""
    return locals()


def community_share(
    *,
    name: Annotated[str, "Name or number of the community."],
    posts: Annotated[int, "Posts on this page that belong to the community."],
    likes: Annotated[int | None, "Total likes on the posts; null if unknown."],
    comments: Annotated[int | None, "Total comments on the posts; null if unknown."],
    tone: Annotated[Record, Of(tones), "The tone of the posts and of the comments that were read."],
) -> Record:
    """The share of one community in a page of posts."""
    return locals()


def rolled_up(
    *,
    communities: Annotated[
        list[Record] | None, Of(community_share), "The communities of the posts on this page, most posts first."
    ],
    threads_expanded: Annotated[int, "Posts whose comments were read."],
) -> Record:
    """A page of posts, grouped by community."""
    return locals()


GATHERED = Archetype("GatheredCommentList", "comment", comment_record, many=True, has_legs=True, beside=comments_read)
OMNI = Archetype("ExpandedPostList", "", expanded, many=True, has_legs=True, beside=rolled_up)
EVERYWHERE = Archetype("FusedPostList", "", fused, many=True, has_legs=True, beside=by_source)
ARCHETYPES = (EVERYWHERE, GATHERED, OMNI)
