"""A brand that is spoken of more, or worse, than on usual days, and the second look at it."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.insight.words import source, tones
from upstreams.model.archetypes.posts import post as post_record
from upstreams.model.archetypes.shape import Archetype, Of, Record


def volume(
    *,
    date: Annotated[str, "The day in UTC."],
    volume: Annotated[int, "Mentions of that day."],
    negative_share: Annotated[float | None, "The share of negative ones among those with a tone; null without any."],
) -> Record:
    """One day of a series."""
    return locals()


def baseline(
    *,
    first: Annotated[str, "Its first day."],
    last: Annotated[str, "Its last day, the one before the day that is judged."],
    days: Annotated[int, "Its days."],
    rolling_mean_volume: Annotated[float, "Mentions on a usual day."],
    rolling_std_volume: Annotated[float, "Their sample standard deviation."],
    today_volume: Annotated[int, "Mentions on the day that is judged."],
    rolling_mean_negative_share: Annotated[float | None, "The negative share of a usual day that has one."],
    rolling_std_negative_share: Annotated[float | None, "Its sample standard deviation; null with less than 3 days."],
    today_negative_share: Annotated[float | None, "The negative share of the day that is judged."],
) -> Record:
    """The days that the day which is judged is compared with."""
    record = locals()
    return {"from": record.pop("first"), "to": record.pop("last"), **record}


def angry(
    *,
    post: Annotated[Record, Of(post_record), "The post."],
    platform: Annotated[str, "The slug of its platform."],
    anger: Annotated[int, "Its words that displease, less those that please."],
) -> Record:
    """A mention that displeases."""
    return locals()


def best(
    *,
    post: Annotated[Record, Of(post_record), "The post."],
    platform: Annotated[str, "The slug of the platform that puts it highest."],
    score: Annotated[float, "As that of search/everywhere."],
) -> Record:
    """One of the best posts about a brand."""
    return locals()


def severity(
    *,
    volume: Annotated[int | None, "z_volume as a share of twice the sensitivity."],
    tone: Annotated[int | None, "z_negative_share likewise; null where it is not known."],
    spread: Annotated[int | None, "The share of the searches that answered which have a negative mention of the day."],
    readers: Annotated[int | None, "The negative share of the comments; null without one that has a tone."],
) -> Record:
    """The parts of a severity, 0 to 100 each."""
    return locals()


def confirmation(
    *,
    severity: Annotated[int, "0 to 100: the mean of its parts that are known."],
    parts: Annotated[Record, Of(severity), "Its parts."],
    sentiment: Annotated[Record, Of(tones), "The tone of the day's mentions."],
    readers: Annotated[Record, Of(tones), "The tone of the comments on those with the most engagement."],
    by_anger: Annotated[list[Record], Of(angry), "The ten mentions of the day that displease the most."],
    items: Annotated[list[Record], Of(best), "The ten best posts about the brand on all platforms, of any day."],
) -> Record:
    """A second look at a breach."""
    return locals()


def crisis_radar(  # noqa: PLR0913 - one argument a field of the archetype
    *,
    brand: Annotated[str, "The phrase that was looked for."],
    alert_level: Annotated[str | None, "calm, watch, alert or crisis; null without a platform that reaches back."],
    breached: Annotated[bool | None, "Whether one of the two is at or above the sensitivity."],
    z_volume: Annotated[float | None, "How far the day's mentions are above the usual, in standard deviations."],
    z_negative_share: Annotated[float | None, "The same of the negative share; null where it is not known."],
    sensitivity: Annotated[float, "The deviation from which on it is a breach."],
    baseline_window: Annotated[Record | None, Of(baseline), "What it is compared with."],
    daily_series: Annotated[list[Record], Of(volume), "Each day of the baseline, and the day that is judged."],
    is_partial_day: Annotated[bool, "Whether the day that is judged is not over."],
    severity: Annotated[int | None, "That of `confirmation`."],
    confirmation: Annotated[Record | None, Of(confirmation), "With `confirm` and a breach; null else."],
    sources: Annotated[list[Record], Of(source), "What each platform has; only complete ones are counted."],
    method: Annotated[str, "How it is computed."],
) -> Record:
    """Whether a brand is spoken of more, or worse, than on usual days."""
    return locals()


CRISIS_RADAR = Archetype(
    "CrisisRadar", "", crisis_radar, has_legs=True, findings=("daily_series.volume", "confirmation")
)
