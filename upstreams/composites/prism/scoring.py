"""How an audit scores an account: components, their weights, and thresholds (docs/composites.md).

A value without evidence is None, never 0. The weights of the known components are then scaled up to a sum of 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10
from statistics import fmean
from typing import Any, Final, NamedTuple

from upstreams.composites.signals import DAY_S, Rate, mean_of, median_of, moments_of, posts_per_week, rate_of, rounded
from upstreams.model.archetypes import Record

VERSION: Final = "2.0.0"
WEIGHTS: Final[Mapping[str, float]] = {
    "presence": 0.10, "audience": 0.25, "engagement": 0.25, "activity": 0.25, "content_richness": 0.15,
}  # fmt: skip
"""The weights of the components if all of them are known."""
WEIGHT_LEAST: Final = 0.4
"""The minimum total weight of known components. Below it, no score is computed."""
BEST_WEIGHT: Final = 0.7
MEAN_WEIGHT: Final = 0.3
PULL: Final = 60
PULL_PARTIAL: Final = 35
"""The minimum scores at which the audit recommends collecting a username completely or partially."""
BENCHMARK_BY_VIEWS: Final = 0.04
BENCHMARK_BY_FOLLOWERS: Final = 0.01
"""The usual engagement rates, relative to views and to followers."""
_PROFILE_FIELDS: Final = ("display_name", "avatar_url", "bio", "external_url")
_FRESH_DAYS: Final = 7
_OLD_DAYS: Final = 90
_WEEKLY: Final = 3
"""The posts per week that give the full score."""
_TEXT: Final = 200
"""The characters per post that give the full score."""


class Scored(NamedTuple):
    """The score of an account, and its components."""

    score: int | None
    components: Mapping[str, float | None]
    weights: Mapping[str, float | None]
    available: float

    @property
    def status(self) -> str:
        """The status of the score: `complete`, `partial` or `insufficient_evidence`."""
        if self.score is None:
            return "insufficient_evidence"
        return "complete" if all(value is not None for value in self.components.values()) else "partial"


NOTHING: Final = Scored(None, dict.fromkeys(WEIGHTS), dict.fromkeys(WEIGHTS), 0.0)
"""The score of an account that does not exist."""


def signals_of(author: Record, posts: Sequence[Record] | None, now_at: float) -> Record:
    """Return the inputs of the components. `posts` is None if the posts are unknown."""
    rates = [rate for post in posts or () if (rate := rate_of(post, author["followers"])) is not None]
    moments = moments_of(posts or ())
    texts = [len(post["content"]["text"] or "") for post in posts or ()]
    return {
        "followers": author["followers"],
        "verified": author["verified"],
        "posts_total": author["posts_count"],
        "sampled_posts": None if posts is None else len(posts),
        "median_engagement_rate": rounded(median_of([rate.value for rate in rates]), 6),
        "er_benchmark_ratio": rounded(median_of([_beside_usual(rate) for rate in rates])),
        "days_since_last_post": rounded(max(0.0, now_at - moments[-1]) / DAY_S, 2) if moments else None,
        "avg_comments_per_post": rounded(mean_of([post["engagement"]["comments"] for post in posts or ()]), 2),
        "posts_per_week": rounded(posts_per_week(posts or ()), 2),
        "media_fraction": rounded(mean_of([float(_has_media(post)) for post in posts or ()])),
        "avg_text_length": rounded(mean_of(texts), 1),
    }


def _beside_usual(rate: Rate) -> float:
    return rate.value / (BENCHMARK_BY_VIEWS if rate.by_views else BENCHMARK_BY_FOLLOWERS)


def _has_media(post: Record) -> bool:
    return bool(post["content"]["media_urls"]) or post["content"]["duration_seconds"] is not None


def score_of(author: Record, signals: Record, unfilled: frozenset[str]) -> Scored:
    """Return an account's score from its signals. A field that the platform never fills does not lower the score."""
    return _weighted(
        {
            "presence": _completeness(author, unfilled),
            "audience": _audience(signals["followers"]),
            "engagement": _up_to(signals["er_benchmark_ratio"], 2),
            "activity": _activity(signals),
            "content_richness": _richness(signals),
        }
    )


def _weighted(components: Mapping[str, float | None]) -> Scored:
    available_values = {name: value for name, value in components.items() if value is not None}
    available = sum(WEIGHTS[name] for name in available_values)
    weights = {name: rounded(WEIGHTS[name] / available) if name in available_values else None for name in WEIGHTS}
    score = None
    if available >= WEIGHT_LEAST:
        score = round(sum(WEIGHTS[name] * value for name, value in available_values.items()) / available)
    shown = {name: rounded(value, 1) for name, value in components.items()}
    return Scored(score, shown, weights, round(available, 2))


def _completeness(author: Record, unfilled: frozenset[str]) -> float:
    fillable = [name for name in _PROFILE_FIELDS if name not in unfilled]
    filled = sum(1 for name in fillable if author[name])
    return 60 + 40 * filled / len(fillable) if fillable else 60


def _audience(followers: int | None) -> float | None:
    return None if followers is None else min(100.0, 100 * log10(1 + followers) / 6)


def _up_to(value: float | None, best: float) -> float | None:
    """Return a score from 0 to 100 that grows in proportion to the value, and is 100 from `best` on."""
    return None if value is None else 100 * min(1.0, value / best)


def _activity(signals: Record) -> float | None:
    if signals["sampled_posts"] == 0:
        return 0.0
    days: float | None = signals["days_since_last_post"]
    if days is None:
        return None
    recency = 100 * max(0.0, min(1.0, (_OLD_DAYS - days) / (_OLD_DAYS - _FRESH_DAYS)))
    often = _up_to(signals["posts_per_week"], _WEEKLY)
    return recency if often is None else 0.6 * recency + 0.4 * often


def _richness(signals: Record) -> float | None:
    media: float | None = signals["media_fraction"]
    length: float | None = signals["avg_text_length"]
    if media is None or length is None:
        return None
    return 50 * min(1.0, media / 0.5) + 50 * min(1.0, length / _TEXT)


class Overall(NamedTuple):
    """The score over all platforms, and the values from which it is computed."""

    score: int | None
    best: tuple[str, ...]
    """The platforms that have a score, best first."""
    mean: float | None
    scored: Scored
    """The mean of each component over these platforms."""


def whole_of(platforms: Mapping[str, Scored]) -> Overall:
    """Return the score over all platforms that have the account: 0.7 x the best score + 0.3 x the mean score."""
    scores = {slug: one.score for slug, one in platforms.items() if one.score is not None}
    best = tuple(sorted(scores, key=lambda slug: (-scores[slug], slug)))
    means = {name: mean_of([one.components[name] for one in platforms.values()]) for name in WEIGHTS}
    if not best:
        return Overall(None, best, None, _weighted(means))
    mean = fmean(scores.values())
    return Overall(round(BEST_WEIGHT * scores[best[0]] + MEAN_WEIGHT * mean), best, rounded(mean, 1), _weighted(means))


def verdict_of(score: int | None) -> str:
    """Return the recommendation for a username with this score, such as `pull` or `skip`."""
    if score is None:
        return "insufficient_evidence"
    return "pull" if score >= PULL else "pull_partial" if score >= PULL_PARTIAL else "skip"


def coverage_of(platforms: Mapping[str, Scored]) -> dict[str, str]:
    """Return for each component whether all, some or no platforms provide it."""
    return {name: _share([one.components[name] for one in platforms.values()]) for name in WEIGHTS}


def _share(values: Sequence[Any]) -> str:
    available_count = sum(1 for value in values if value is not None)
    return "unavailable" if not available_count else "complete" if available_count == len(values) else "partial"
