"""When alert rules fire, on each run and over a history of runs."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.monitors.metrics.alerts import Alert, Judged, Seen, backtest, judge
from scheduler.monitors.metrics.numbers import number_of
from scheduler.monitors.metrics.rules import OPS, AlertRule

HOUR_S = 3600


def judged(rules, numbers, previous=None, *, state=None, at=0.0, by_row=True) -> Judged:
    return judge(rules, numbers, previous, state=state or {}, at=at, by_row=by_row)


def fires(rule: AlertRule, cur: float, prev: float | None = None) -> bool:
    return bool(judged([rule], {"a": {"x": cur}}, None if prev is None else {"a": {"x": prev}}).fired)


@pytest.mark.parametrize(
    ("op", "value", "cur", "expected"),
    [
        ("gt", 5, 6, True),
        ("gt", 5, 5, False),
        ("gte", 5, 5, True),
        ("gte", 5, 4.9, False),
        ("lt", 5, 4, True),
        ("lt", 5, 5, False),
        ("lte", 5, 5, True),
        ("lte", 5, 5.1, False),
        ("lt", 0, -0.0, False),
    ],
)
def test_absolute_ops_use_only_the_number_of_the_run(op, value, cur, expected):
    assert fires(AlertRule("x", op, value), cur) is expected
    assert fires(AlertRule("x", op, value), cur, prev=-100) is expected


@pytest.mark.parametrize(
    ("op", "value", "prev", "cur", "expected"),
    [
        ("abs_change_gt", 10, 100, 111, True),
        ("abs_change_gt", 10, 100, 89, True),
        ("abs_change_gt", 10, 100, 110, False),
        ("abs_change_gt", 10, 0, 11, True),
        ("abs_change_gt", 0, 7, 7, False),
        ("abs_change_gt", 1, 1e308, -1e308, False),
        ("pct_change_gt", 10, 100, 111, True),
        ("pct_change_gt", 10, 100, 110, False),
        ("pct_change_gt", 10, 100, 50, False),
        ("pct_change_gt", 10, -100, -50, True),
        ("pct_change_gt", -100, 0, 50, False),
        ("pct_change_lt", -10, 100, 89, True),
        ("pct_change_lt", -10, 100, 90, False),
        ("pct_change_lt", -10, 100, 200, False),
        ("pct_change_lt", 100, 0, 50, False),
    ],
)
def test_change_ops_compare_with_the_previous_run(op, value, prev, cur, expected):
    assert fires(AlertRule("x", op, value), cur, prev) is expected


@pytest.mark.parametrize("op", ["abs_change_gt", "pct_change_gt", "pct_change_lt"])
@pytest.mark.parametrize("value", [-1e9, 0, 1e9])
@pytest.mark.parametrize("previous", [None, {}, {"a": {}}, {"a": {"y": 1}}, {"b": {"x": 1}}])
def test_change_ops_never_fire_without_a_previous_number(op, value, previous):
    told = judged([AlertRule("x", op, value)], {"a": {"x": 5}}, previous)
    assert told == ([], [], {})


def test_alert_json_matches_the_specification():
    numbers, previous = {"a": {"x": 150}}, {"a": {"x": 100}}
    rules = [AlertRule("x", "gt", 5), AlertRule("x", "pct_change_gt", 5), AlertRule("x", "abs_change_gt", 5)]
    absolute, pct, change = judged(rules, numbers, previous).fired
    assert absolute.to_json() == {
        "metric": "x",
        "op": "gt",
        "from": None,
        "to": 150,
        "delta": None,
        "pct_change": None,
        "row_id": "a",
    }
    told = {
        "metric": "x",
        "op": "pct_change_gt",
        "from": 100,
        "to": 150,
        "delta": 50,
        "pct_change": 50.0,
        "row_id": "a",
    }
    assert pct.to_json() == told
    assert change.to_json() == {**told, "op": "abs_change_gt"}
    assert judged([AlertRule("x", "abs_change_gt", 5)], numbers, {"a": {"x": 0}}).fired[0].pct_change is None


def test_ordinary_monitor_alerts_have_no_row_id():
    (alert,) = judged([AlertRule("a.b", "gt", 1)], {"_": {"a.b": 2}}, by_row=False).fired
    assert alert == Alert("a.b", "gt", None, 2)
    assert "row_id" not in alert.to_json()


def test_rows_are_evaluated_separately_in_page_order():
    numbers = {"_": {"total": 9}, "b": {"x": 9}, "c": {}, "a": {"x": 8}, "d": {"x": 1}}
    assert [alert.row_id for alert in judged([AlertRule("x", "gt", 5)], numbers).fired] == ["b", "a"]
    assert [alert.row_id for alert in judged([AlertRule("total", "gt", 5)], numbers).fired] == ["_"]


def test_rule_with_a_missing_metric_is_skipped_with_a_warning():
    told = judged([AlertRule("nope", "gt", 0), AlertRule("x", "gt", 0)], {"a": {"x": 1}, "b": {}})
    assert told.warnings == ["the rule nope gt was skipped: this run has no such number"]
    assert [alert.metric for alert in told.fired] == ["x"]


def test_no_data_fires_if_no_row_has_the_metric():
    rule = AlertRule("x", "no_data")
    assert judged([rule], {"a": {"x": 0}, "b": {}}).fired == []
    for numbers in ({}, {"_": {}}, {"a": {"y": 1}}):
        told = judged([rule], numbers, {"a": {"x": 1}})
        assert told.fired == [Alert("x", "no_data", None, None, row_id="_")]
        assert told.warnings == []
    assert judged([rule], {"_": {}}, by_row=False).fired == [Alert("x", "no_data", None, None)]


def walk(rule: AlertRule, series, step_s=HOUR_S) -> list[int]:
    """Return the positions at which the rule fires in a series of numbers.

    None in the series is a run without a number.
    """
    state, fired, previous = {}, [], None
    for place, number in enumerate(series):
        numbers = {"a": {} if number is None else {"x": number}}
        told = judged([rule], numbers, previous, state=state, at=place * step_s)
        state = json.loads(orjson.dumps(told.state))  # the state passes through JSON, as in the store
        previous = numbers
        fired += [place] * len(told.fired)
    return fired


@pytest.mark.parametrize(
    ("rule", "series", "expected"),
    [
        (AlertRule("x", "gt", 5), [6, 7, 1, 8], [0, 1, 3]),
        (AlertRule("x", "gt", 5, consecutive=3), [6, 6, 6, 6, 1, 6, 6, 6], [2, 3, 7]),
        (AlertRule("x", "gt", 5, consecutive=2), [6, None, 6, 6], [3]),
        (AlertRule("x", "gt", 5, cooldown_s=2 * HOUR_S), [6] * 6, [0, 2, 4]),
        (AlertRule("x", "gt", 5, cooldown_s=2 * HOUR_S), [6, 1, 6, 6], [0, 2]),
        (AlertRule("x", "gt", 5, cooldown_s=3 * HOUR_S), [6, 1, 6, 6], [0, 3]),
        (AlertRule("x", "gt", 5, cooldown_s=3 * HOUR_S), [6, None, 6, 6], [0, 3]),
        (AlertRule("x", "gt", 5, consecutive=2, cooldown_s=2 * HOUR_S), [6, 6, 6, 6, 1, 6, 6], [1, 3, 6]),
        (AlertRule("x", "abs_change_gt", 1, consecutive=2), [0, 5, 10, 10, 20, 30], [2, 5]),
        (AlertRule("x", "pct_change_lt", -10), [100, 80, 79, 0, 10, 5], [1, 3, 5]),
        (AlertRule("x", "no_data", consecutive=2), [1, None, None, None, 1, None], [2, 3]),
        (AlertRule("x", "no_data", cooldown_s=10 * HOUR_S), [None, None, 1, None], [0]),
    ],
)
def test_rule_fires_at_the_expected_runs_of_a_series(rule, series, expected):
    assert walk(rule, series) == expected


def test_streaks_and_cooldowns_are_separate_for_each_row_and_rule():
    rules = [AlertRule("x", "gt", 5, consecutive=2), AlertRule("x", "gt", 7, consecutive=2)]
    first = judged(rules, {"a": {"x": 6}, "b": {"x": 8}})
    assert first.fired == []
    second = judged(rules, {"a": {"x": 8}, "c": {"x": 8}}, state=first.state)
    assert [(alert.row_id, alert.op) for alert in second.fired] == [("a", "gt")]


def test_edited_rule_starts_with_empty_state_and_removed_rule_is_forgotten():
    state = judged([AlertRule("x", "gt", 5, consecutive=2)], {"a": {"x": 6}}).state
    assert state
    assert judged([AlertRule("x", "gt", 5.5, consecutive=2)], {"a": {"x": 6}}, state=state).fired == []
    assert judged([], {"a": {"x": 6}}, state=state).state == {}


def test_rules_without_streak_or_cooldown_keep_no_state():
    assert judged([AlertRule("x", "gt", 5)], {"a": {"x": 6}}).state == {}


def test_remembered_rows_are_limited_to_the_most_useful():
    rule, state = AlertRule("x", "gt", 5, cooldown_s=1_000 * HOUR_S), {}
    for run in range(10):
        numbers = {f"{run}-{row}": {"x": 6} for row in range(200)}
        state = judged([rule], numbers, state=state, at=run * HOUR_S).state
    (marks,) = state.values()
    assert {row.partition("-")[0] for row in marks} == {"8", "9"}
    assert len(marks) == 400


VALUES = st.integers(-3, 3) | st.floats(-1e300, 1e300).map(number_of)
RULES = st.builds(
    AlertRule,
    st.sampled_from("xyz"),
    st.sampled_from([op for op in OPS if op != "no_data"]),
    VALUES,
    st.integers(1, 3),
    st.sampled_from([0, HOUR_S, 3 * HOUR_S]),
) | st.builds(AlertRule, st.sampled_from("xyz"), st.just("no_data"), st.none(), st.integers(1, 3))
RUNS = st.lists(st.dictionaries(st.sampled_from("ab_"), st.dictionaries(st.sampled_from("xy"), VALUES)), max_size=8)


@given(st.lists(RULES, max_size=4, unique=True), RUNS, st.booleans())
def test_backtest_matches_the_original_alerts(rules, runs, by_row):
    """Goal: a backtest agrees with the original alerts.

    Method: evaluate run by run, and pass the state through JSON in between. Failed runs are not a baseline.
    """
    fired, state, previous = [], {}, None
    for place, numbers in enumerate(runs):
        told = judged(rules, numbers, previous, state=state, at=place * HOUR_S, by_row=by_row)
        state = json.loads(orjson.dumps(told.state))
        previous = numbers if any(numbers.values()) else previous
        fired.append((str(place), place * HOUR_S, told.fired))
        orjson.dumps([alert.to_json() for alert in told.fired])
    seen = [Seen(str(place), place * HOUR_S, numbers, any(numbers.values())) for place, numbers in enumerate(runs)]
    assert [tuple(firing) for firing in backtest(rules, seen, by_row=by_row)] == fired


@given(RULES, RUNS)
def test_streaks_and_cooldowns_only_remove_alerts(rule, runs):
    plain = AlertRule(rule.metric, rule.op, rule.value)
    seen = [Seen(str(place), place * HOUR_S, numbers) for place, numbers in enumerate(runs)]
    paced = {(firing.run_id, *map(str, firing.alerts)) for firing in backtest([rule], seen, by_row=True)}
    every = {firing.run_id: {*map(str, firing.alerts)} for firing in backtest([plain], seen, by_row=True)}
    assert all(set(alerts) <= every[run_id] for run_id, *alerts in paced)
