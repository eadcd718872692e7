"""Mentions of a phrase by day: of a brand and of a campaign."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.posts import post as post_record
from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record
from upstreams.model.archetypes.shape import computed as computed_record


def mention(
    *,
    post: Annotated[Record, Of(post_record), "The post that has the phrase."],
    computed: Annotated[Record, Of(computed_record), "What is computed of it."],
    platform: Annotated[str, "The slug of its platform."],
    date: Annotated[str, "The day of its publication in UTC."],
    tone: Annotated[str | None, "positive, neutral or negative, by the word list; null in a language without one."],
) -> Record:
    """One dated mention."""
    return locals()


def day(
    *,
    date: Annotated[str, "The day in UTC, or the first one of the week or month."],
    mentions: Annotated[int, "Mentions of that day, week or month."],
    negative_share: Annotated[float | None, "The share of negative ones among those with a tone; null without any."],
) -> Record:
    """The mentions of one day, week or month."""
    return locals()


def source(
    *,
    platform: Annotated[str, "The platform's slug."],
    mentions: Annotated[int | None, "Mentions that it has in the window; null where it did not answer."],
    is_complete: Annotated[bool, "Whether its search was read back to the window's first day, or to its end."],
    oldest_seen_at: Annotated[Instant, "The time of the oldest post that was read, with the phrase or without."],
    dropped: Annotated[int, "Rows that were left out: without a date, outside of the window, or without the phrase."],
) -> Record:
    """One platform as a source of mentions, and how far back it was read."""
    return locals()


def window(
    *,
    date_from: Annotated[str, "The first day."],
    date_to: Annotated[str, "The last day."],
    days: Annotated[int, "Days from the first to the last."],
) -> Record:
    """A span of whole days in UTC."""
    return locals()


def tones(
    *,
    positive: Annotated[int, "Mentions with more positive words."],
    neutral: Annotated[int, "Mentions with as many of both, or none."],
    negative: Annotated[int, "Mentions with more negative words."],
    uncovered: Annotated[int, "Mentions in a language without a word list."],
    positive_share: Annotated[float | None, "The share of positive ones among those with a tone."],
    negative_share: Annotated[float | None, "The share of negative ones among them."],
    method: Annotated[str, "The method: a list of words, and no model."],
) -> Record:
    """The tone of mentions by a documented list of words."""
    return locals()


def around_mentions(
    *,
    window: Annotated[Record | None, Of(window), "The days that were asked for; null without date_from."],
    daily_series: Annotated[list[Record], Of(day), "This page's mentions by day."],
    sources: Annotated[list[Record], Of(source), "What each platform has."],
    dropped: Annotated[int, "Rows of this page that were left out."],
    method: Annotated[str, "How mentions are found and counted."],
) -> Record:
    """The mentions of a page in numbers."""
    return locals()


def share(
    *,
    name: Annotated[str, "A platform, an account or a site."],
    mentions: Annotated[int, "Mentions of it."],
    share: Annotated[float, "Its share of all."],
) -> Record:
    """One source's share of mentions."""
    return locals()


def trend(
    *,
    slope: Annotated[float | None, "Mentions more from one day, week or month to the next, by least squares."],
    direction: Annotated[str | None, "rising, steady or falling; null with less than three values."],
    methodology_version: Annotated[str, "The version of the method."],
) -> Record:
    """The way that a series goes."""
    return locals()


def brand_mentions(
    *,
    keyword: Annotated[str, "The phrase that was looked for."],
    window: Annotated[Record, Of(window), "The days that were looked at."],
    date_group: Annotated[str, "day, week or month."],
    mentions: Annotated[int, "All mentions."],
    volume_series: Annotated[list[Record], Of(day), "Mentions by day, week or month."],
    sentiment: Annotated[Record, Of(tones), "Their tone by a list of words."],
    top_sources: Annotated[list[Record], Of(share), "The platforms with the most of them."],
    top_sites: Annotated[list[Record], Of(share), "The sites that they link to the most."],
    recent_mentions: Annotated[list[Record], Of(mention), "The newest 20."],
    computed: Annotated[Record, Of(trend), "The way that the series goes."],
    sources: Annotated[list[Record], Of(source), "What each platform has."],
    method: Annotated[str, "How mentions are found and counted."],
) -> Record:
    """The mentions of a brand."""
    return locals()


def period(
    *,
    date_from: Annotated[str, "Its first day."],
    date_to: Annotated[str, "Its last day."],
    days: Annotated[int, "Its days, of which none lies ahead."],
    mentions: Annotated[int, "Mentions in it."],
    per_day: Annotated[float | None, "Mentions a day; null without a day."],
) -> Record:
    """A period of a campaign."""
    return locals()


def amplifier(
    *,
    platform: Annotated[str, "The platform's slug."],
    username: Annotated[str | None, "The account's name there."],
    url: Annotated[str | None, "Its page."],
    mentions: Annotated[int, "Its mentions."],
    engagement: Annotated[int, "Likes, comments and shares of them together, as far as they are told."],
    first_seen_at: Annotated[Instant, "The time of its first one."],
    dates: Annotated[list[str] | None, "The days of its mentions; null where left out."],
) -> Record:
    """An account that carried a campaign."""
    return locals()


def campaign(  # noqa: PLR0913 - one argument a field of the archetype
    *,
    subject: Annotated[str, "The phrase or hashtag."],
    before: Annotated[Record, Of(period), "The days before it."],
    during: Annotated[Record, Of(period), "Its own days."],
    after: Annotated[Record | None, Of(period), "The days after it, as far as they are past; null where none is."],
    lift_percent: Annotated[float | None, "How many more a day there were than before; null where there were none."],
    sustained_percent: Annotated[float | None, "The same of the days after it."],
    sustained_floor: Annotated[float | None, "Mentions on the median day after it."],
    peak_date: Annotated[str | None, "The day with the most mentions; the first of several."],
    daily_series: Annotated[list[Record], Of(day), "Each day, from the first before to the last after."],
    amplifiers: Annotated[list[Record], Of(amplifier), "The 20 accounts with the most engagement while it ran."],
    sentiment: Annotated[Record, Of(tones), "The tone while it ran."],
    sources: Annotated[list[Record], Of(source), "What each platform has."],
    method: Annotated[str, "How it is computed."],
) -> Record:
    """The change that a campaign made."""
    return locals()


MENTIONS = Archetype("MentionList", "", mention, many=True, has_legs=True, beside=around_mentions)
BRAND_MENTIONS = Archetype("BrandMentions", "", brand_mentions, has_legs=True, findings=("mentions",))
CAMPAIGN = Archetype("Campaign", "", campaign, has_legs=True, findings=("daily_series.mentions",))
