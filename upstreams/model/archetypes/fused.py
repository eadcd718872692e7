"""Rows of many platforms in one list, and what stands beside them."""

from __future__ import annotations

from typing import Annotated

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


EVERYWHERE = Archetype("FusedPostList", "", fused, many=True, has_legs=True, beside=by_source)
