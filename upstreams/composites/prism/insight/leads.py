"""Posts by people who are looking for an alternative to a product, with a rule-based score (decisions 18)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

from upstreams.composites.legs import Settled, legs_of
from upstreams.composites.prism.insight import days, sweep
from upstreams.composites.prism.insight.days import DaySpan
from upstreams.composites.prism.insight.questions import words_of
from upstreams.composites.prism.insight.sweep import (
    Mention,
    SearchSweep,
    finder,
    legs_in,
    mentions_of,
    named_in,
    phrase_of,
)
from upstreams.composites.prism.insight.talk import each_comment, read_comments, weightiest
from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import threads, words
from upstreams.model.endpoint import Platform
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args
from upstreams.model.steps import Single, Steps

PHRASES: Final = {
    "switching from {}": 45,
    "alternative to {}": 40,
    "alternatives to {}": 40,
    "replacement for {}": 40,
    "instead of {}": 25,
    "{} vs": 20,
    "vs {}": 20,
}
"""The points for each phrase."""
SEARCHED: Final = ("alternative to {}", "switching from {}", "{} vs")
METHOD: Final = (
    "Points for the phrase: switching from 45, alternative to or replacement for 40, instead of 25, vs 20. Other "
    "points: a question mark 15, words that express a search 20, words that express discontent 10, a post in the last "
    "7 days 10, the category 10, two words of the offer 10. The maximum is 100. Accounts are not named."
)
_LOOKING = re.compile(
    r"\b(?:looking for|recommend(?:ation|ations)?|suggest(?:ion|ions)?|what do you use"
    r"|any(?:one|body) (?:use|using|know)|should i|which (?:one|is better)|considering|migrat(?:e|ing))\b",
    re.IGNORECASE,
)
_DISCONTENT = re.compile(
    r"\b(?:expensive|pric(?:ey|ing)|too (?:slow|much|complex|complicated)|frustrat(?:ed|ing)|leaving"
    r"|cancel(?:l?ed|ling)?|tired of|broken|bugs?|no longer|fed up|hate)\b",
    re.IGNORECASE,
)
_OPENED: Final = 10
"""The number of posts whose comments are searched too."""
_FRESH = re.compile(r"(\d{1,4})([dwm])")
_DAYS: Final = {"d": 1, "w": 7, "m": 30}


class Sought(NamedTuple):
    """The product to replace, its category, and the words that describe the caller's own product."""

    competitor: str
    category: str | None
    offer: frozenset[str]


def leads(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return posts by people who are looking for an alternative to a product."""
    competitor, window = phrase_of(args.text("competitor")), _window(args)
    finders = {phrase: finder(phrase.format(competitor)) for phrase in PHRASES}
    found: list[SearchSweep] = []
    for phrase in SEARCHED:
        found += yield from sweep.sweep(
            named_in(platforms, args),
            phrase.format(competitor),
            window,
            rounds=1,
            finds=lambda text: any(has(text) for has in finders.values()),
        )
    sought = Sought(competitor, args.text_or_none("product_category"), words_of(args.text_or_none("offer") or ""))
    listed = {(one.platform, str(one.row["post"]["id"])): one for one in mentions_of(found)}
    below: list[Settled] = []
    if "include" in args.values:
        opened = weightiest([*listed.values()])[:_OPENED]
        below = [leg for leg in (yield from read_comments(named_in(platforms, args), opened)) if leg is not None]
    comment_mentions = [one for leg in below for one in _in_comments(leg, finders.values(), window)]
    scored = [scored_of(one, finders, sought, window.last) for one in (*listed.values(), *comment_mentions)]
    ranked = sorted(scored, key=lambda one: -one["intent_score"])  # stable: newest first if equal
    counts = {phrase.format(competitor): 0 for phrase in PHRASES}
    for one in ranked:
        counts[one["phrase_matched"]] += 1
    record = threads.leads(
        competitor=competitor,
        leads=ranked[: args.number("limit")],
        counts_by_phrase=counts,
        sources=[_merged_source(one, found) for one in named_in(platforms, args)],
        method=METHOD,
    )
    return Single(record, legs=legs_of([*legs_in(found), *below]))


def _in_comments(leg: Settled, finds: Iterable[Callable[[str], bool]], window: DaySpan) -> list[Mention]:
    """Return the comments in a thread that contain one of the phrases, each as a mention."""
    found = []
    for one in each_comment(leg.records):
        day = days.instant_day(one["published_at"])
        if one["text"] and day is not None and window.holds(day) and any(has(one["text"]) for has in finds):
            numbers = {"likes": one["engagement"]["likes"], "comments": one["engagement"]["replies"]}
            post = {**one, "content": {"text": one["text"]}, "engagement": numbers}
            found.append(Mention(leg.platform, day, {"post": post}, None))
    return found


def _window(args: Args) -> DaySpan:
    """Return the days that `freshness` covers, given a number of days, weeks or months, or a start date.

    Raises:
        InvalidArgument: The value has another form, or covers more days than the maximum.
    """
    text, until = args.text("freshness"), days.today(args)
    span = _FRESH.fullmatch(text)
    try:
        since = until - timedelta(days=int(span[1]) * _DAYS[span[2]] - 1) if span else date.fromisoformat(text[:10])
    except ValueError as exc:
        raise InvalidArgument("freshness", "must be a period such as 30d, 4w or 2m, or a date") from exc
    if not 0 <= (until - since).days < days.DAYS_MAX:
        raise InvalidArgument("freshness", "must start today or earlier, and at most ten years ago")
    return DaySpan(since, until)


def scored_of(mention: Mention, finders: Mapping[str, Callable[[str], bool]], sought: Sought, today: date) -> Record:
    """Return a post as a lead, with its points and the reasons for them."""
    post = mention.row["post"]
    text = post["content"]["text"] or ""
    phrase = max((one for one, has in finders.items() if has(text)), key=PHRASES.__getitem__)
    points = {
        f"phrase: {phrase.format('X')}": PHRASES[phrase],
        "asks": 15 if "?" in text else 0,
        "looks for something": 20 if _LOOKING.search(text) else 0,
        "is discontent": 10 if _DISCONTENT.search(text) else 0,
        "of this week": 10 if (today - mention.day).days < 7 else 0,
        "category": 10 if sought.category is not None and finder(sought.category)(text) else 0,
        "offer": 10 if sought.offer and len(sought.offer & words_of(text)) >= min(2, len(sought.offer)) else 0,
    }
    return threads.lead(
        kind="comment" if "parent_id" in post else "post",
        platform=mention.platform,
        url=post["url"],
        text=text or None,
        published_at=post["published_at"],
        likes=post["engagement"]["likes"],
        comments=post["engagement"]["comments"],
        phrase_matched=phrase.format(sought.competitor),
        intent_score=min(100, sum(points.values())),
        reasons=[reason for reason, count in points.items() if count],
    )


def _merged_source(platform: Platform, found: Sequence[SearchSweep]) -> Record:
    """Combine a platform's searches for several phrases into one source."""
    platform_sources = [one.record() for one in found if one.platform is platform]
    known = [one["mentions"] for one in platform_sources if one["mentions"] is not None]
    return words.source(
        platform=platform.slug,
        mentions=sum(known) if known else None,
        is_complete=all(one["is_complete"] for one in platform_sources),
        oldest_seen_at=min((one["oldest_seen_at"] for one in platform_sources if one["oldest_seen_at"]), default=None),
        dropped=sum(one["dropped"] for one in platform_sources),
    )
