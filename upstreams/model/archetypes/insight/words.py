"""Mentions of a phrase by day, for a brand or a campaign."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.posts import post as post_record
from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record
from upstreams.model.archetypes.shape import computed as computed_record


def mention(
    *,
    post: Annotated[Record, Of(post_record), "The post that contains the phrase."],
    computed: Annotated[Record, Of(computed_record), "Fields computed from the post."],
    platform: Annotated[str, "Slug of the post's platform."],
    date: Annotated[str, "The day of publication in UTC."],
    tone: Annotated[
        str | None, ("positive, neutral or negative, from the word list; null if the language has no word list.")
    ],
) -> Record:
    """One dated mention."""
    return locals()


def day(
    *,
    date: Annotated[str, "The day in UTC, or the first day of the week or month."],
    mentions: Annotated[int, "Mentions in the day, week or month."],
    negative_share: Annotated[
        float | None, ("Share of negative mentions among those with a tone; null if none has a tone.")
    ],
) -> Record:
    """The mentions of one day, week or month."""
    return locals()


def source(
    *,
    platform: Annotated[str, "The platform's slug."],
    mentions: Annotated[int | None, "Mentions on the platform in the window; null if the platform did not answer."],
    is_complete: Annotated[bool, ("Whether results were read back to the first day of the window, or to their end.")],
    oldest_seen_at: Annotated[Instant, "Time of the oldest post that was read, whether it contains the phrase or not."],
    dropped: Annotated[int, "Skipped rows: undated, repeated, outside the window, or without the phrase."],
) -> Record:
    """One platform as a source of mentions, and the earliest date that was read from it."""
    return locals()


def window(
    *,
    date_from: Annotated[str, "The first day."],
    date_to: Annotated[str, "The last day."],
    days: Annotated[int, "Number of days from the first to the last."],
) -> Record:
    """A span of whole days in UTC."""
    return locals()


def tones(
    *,
    positive: Annotated[int, "Mentions with more positive words."],
    neutral: Annotated[int, "Mentions with as many positive as negative words, or with none."],
    negative: Annotated[int, "Mentions with more negative words."],
    uncovered: Annotated[int, "Mentions in a language without a word list."],
    positive_share: Annotated[float | None, "Share of positive mentions among those with a tone."],
    negative_share: Annotated[float | None, "Share of negative mentions among those with a tone."],
    method: Annotated[str, "The method: a word list, without a language model."],
) -> Record:
    """The tone of mentions, from a documented word list."""
    return locals()


def around_mentions(
    *,
    window: Annotated[Record | None, Of(window), "The requested days; null without date_from."],
    daily_series: Annotated[list[Record], Of(day), "Mentions on this page by day."],
    sources: Annotated[list[Record], Of(source), "Mentions and coverage by platform."],
    dropped: Annotated[int, "Rows of this page that were skipped."],
    method: Annotated[str, "How mentions are found and counted."],
) -> Record:
    """Statistics about a page of mentions."""
    return locals()


def share(
    *,
    name: Annotated[str, "Name of a platform, an account or a website."],
    mentions: Annotated[int, "Mentions of this source."],
    share: Annotated[float, "The source's share of all mentions."],
) -> Record:
    """One source's share of mentions."""
    return locals()


def trend(
    *,
    slope: Annotated[float | None, "Change in mentions from one day, week or month to the next, by least squares."],
    direction: Annotated[str | None, "rising, steady or falling; null with fewer than three values."],
    methodology_version: Annotated[str, "The version of the method."],
) -> Record:
    """The trend of a series."""
    return locals()


def brand_mentions(
    *,
    keyword: Annotated[str, "The search phrase."],
    window: Annotated[Record, Of(window), "The days that were searched."],
    date_group: Annotated[str, "day, week or month."],
    mentions: Annotated[int, "All mentions."],
    volume_series: Annotated[list[Record], Of(day), "Mentions by day, week or month."],
    sentiment: Annotated[Record, Of(tones), "The tone of the mentions, from a word list."],
    top_sources: Annotated[list[Record], Of(share), "The platforms with the most mentions."],
    top_sites: Annotated[list[Record], Of(share), "The most linked websites."],
    recent_mentions: Annotated[list[Record], Of(mention), "The 20 newest mentions."],
    computed: Annotated[Record, Of(trend), "The trend of the series."],
    sources: Annotated[list[Record], Of(source), "Mentions and coverage by platform."],
    method: Annotated[str, "How mentions are found and counted."],
) -> Record:
    """The mentions of a brand."""
    return locals()


def period(
    *,
    date_from: Annotated[str, "First day of the period."],
    date_to: Annotated[str, "Last day of the period."],
    days: Annotated[int, "Days in the period, excluding future days."],
    mentions: Annotated[int, "Mentions in the period."],
    per_day: Annotated[float | None, "Mentions per day; null if the period has no days."],
) -> Record:
    """A period of a campaign."""
    return locals()


def amplifier(
    *,
    platform: Annotated[str, "The platform's slug."],
    username: Annotated[str | None, "Username of the account."],
    url: Annotated[str | None, "URL of the account."],
    mentions: Annotated[int, "Mentions by the account."],
    engagement: Annotated[int, "Total likes, comments and shares of the mentions, where known."],
    first_seen_at: Annotated[Instant, "Time of the account's first mention."],
    dates: Annotated[list[str] | None, "Days on which the account has mentions; null if not requested."],
) -> Record:
    """An account that spread a campaign."""
    return locals()


def campaign(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    subject: Annotated[str, "The phrase or hashtag."],
    before: Annotated[Record, Of(period), "The days before the campaign."],
    during: Annotated[Record, Of(period), "The days of the campaign."],
    after: Annotated[
        Record | None, Of(period), ("The days after the campaign that have passed; null if there are none yet.")
    ],
    lift_percent: Annotated[
        float | None, ("Increase in mentions per day over the days before; null if there were none before.")
    ],
    sustained_percent: Annotated[float | None, "The same increase for the days after the campaign."],
    sustained_floor: Annotated[float | None, "Mentions on the median day after the campaign."],
    peak_date: Annotated[str | None, "The day with the most mentions; the first one in case of a tie."],
    daily_series: Annotated[
        list[Record], Of(day), ("Each day, from the first day before the campaign to the last day after it.")
    ],
    amplifiers: Annotated[list[Record], Of(amplifier), "The 20 accounts with the most engagement during the campaign."],
    sentiment: Annotated[Record, Of(tones), "The tone during the campaign."],
    sources: Annotated[list[Record], Of(source), "Mentions and coverage by platform."],
    method: Annotated[str, "How the values are computed."],
) -> Record:
    """The effect of a campaign."""
    return locals()


MENTIONS = Archetype("MentionList", "", mention, many=True, has_legs=True, beside=around_mentions)
BRAND_MENTIONS = Archetype("BrandMentions", "", brand_mentions, has_legs=True, findings=("mentions",))
CAMPAIGN = Archetype("Campaign", "", campaign, has_legs=True, findings=("daily_series.mentions",))
