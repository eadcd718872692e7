"""Compares a campaign's days with the days before and after the campaign (decisions 18)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from statistics import median
from typing import Final

from upstreams.composites.legs import legs_of
from upstreams.composites.prism.insight import days, sweep
from upstreams.composites.prism.insight.days import DaySpan, counted
from upstreams.composites.prism.insight.mentions import series
from upstreams.composites.prism.insight.sweep import Mention, legs_in, mentions_of, named_in, phrase_of
from upstreams.composites.prism.insight.tone import summed
from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import words
from upstreams.model.endpoint import Platform
from upstreams.model.params import Args
from upstreams.model.steps import Single, Steps

ROUNDS: Final = 5
_AMPLIFIERS: Final = 20
METHOD: Final = (
    "Mentions per day: lift_percent is (during / before - 1) x 100, sustained_percent is (after / before - 1) x 100, "
    "sustained_floor is the median of the days after. Future days do not count."
)
_ONE = timedelta(days=1)


def campaign(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return the effect of a campaign."""
    own = days.span(args, "window_start", "window_end", back_days=30)
    before = DaySpan(own.first - args.number("pre_days") * _ONE, own.first - _ONE)
    last = min(own.last + args.number("post_days") * _ONE, days.today(args))
    after = DaySpan(own.last + _ONE, last) if last > own.last else None
    tag = args.text_or_none("hashtag")
    subject = f"#{tag}" if tag is not None else phrase_of(args.text("phrase"))
    whole = DaySpan(before.first, last if after else own.last)
    found = yield from sweep.sweep(named_in(platforms, args), subject, whole, rounds=ROUNDS)
    listed = mentions_of(found)
    during = [one for one in listed if own.holds(one.day)]
    first, second = _period(listed, before), _period(listed, own)
    third = None if after is None else _period(listed, after)
    record = words.campaign(
        subject=subject,
        before=first,
        during=second,
        after=third,
        lift_percent=_change(second, first),
        sustained_percent=_change(third, first),
        sustained_floor=float(median(counted((one.day for one in listed), after).values())) if after else None,
        peak_date=_peak(listed, whole),
        daily_series=series(listed, whole, "day"),
        amplifiers=amplifiers(during, with_dates="include" in args.values),
        sentiment=summed(one.tone for one in during),
        sources=[one.record() for one in found],
        method=f"{sweep.METHOD} {METHOD}",
    )
    return Single(record, legs=legs_of(legs_in(found)))


def _period(listed: Sequence[Mention], window: DaySpan) -> Record:
    mentions = sum(window.holds(one.day) for one in listed)
    return words.period(
        date_from=window.first.isoformat(),
        date_to=window.last.isoformat(),
        days=window.days,
        mentions=mentions,
        per_day=round(mentions / window.days, 4),
    )


def _change(one: Record | None, other: Record) -> float | None:
    """Return the difference between two periods' mentions per day, in percent."""
    if one is None or not other["mentions"]:
        return None
    ratio: float = (one["mentions"] / one["days"]) / (other["mentions"] / other["days"])
    return round((ratio - 1) * 100, 2)


def _peak(listed: Sequence[Mention], window: DaySpan) -> str | None:
    counts = counted((one.day for one in listed), window)
    return max(counts, key=lambda day: counts[day]).isoformat() if listed else None


def amplifiers(listed: Sequence[Mention], *, with_dates: bool) -> list[Record]:
    """Return the accounts that wrote these mentions, most engagement first."""
    found: dict[tuple[str, str], list[Mention]] = {}
    for one in listed:
        author = one.row["post"]["author"] or {}
        name = author.get("username") or author.get("id")
        if name is not None:
            found.setdefault((one.platform, str(name)), []).append(one)
    records = [_amplifier(platform, of_account, with_dates) for (platform, _), of_account in found.items()]
    ranked = sorted(
        records, key=lambda one: (-one["engagement"], -one["mentions"], one["platform"], str(one["username"]))
    )
    return ranked[:_AMPLIFIERS]


def _amplifier(platform: str, listed: Sequence[Mention], with_dates: bool) -> Record:  # noqa: FBT001 - it has one caller
    author = listed[0].row["post"]["author"]
    numbers = [one.row["post"]["engagement"][name] for one in listed for name in ("likes", "comments", "shares")]
    return words.amplifier(
        platform=platform,
        username=author["username"],
        url=author["url"],
        mentions=len(listed),
        engagement=sum(number for number in numbers if number is not None),
        first_seen_at=min(one.row["post"]["published_at"] for one in listed),
        dates=sorted({one.day.isoformat() for one in listed}) if with_dates else None,
    )
