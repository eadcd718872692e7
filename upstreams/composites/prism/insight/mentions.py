"""Mentions of a phrase, page by page, and statistics about a brand's mentions (decisions 18)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Final
from urllib.parse import urlsplit

from upstreams.composites.legs import joined_states, legs_of, states_of
from upstreams.composites.prism.insight import days, sweep
from upstreams.composites.prism.insight.days import DaySpan
from upstreams.composites.prism.insight.sweep import Mention, SearchSweep, legs_in, mentions_of, named_in, phrase_of
from upstreams.composites.prism.insight.tone import negative_share, summed
from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import words
from upstreams.model.endpoint import Platform
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args, State
from upstreams.model.steps import Page, Single, Steps

BRAND_ROUNDS: Final = 4
"""The maximum number of search pages to read on each platform for a brand's mentions."""
BOARDS: Final = "message-boards"
PAGE_TYPES: Final = ("ecommerce", "news", "blogs", BOARDS, "organization")
_RECENT, _TOP = 20, 10
_LINEAR: Final = "1.0.0"
_STEADY: Final = 0.05
"""The maximum slope of a trend that counts as steady, as a share of the mean."""


def mentions(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return a page of mentions, which combines one page from each search."""
    window = days.span(args, "date_from", "date_to", back_days=0) if "date_from" in args.values else None
    states = states_of(args.cursor)
    found = yield from sweep.sweep(
        named_in(platforms, args),
        phrase_of(args.text("phrase")),
        window,
        rounds=1,
        rows=args.number("limit"),
        states=states,
    )
    listed = mentions_of(found)
    return Page(
        [one.record() for one in listed],
        _following(found),
        legs=legs_of(legs_in(found)),
        beside=words.around_mentions(
            window=None if window is None else window.record(),
            daily_series=series(listed, window, "day"),
            sources=[one.record() for one in found],
            dropped=sum(one.dropped for one in found),
            method=sweep.METHOD,
        ),
    )


def _following(found: Sequence[SearchSweep]) -> State | None:
    going = [leg for one in found for leg in one.legs if one.has_next or not leg.answer]
    return joined_states(going)


def _of_type(platforms: Sequence[Platform], args: Args) -> Sequence[Platform]:
    """Return the platforms that have pages of the requested kind.

    Raises:
        InvalidArgument: No platform has pages of this kind.
    """
    wanted = args.text_or_none("page_type")
    boards = platforms if wanted is None else [one for one in platforms if is_board(one)] if wanted == BOARDS else []
    if not boards:
        problem = f"is {wanted}, which no searched platform has; platforms without followers are {BOARDS}"
        raise InvalidArgument("page_type", problem, reason="capability_missing")
    return boards


def is_board(platform: Platform) -> bool:
    """Return whether the platform's pages are organized by topic. Its accounts then have no followers."""
    profile = platform.playing("profile")
    return profile is not None and "followers" in profile.unfilled


def brand_mentions(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return the mentions of a brand in a window."""
    window, phrase = days.span(args, "date_from", "date_to", back_days=30), phrase_of(args.text("keyword"))
    found = yield from sweep.sweep(_of_type(named_in(platforms, args), args), phrase, window, rounds=BRAND_ROUNDS)
    listed, group = mentions_of(found), args.text("date_group")
    grouped = series(listed, window, group)
    record = words.brand_mentions(
        keyword=phrase,
        window=window.record(),
        date_group=group,
        mentions=len(listed),
        volume_series=grouped,
        sentiment=summed(one.tone for one in listed),
        top_sources=shares(one.platform for one in listed),
        top_sites=shares(site for one in listed if (site := site_of(one)) is not None),
        recent_mentions=[one.record() for one in listed[:_RECENT]],
        computed=trend_of([one["mentions"] for one in grouped]),
        sources=[one.record() for one in found],
        method=sweep.METHOD,
    )
    return Single(record, legs=legs_of(legs_in(found)))


def series(listed: Iterable[Mention], window: DaySpan | None, group: str) -> list[Record]:
    """Return mentions by day, week or month. With a window, the series includes periods without mentions."""
    found: dict[date, list[Mention]] = {}
    if window is not None:
        found = {days.group_of(day, group): [] for day in window.each()}
    for one in listed:
        found.setdefault(days.group_of(one.day, group), []).append(one)
    return [
        words.day(
            date=day.isoformat(),
            mentions=len(found[day]),
            negative_share=negative_share(one.tone for one in found[day]),
        )
        for day in sorted(found)
    ]


def shares(names: Iterable[str]) -> list[Record]:
    """Return the most frequent names, each with its share of all names."""
    counts = Counter(names)
    total = counts.total()
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:_TOP]
    return [words.share(name=name, mentions=count, share=round(count / total, 4)) for name, count in ranked]


def site_of(mention: Mention) -> str | None:
    """Return the host that a post links to."""
    link = mention.row["post"]["ext"].get("link")
    return (urlsplit(link).hostname or "").removeprefix("www.") or None if isinstance(link, str) else None


def trend_of(values: Sequence[int]) -> Record:
    """Return the least-squares slope of a series, and the direction of its trend."""
    count = len(values)
    if count < 3:
        return words.trend(slope=None, direction=None, methodology_version=_LINEAR)
    middle, mean = (count - 1) / 2, sum(values) / count
    slope = sum((place - middle) * value for place, value in enumerate(values)) / (count * (count * count - 1) / 12)
    is_steady = abs(slope) <= _STEADY * mean
    direction = "steady" if is_steady else "rising" if slope > 0 else "falling"
    return words.trend(slope=round(slope, 4), direction=direction, methodology_version=_LINEAR)
