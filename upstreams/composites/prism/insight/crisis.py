"""Detects with a rolling z-score whether a brand is mentioned more often or more negatively than usual (decisions 18).

    z_volume         = (today's mentions - mean) / max(deviation, 1)
    z_negative_share = (today's share - mean) / max(deviation, 0.05)

Mean and sample deviation are computed over the preceding days. The minimum deviations prevent an alert if a brand that
is never mentioned gets one mention. Days without a known tone have no share, and with fewer than three shares there is
no second score. Only completely read sources count, because days that were not read would exaggerate the last day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from statistics import fmean, stdev
from typing import Final

from upstreams.composites.legs import legs_of
from upstreams.composites.prism.insight import days, severity, sweep
from upstreams.composites.prism.insight.days import DaySpan
from upstreams.composites.prism.insight.sweep import Mention, legs_in, named_in, phrase_of
from upstreams.composites.prism.insight.tone import share_of_negative
from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import crisis as records
from upstreams.model.endpoint import Platform
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args, Value
from upstreams.model.steps import Single, Steps

ROUNDS: Final = 4
WATCH_CREDITS, CONFIRM_CREDITS = 15, 30
VOLUME_FLOOR, SHARE_FLOOR = 1.0, 0.05
_SHARES_MIN: Final = 3
METHOD: Final = (
    "z = (today - mean of the days before) / their sample standard deviation, with a minimum of 1 mention or a share "
    "of 0.05. watch: one of the two scores reaches half of the sensitivity; alert: one reaches it; crisis: both do. "
    "Only complete sources count. Tone: a word list, no model."
)


def price_span(values: Mapping[str, Value]) -> tuple[int, int]:
    """Return the minimum and maximum price. The confirmation is billed only if there is a breach."""
    return WATCH_CREDITS, WATCH_CREDITS + (CONFIRM_CREDITS if values.get("confirm") else 0)


def crisis_radar(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return how far a day deviates from the days before it.

    With `confirm`, a breach is verified by additional searches.
    """
    sensitivity, judged = _sensitivity(args), days.day_of(args, "date_to") or days.today(args)
    if judged > days.today(args):
        raise InvalidArgument("date_to", "must not be in the future")
    window = DaySpan(judged - timedelta(days=args.number("baseline_days")), judged)
    phrase = phrase_of(args.text("brand"))
    found = yield from sweep.sweep(named_in(platforms, args), phrase, window, rounds=ROUNDS)
    counted = [one for one in found if one.is_complete and any(leg.answer for leg in one.legs)]
    listed = [mention for one in counted for mention in one.mentions]
    record = judge(listed, window, sensitivity)
    if not counted:
        record |= {"alert_level": None, "breached": None, "z_volume": None, "z_negative_share": None}
        record |= {"baseline_window": None, "daily_series": []}
    legs, confirmed = legs_in(found), None
    if args.values.get("confirm") and record["breached"]:
        of_day = [one for one in listed if one.day == judged]
        z_scores = (record["z_volume"], record["z_negative_share"])
        second, confirmed = yield from severity.confirm(
            named_in(platforms, args), phrase, of_day, z_scores, sensitivity, searched=len(counted)
        )
        legs = [*legs, *second]
    radar = records.crisis_radar(
        brand=phrase,
        **record,
        sensitivity=sensitivity,
        is_partial_day=judged == days.today(args),
        severity=None if confirmed is None else confirmed["severity"],
        confirmation=confirmed,
        sources=[one.record() for one in found],
        method=METHOD if confirmed is None else f"{METHOD} {severity.METHOD}",
    )
    used = WATCH_CREDITS + (CONFIRM_CREDITS if confirmed is not None else 0)
    return Single(radar, legs=legs_of(legs), credits_used=used)


def _sensitivity(args: Args) -> float:
    try:
        sensitivity = float(args.text("sensitivity"))
    except ValueError:
        sensitivity = 0.0
    if not 0.5 <= sensitivity <= 6:
        raise InvalidArgument("sensitivity", "must be a number from 0.5 to 6, such as 2.0")
    return sensitivity


def judge(mentions: Sequence[Mention], window: DaySpan, sensitivity: float) -> Record:
    """Return the scores of a window's last day, and the series from which they are computed."""
    by_day: dict[date, list[Mention]] = {day: [] for day in window.each()}
    for one in mentions:
        by_day[one.day].append(one)
    volumes = [len(of_day) for of_day in by_day.values()]
    shares = [share_of_negative(one.tone for one in of_day) for of_day in by_day.values()]
    z_volume = _deviation(volumes[-1], volumes[:-1], VOLUME_FLOOR)
    usual = [share for share in shares[:-1] if share is not None]
    is_judged = len(usual) >= _SHARES_MIN and shares[-1] is not None
    z_share = _deviation(shares[-1] or 0.0, usual, SHARE_FLOOR) if is_judged else None
    return {
        "alert_level": alert_level(z_volume, z_share, sensitivity),
        "breached": max(z_volume, z_volume if z_share is None else z_share) >= sensitivity,
        "z_volume": z_volume,
        "z_negative_share": z_share,
        "baseline_window": records.baseline(
            first=window.first.isoformat(),
            last=(window.last - timedelta(days=1)).isoformat(),
            days=window.days - 1,
            rolling_mean_volume=round(fmean(volumes[:-1]), 4),
            rolling_std_volume=round(stdev(volumes[:-1]), 4),
            today_volume=volumes[-1],
            rolling_mean_negative_share=round(fmean(usual), 4) if usual else None,
            rolling_std_negative_share=round(stdev(usual), 4) if len(usual) >= _SHARES_MIN else None,
            today_negative_share=_rounded(shares[-1]),
        ),
        "daily_series": [
            records.volume(date=day.isoformat(), volume=count, negative_share=_rounded(share))
            for day, count, share in zip(by_day, volumes, shares, strict=True)
        ],
    }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def _deviation(value: float, usual: Sequence[float], floor: float) -> float:
    return round((value - fmean(usual)) / max(stdev(usual), floor), 4)


def alert_level(z_volume: float, z_share: float | None, sensitivity: float) -> str:
    """Return the alert level for two scores."""
    scores = [z_volume] if z_share is None else [z_volume, z_share]
    reached = sum(score >= sensitivity for score in scores)
    if reached == 2:
        return "crisis"
    return "alert" if reached else "watch" if max(scores) >= sensitivity / 2 else "calm"
