"""Responses about brands that get more mentions, or more negative ones, than on a normal day."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.insight.words import source, tones
from upstreams.model.archetypes.posts import post as post_record
from upstreams.model.archetypes.shape import Archetype, Of, Record


def volume(
    *,
    date: Annotated[str, "The day in UTC."],
    volume: Annotated[int, "Mentions on the day."],
    negative_share: Annotated[
        float | None, ("Share of negative mentions among those with a tone; null if none has a tone.")
    ],
) -> Record:
    """One day of a series."""
    return locals()


def baseline(
    *,
    first: Annotated[str, "First day of the baseline."],
    last: Annotated[str, "Last day of the baseline: the day before the tested day."],
    days: Annotated[int, "Days in the baseline."],
    rolling_mean_volume: Annotated[float, "Mean mentions per day."],
    rolling_std_volume: Annotated[float, "Sample standard deviation of the mentions per day."],
    today_volume: Annotated[int, "Mentions on the tested day."],
    rolling_mean_negative_share: Annotated[float | None, "Mean negative share of the days that have one."],
    rolling_std_negative_share: Annotated[
        float | None, ("Sample standard deviation of the negative share; null for fewer than 3 days.")
    ],
    today_negative_share: Annotated[float | None, "Negative share of the tested day."],
) -> Record:
    """The days to which the tested day is compared."""
    record = locals()
    return {"from": record.pop("first"), "to": record.pop("last"), **record}


def angry(
    *,
    post: Annotated[Record, Of(post_record), "The post."],
    platform: Annotated[str, "Slug of the post's platform."],
    anger: Annotated[int, "Number of negative words minus number of positive words."],
) -> Record:
    """A negative mention."""
    return locals()


def best(
    *,
    post: Annotated[Record, Of(post_record), "The post."],
    platform: Annotated[str, "Slug of the platform that ranks the post highest."],
    score: Annotated[float, "The score, computed as in search/everywhere."],
) -> Record:
    """One of the best posts about a brand."""
    return locals()


def severity(
    *,
    volume: Annotated[int | None, "z_volume as a share of twice the sensitivity."],
    tone: Annotated[int | None, "z_negative_share as a share of twice the sensitivity; null if unknown."],
    spread: Annotated[int | None, "Share of the answered searches that have a negative mention on the day."],
    readers: Annotated[int | None, "Negative share of the comments; null if no comment has a tone."],
) -> Record:
    """The parts of a severity, 0 to 100 each."""
    return locals()


def confirmation(
    *,
    severity: Annotated[int, "0 to 100: the mean of the known parts."],
    parts: Annotated[Record, Of(severity), "The parts of the severity."],
    sentiment: Annotated[Record, Of(tones), "The tone of the day's mentions."],
    readers: Annotated[Record, Of(tones), "The tone of the comments on the mentions with the most engagement."],
    by_anger: Annotated[list[Record], Of(angry), "The ten most negative mentions of the day."],
    items: Annotated[list[Record], Of(best), "The ten best posts about the brand on all platforms, from any day."],
) -> Record:
    """The detailed confirmation of a breach."""
    return locals()


def crisis_radar(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    brand: Annotated[str, "The search phrase."],
    alert_level: Annotated[str | None, "calm, watch, alert or crisis; null if no platform is complete."],
    breached: Annotated[bool | None, "Whether z_volume or z_negative_share reaches the sensitivity."],
    z_volume: Annotated[float | None, "The day's mentions minus the mean, in standard deviations."],
    z_negative_share: Annotated[
        float | None, ("The day's negative share minus the mean, in standard deviations; null if unknown.")
    ],
    sensitivity: Annotated[float, "The deviation that counts as a breach."],
    baseline_window: Annotated[Record | None, Of(baseline), "The days to which the tested day is compared."],
    daily_series: Annotated[list[Record], Of(volume), "Each day of the baseline, and the tested day."],
    is_partial_day: Annotated[bool, "Whether the tested day has not ended yet."],
    severity: Annotated[int | None, "The severity from `confirmation`."],
    confirmation: Annotated[
        Record | None, Of(confirmation), ("Set if `confirm` was requested and there is a breach; null otherwise.")
    ],
    sources: Annotated[
        list[Record], Of(source), ("Mentions and coverage by platform. Only complete platforms are counted.")
    ],
    method: Annotated[str, "How the values are computed."],
) -> Record:
    """Whether a brand gets more mentions, or more negative ones, than on a normal day."""
    return locals()


CRISIS_RADAR = Archetype(
    "CrisisRadar", "", crisis_radar, has_legs=True, findings=("daily_series.volume", "confirmation")
)
