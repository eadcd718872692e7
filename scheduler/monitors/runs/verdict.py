"""Evaluates a run, as a pure function of the recipe's result and the monitor's last counted run (spec 2.7, 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from billing.charges.refunds import used_by_run
from scheduler.monitors.metrics.alerts import Alert, Judged, State, judge
from scheduler.monitors.metrics.numbers import (
    PAGE,
    Deltas,
    Number,
    Numbers,
    deltas_of,
    has_value,
    metrics_of,
    numbers_of,
    plain_deltas,
)
from scheduler.monitors.metrics.rules import stored_rules
from scheduler.monitors.metrics.tracking import Track, stored_track
from scheduler.monitors.model.records import Monitor, RunData
from scheduler.recipes import Gathered

SCHEDULING_CREDITS: Final = 1
NOTHING_USABLE: Final = "nothing_usable"
"""No leg of the recipe returned data."""
NO_VALUE: Final = "no_tracked_value"
NO_ROWS: Final = "no_results"

_TEXT_MAX = 500
"""The maximum length of an error text in characters."""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict on a run: its status, the used part of its charge, and everything that is stored and published.

    `deltas` are plain differences for an ordinary monitor, and None on a numbers-only monitor's first run. `rule_state`
    is None if the rules were not evaluated.
    """

    status: Literal["ok", "partial", "failed", "skipped"]
    used_credits: int = 0
    reason: str | None = None
    body: bytes | None = None
    numbers: Numbers | None = None
    deltas: Deltas | Mapping[str, Number] | None = None
    alerts: Sequence[Alert] = ()
    warnings: Sequence[str] = ()
    legs: Sequence[Mapping[str, Any]] = ()
    rows_count: int | None = None
    rule_state: State | None = None
    is_told: bool = True
    """False if there is nothing to deliver to the webhook."""
    is_baseline: bool = True
    """False if the next run is compared with the same baseline as this one."""
    kept: RunData | None = None
    """The data to store if it is not a recipe's result."""

    @property
    def counts(self) -> bool:
        """Whether the run can be delivered and serve as the baseline of the next run."""
        return self.status in ("ok", "partial")

    @property
    def alerts_json(self) -> list[dict[str, Any]]:
        """The alert objects of payloads and run records."""
        return [alert.to_json() for alert in self.alerts]

    @property
    def deltas_json(self) -> Mapping[str, Any] | None:
        """The changes in the form of payloads and run records."""
        return self.deltas.to_json() if isinstance(self.deltas, Deltas) else self.deltas

    def data(self) -> RunData | None:
        """Return the data to store, or None for no data."""
        if self.body is None:
            return self.kept
        deltas = self.deltas_json
        numbers = None if self.numbers is None else orjson.dumps(self.numbers)
        return RunData(self.body, numbers, None if deltas is None else orjson.dumps(deltas))


def failed(reason: str, legs: Sequence[Mapping[str, Any]] = (), used_credits: int = 0, *, said: str = "") -> RunVerdict:
    """Return the verdict on a run without a result. Everything but `used_credits` is refunded.

    Such a run is never a baseline. `reason` is a code. The text `said` goes to the warnings. It may quote an upstream,
    so it is truncated, and NUL is replaced because PostgreSQL cannot store it.
    """
    text = said[:_TEXT_MAX].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return RunVerdict("failed", used_credits, reason=reason, legs=legs, warnings=(text,) if text else ())


def skipped(reason: str) -> RunVerdict:
    """Return the verdict on a run that sent no request."""
    return RunVerdict("skipped", reason=reason)


def judge_run(monitor: Monitor, gathered: Gathered, previous: bytes | None, *, at: float) -> RunVerdict:
    """Return the verdict on a run's result.

    `previous` contains the stored numbers of the run's baseline, and `at` is the run's slot.
    """
    if not gathered.coverage:
        return RunVerdict("failed", reason=NOTHING_USABLE, warnings=gathered.warnings, legs=gathered.legs)
    track = None if monitor.track is None else stored_track(orjson.loads(monitor.track))
    before: Numbers | None = None if previous is None else orjson.loads(previous)
    return _plain(monitor, gathered, before, at) if track is None else _tracked(monitor, track, gathered, before, at)


def _plain(monitor: Monitor, gathered: Gathered, before: Numbers | None, at: float) -> RunVerdict:
    metrics = metrics_of(gathered.data)
    numbers: Numbers = {PAGE: metrics}
    judged = _judged(monitor, numbers, before, at)
    deltas = plain_deltas(None if before is None else before.get(PAGE, {}), metrics)
    return _completed(gathered, numbers, deltas, judged, ())


def _tracked(monitor: Monitor, track: Track, gathered: Gathered, before: Numbers | None, at: float) -> RunVerdict:
    numbers, warnings = numbers_of(gathered.data, track)
    reason = NO_ROWS if gathered.rows == 0 else NO_VALUE if not has_value(numbers) else None
    if reason is None:
        judged = _judged(monitor, numbers, before, at)
        return _completed(gathered, numbers, deltas_of(before, numbers), judged, warnings)
    judged = _judged(monitor, {}, before, at)
    return RunVerdict(
        "failed",
        reason=reason,
        alerts=judged.fired,
        warnings=[*gathered.warnings, *judged.warnings],
        legs=_unbilled(gathered.legs),
        rows_count=gathered.rows,
        rule_state=judged.state,
    )


def _judged(monitor: Monitor, numbers: Numbers, before: Numbers | None, at: float) -> Judged:
    rules = stored_rules(orjson.loads(monitor.alert_rules))
    state: State = orjson.loads(monitor.rule_state)
    return judge(rules, numbers, before, state=state, at=at, by_row=monitor.track is not None)


def _completed(
    gathered: Gathered,
    numbers: Numbers,
    deltas: Deltas | Mapping[str, Number] | None,
    judged: Judged,
    warnings: Sequence[str],
) -> RunVerdict:
    is_all = gathered.coverage >= 1.0 and gathered.whole
    return RunVerdict(
        "ok" if is_all else "partial",
        used_by_run(gathered.used_credits, gathered.coverage) + SCHEDULING_CREDITS,
        body=gathered.body,
        numbers=numbers,
        deltas=deltas,
        alerts=judged.fired,
        warnings=[*gathered.warnings, *warnings, *judged.warnings],
        legs=gathered.legs,
        rows_count=gathered.rows,
        rule_state=judged.state,
    )


def _unbilled(legs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the legs with their credits set to 0, because the run was refunded."""
    return [{**leg, "credits_used": 0} for leg in legs]
