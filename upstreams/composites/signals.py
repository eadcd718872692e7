"""Numbers computed from an account and its posts: rates, frequencies, formats. An unknown number is None, never 0."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import fmean, median
from typing import Final, NamedTuple

from upstreams.model.archetypes import Record

DAY_S: Final = 86_400.0
WEEK_S: Final = 7 * DAY_S


class Rate(NamedTuple):
    """A post's engagement rate, relative to its views or, if they are unknown, to its author's followers."""

    value: float
    by_views: bool


def rate_of(post: Record, followers: int | None) -> Rate | None:
    """Return likes, comments and shares divided by views, or by followers if views are unknown.

    None if unknown or above 1.
    """
    engagement = post["engagement"]
    parts = [engagement[name] for name in ("likes", "comments", "shares") if engagement[name] is not None]
    whole = engagement["views"] or followers
    if not parts or not whole or sum(parts) > whole:
        return None
    return Rate(sum(parts) / whole, bool(engagement["views"]))


def moments_of(posts: Sequence[Record]) -> list[float]:
    """Return when the posts were published, in Unix seconds, oldest first."""
    return sorted(unix(post["published_at"]) for post in posts if post["published_at"])


def unix(instant: str) -> float:
    """Return the time of a record's timestamp in Unix seconds."""
    return datetime.fromisoformat(instant).timestamp()


def posts_per_week(posts: Sequence[Record]) -> float | None:
    """Return the posts per week, or None if there are fewer than two posts or all have the same time."""
    moments = moments_of(posts)
    if len(moments) < 2 or moments[-1] == moments[0]:
        return None
    return (len(moments) - 1) * WEEK_S / (moments[-1] - moments[0])


def format_of(post: Record) -> str:
    """Return the format of a post: video, image, link or text."""
    content = post["content"]
    if content["duration_seconds"] is not None:
        return "video"
    if content["media_urls"]:
        return "image"
    return "link" if post["ext"].get("link") else "text"


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean of the known values."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def median_of(values: Sequence[float | None]) -> float | None:
    """Return the median of the known values."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def rounded(value: float | None, digits: int = 4) -> float | None:
    """Return a number, rounded for the response."""
    return None if value is None else round(value, digits)
