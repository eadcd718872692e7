"""Threads ranked by their likes and comments, and the comments on threads."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from upstreams.composites.legs import Settled, attempt, part_of, playing
from upstreams.composites.prism.insight.sweep import Mention
from upstreams.composites.prism.insight.tone import Tone, tone_of
from upstreams.model.archetypes import Record
from upstreams.model.computed.language import language_of
from upstreams.model.endpoint import Platform
from upstreams.model.steps import Part


def weightiest(listed: Sequence[Mention]) -> list[Mention]:
    """Return the mentions with the highest sum of likes and comments first."""
    return sorted(listed, key=_weight, reverse=True)


def _weight(mention: Mention) -> int:
    engagement = mention.row["post"]["engagement"]
    return sum(engagement[name] or 0 for name in ("likes", "comments"))


def comments_parts(platforms: Sequence[Platform], listed: Sequence[Mention]) -> list[Part | None]:
    """Return for each thread the part that reads its comments, or None if its platform does not offer comments."""
    by_slug = {one.slug: one for one in playing(platforms, "comments")}
    return [comments_part(by_slug[one.platform], one) if one.platform in by_slug else None for one in listed]


def comments_part(platform: Platform, mention: Mention) -> Part:
    """Return a part that reads the comments on a thread. It uses the thread's URL if possible, and its id if not."""
    endpoint = platform.playing("comments")
    assert endpoint is not None, "only platforms that offer comments get here"
    post = mention.row["post"]
    for param in endpoint.params:
        if param.name in endpoint.named_by and post["url"] and (value := param.at_address(post["url"])) is not None:
            return part_of(platform, "comments", {param.name: value}, rows=100)
    return part_of(platform, "comments", {endpoint.named_by[-1]: str(post["id"])}, rows=100)


def read_comments(
    platforms: Sequence[Platform], listed: Sequence[Mention]
) -> Generator[tuple[Part, ...], Any, list[Settled | None]]:
    """Read the comments on these threads in parallel.

    The result is None for a thread whose platform does not offer comments.
    """
    parts = comments_parts(platforms, listed)
    settled = iter((yield from attempt([part for part in parts if part is not None])))
    return [None if part is None else next(settled) for part in parts]


def tones_of(rows: Sequence[Record]) -> list[Tone | None]:
    """Return the tones of comments and of their replies, whose language is detected from their words."""
    return [tone_of(text, language_of(text)) for one in each_comment(rows) if (text := one["text"])]


def each_comment(rows: Sequence[Record]) -> list[Record]:
    """Return comments and their replies, one level after the other."""
    found, level = list[Record](), list(rows)
    while level:
        found += level
        level = [reply for one in level for reply in one["replies"]]
    return found
