"""Numbers that follow from an account and its posts: rates, cadence, formats. What is not known is None, never 0."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import fmean, median
from typing import Final, NamedTuple

from upstreams.model.archetypes import Record

DAY_S: Final = 86_400.0
WEEK_S: Final = 7 * DAY_S


class Rate(NamedTuple):
    """The engagement of a post, of its views where these are told, else of its author's followers."""

    value: float
    by_views: bool


def rate_of(post: Record, followers: int | None) -> Rate | None:
    """Likes, comments and shares over views, else over followers; None where they are not told or come to over 1."""
    engagement = post["engagement"]
    parts = [engagement[name] for name in ("likes", "comments", "shares") if engagement[name] is not None]
    whole = engagement["views"] or followers
    if not parts or not whole or sum(parts) > whole:
        return None
    return Rate(sum(parts) / whole, bool(engagement["views"]))


def moments_of(posts: Sequence[Record]) -> list[float]:
    """When the posts were published, in Unix seconds, oldest first."""
    return sorted(unix(post["published_at"]) for post in posts if post["published_at"])


def unix(instant: str) -> float:
    """An instant of a record as Unix seconds."""
    return datetime.fromisoformat(instant).timestamp()


def posts_per_week(posts: Sequence[Record]) -> float | None:
    """How often these follow each other; None for fewer than two, or all at once."""
    moments = moments_of(posts)
    if len(moments) < 2 or moments[-1] == moments[0]:
        return None
    return (len(moments) - 1) * WEEK_S / (moments[-1] - moments[0])


def format_of(post: Record) -> str:
    """The form of a post: video, image, link or text."""
    content = post["content"]
    if content["duration_seconds"] is not None:
        return "video"
    if content["media_urls"]:
        return "image"
    return "link" if post["ext"].get("link") else "text"


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean of those that are known."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def median_of(values: Sequence[float | None]) -> float | None:
    """The median of those that are known."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def rounded(value: float | None, digits: int = 4) -> float | None:
    """A number as it is told."""
    return None if value is None else round(value, digits)
