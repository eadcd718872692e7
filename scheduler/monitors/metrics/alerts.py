"""Evaluates alert rules on a run: pure functions, so that a rule can be tested on past runs (spec 2.7, 4.5).

A rule is evaluated for every row that has its metric; an ordinary monitor has one row, `_`. A run whose condition is
false, or cannot be evaluated, ends a streak of `consecutive` runs. After firing, a rule is silent for `cooldown_s`,
separately for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from scheduler.monitors.metrics.numbers import PAGE, Delta, Number, Numbers, change
from scheduler.monitors.metrics.rules import AlertRule

Mark = tuple[int, float | None]
"""A rule's state on a row: the number of consecutive runs whose condition was true, and when the rule last fired."""
State = Mapping[str, Mapping[str, Mark]]
"""The marks of each rule by its key: the only state kept between runs, stored as JSON (a mark is an array)."""

_ABSOLUTE: Mapping[str, Callable[[Number, Number], bool]] = {"gt": gt, "lt": lt, "gte": ge, "lte": le}
_MARKS_MAX = 400
"""The maximum number of rows remembered per rule.

Rows without a streak are dropped first, beginning with those that fired longest ago.
"""


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule that fired. `row_id` is set on numbers-only monitors."""

    metric: str
    op: str
    prev: Number | None
    to: Number | None
    delta: Number | None = None
    pct_change: float | None = None
    row_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the alert object of payloads and runs (spec 2.7)."""
        fields: dict[str, Any] = {
            "metric": self.metric,
            "op": self.op,
            "from": self.prev,
            "to": self.to,
            "delta": self.delta,
            "pct_change": self.pct_change,
        }
        return fields if self.row_id is None else {**fields, "row_id": self.row_id}


class Judged(NamedTuple):
    """The alerts of a run, the warnings about skipped rules, and the state for the next run."""

    fired: list[Alert]
    warnings: list[str]
    state: State


class Seen(NamedTuple):
    """A run on which rules are evaluated: its slot and its numbers. An ordinary monitor has one row, `_`.

    `counts` is False for a failed run: it has no numbers, and later runs are not compared with it.
    """

    run_id: str
    at: float
    numbers: Numbers
    counts: bool = True


class Firing(NamedTuple):
    """The alerts that rules would have fired on a run. Often there are none."""

    run_id: str
    at: float
    alerts: list[Alert]


def judge(
    rules: Iterable[AlertRule], numbers: Numbers, previous: Numbers | None, *, state: State, at: float, by_row: bool
) -> Judged:
    """Evaluate rules on a run at the time `at`, compared with `previous`, the last successful run (if any).

    A failed run has no numbers, because its data is not stored, so only `no_data` rules can fire on it. Change rules
    never fire without a previous number, and percentage rules never fire if it was 0.
    """
    fired: list[Alert] = []
    warnings: list[str] = []
    marks: dict[str, Mapping[str, Mark]] = {}
    for rule in rules:
        if rule.op != "no_data" and not any(rule.metric in values for values in numbers.values()):
            warnings.append(f"the rule {rule.metric} {rule.op} was skipped: this run has no such number")
        held = _true_alerts(rule, numbers, previous or {})
        alerts, kept = _firing(rule, held, state.get(rule.key, {}), at)
        fired += alerts if by_row else [replace(alert, row_id=None) for alert in alerts]
        if kept:
            marks[rule.key] = kept
    return Judged(fired, warnings, marks)


def backtest(
    rules: Iterable[AlertRule], runs: Iterable[Seen], *, by_row: bool, previous: Numbers | None = None
) -> Iterator[Firing]:
    """Yield the alerts of each past run, oldest first, as if the rules had been set just before the first run.

    `previous` contains the numbers of the last successful run before the first one. Runs without alerts are yielded
    too, so that the caller can pause between runs: many rules over many rows take milliseconds per run.
    """
    rules = tuple(rules)
    state: State = {}
    for run in runs:
        judged = judge(rules, run.numbers, previous, state=state, at=run.at, by_row=by_row)
        state = judged.state
        previous = run.numbers if run.counts else previous
        yield Firing(run.run_id, run.at, judged.fired)


def _true_alerts(rule: AlertRule, numbers: Numbers, previous: Numbers) -> dict[str, Alert]:
    """Return, by row, the alerts whose condition is true on this run, without regard to streaks and cooldowns."""
    if rule.op == "no_data":
        is_there = any(rule.metric in values for values in numbers.values())
        return {} if is_there else {PAGE: Alert(rule.metric, rule.op, None, None, row_id=PAGE)}
    of_rows = (
        _alert(rule, row, values[rule.metric], previous.get(row, {}).get(rule.metric))
        for row, values in numbers.items()
        if rule.metric in values
    )
    return {row: alert for row, alert in of_rows if alert is not None}


def _alert(rule: AlertRule, row: str, cur: Number, prev: Number | None) -> tuple[str, Alert | None]:
    assert rule.value is not None, "only no_data has no value"
    holds = _ABSOLUTE.get(rule.op)
    if holds is not None:
        return row, Alert(rule.metric, rule.op, None, cur, row_id=row) if holds(cur, rule.value) else None
    if prev is None:
        return row, None
    changed = change(prev, cur)
    if not _changed_enough(rule.op, rule.value, changed):
        return row, None
    return row, Alert(rule.metric, rule.op, prev, cur, changed.abs, changed.pct, row_id=row)


def _changed_enough(op: str, value: Number, changed: Delta) -> bool:
    """Return whether a change fires a rule: `abs_change_gt` in both directions, percentage rules only in their own."""
    if op == "abs_change_gt":
        return changed.abs is not None and abs(changed.abs) > value
    if changed.pct is None:
        return False
    return changed.pct > value if op == "pct_change_gt" else changed.pct < value


def _firing(
    rule: AlertRule, held: Mapping[str, Alert], marks: Mapping[str, Mark], at: float
) -> tuple[list[Alert], dict[str, Mark]]:
    """Return the alerts that fire, and the marks to keep. A rule without `consecutive` and cooldown keeps no marks."""
    if rule.consecutive == 1 and not rule.cooldown_s:
        return list(held.values()), {}
    fired: list[Alert] = []
    kept: dict[str, Mark] = {}
    for row, alert in held.items():
        streak, fired_at = marks.get(row, (0, None))
        streak = min(streak + 1, rule.consecutive)
        if streak == rule.consecutive and not _is_silent(rule, fired_at, at):
            fired.append(alert)
            fired_at = at
        kept[row] = (streak, fired_at)
    for row, (_, fired_at) in marks.items():
        if row not in held and _is_silent(rule, fired_at, at):
            kept[row] = (0, fired_at)
    return fired, _newest(kept)


def _is_silent(rule: AlertRule, fired_at: float | None, at: float) -> bool:
    return fired_at is not None and at - fired_at < rule.cooldown_s


def _newest(marks: dict[str, Mark]) -> dict[str, Mark]:
    """Return the most useful marks: rows in a streak first, then the rows that fired most recently."""
    if len(marks) <= _MARKS_MAX:
        return marks
    by_worth = sorted(marks.items(), key=lambda entry: (entry[1][0] > 0, entry[1][1] or 0.0), reverse=True)
    return dict(by_worth[:_MARKS_MAX])
