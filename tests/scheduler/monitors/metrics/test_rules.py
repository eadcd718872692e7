"""The forms of an alert rule."""

from __future__ import annotations

from math import inf, nan

import pytest

from scheduler.errors import RulesInvalid
from scheduler.monitors.metrics.rules import AlertRule, read_rules, stored_rules
from scheduler.monitors.metrics.tracking import Track

VIEWS = "items[].post.engagement.views"
TRACK = Track((VIEWS, "total"), "post.id")


def rule(**fields: object) -> dict[str, object]:
    return {"metric": "followers", "op": "gt", "value": 5, **fields}


@pytest.mark.parametrize("op", ["gt", "lt", "gte", "lte", "abs_change_gt", "pct_change_gt", "pct_change_lt"])
@pytest.mark.parametrize("value", [0, -2.5, 10**6])
def test_rule_json_is_stored_unchanged(op, value):
    sent = [rule(op=op, value=value), rule(metric="a.b", consecutive=3, cooldown_s=60), rule(metric="c")]
    rules = read_rules(sent, None)
    assert rules[0] == AlertRule("followers", op, value)
    assert [rule.to_json() for rule in rules] == sent
    assert stored_rules([rule.to_json() for rule in rules]) == rules


def test_no_data_rule_takes_no_value():
    sent = [{"metric": "followers", "op": "no_data", "consecutive": 2}]
    rules = read_rules(sent, None)
    assert rules == (AlertRule("followers", "no_data", None, 2),)
    assert [rule.to_json() for rule in rules] == sent
    with pytest.raises(RulesInvalid, match=r"alert_rules\[0\].value is not allowed"):
        read_rules([{**sent[0], "value": 1}], None)


def test_missing_rules_are_an_empty_list():
    assert read_rules(None, None) == read_rules([], TRACK) == ()


def test_ordinary_monitor_rule_accepts_any_path():
    assert read_rules([rule(metric="user.stats.followers")], None)[0].metric == "user.stats.followers"


@pytest.mark.parametrize(
    ("metric", "meant"),
    [("followers", None), ("views", VIEWS), ("post.engagement.views", VIEWS), ("totl", "total"), ("items", None)],
)
def test_numbers_only_monitor_rule_needs_a_tracked_metric(metric, meant):
    assert read_rules([rule(metric=VIEWS)], TRACK)[0].metric == VIEWS
    with pytest.raises(RulesInvalid) as refused:
        read_rules([rule(metric=VIEWS), rule(metric=metric)], TRACK)
    assert refused.value.param == "alert_rules[1].metric"
    assert refused.value.problem == f"must be one of track.metrics, not {metric!r}"
    assert refused.value.did_you_mean == meant


@pytest.mark.parametrize(
    ("sent", "param", "problem", "meant"),
    [
        ({}, "alert_rules", "must be an array", None),
        ("gt", "alert_rules", "must be an array", None),
        ([rule(value=n) for n in range(21)], "alert_rules", "at most 20 rules", None),
        ([5], "alert_rules[0]", "must be an object, not a number", None),
        ([rule(), rule()], "alert_rules[1]", "is a duplicate", None),
        ([rule(threshold=5)], "alert_rules[0].threshold", "is an unknown field", None),
        ([rule(cooldown=5)], "alert_rules[0].cooldown", "is an unknown field", "cooldown_s"),
        ([rule(metric=None)], "alert_rules[0].metric", "is null, not text", None),
        ([rule(metric="")], "alert_rules[0].metric", "1 to 200 characters", None),
        ([rule(metric="x" * 201)], "alert_rules[0].metric", "1 to 200 characters", None),
        ([rule(metric=["a"])], "alert_rules[0].metric", "is an array, not text", None),
        ([rule(op=None)], "alert_rules[0].op", "not null", None),
        ([rule(op=[])], "alert_rules[0].op", "not an array", None),
        ([rule(op="GT")], "alert_rules[0].op", "not 'GT'", "gt"),
        ([rule(op="pct_change")], "alert_rules[0].op", "not 'pct_change'", "pct_change_lt"),
        ([rule(op=">")], "alert_rules[0].op", "not '>'", None),
        ([rule(value=None)], "alert_rules[0].value", "must be a finite number, not null", None),
        ([rule(value="5")], "alert_rules[0].value", "must be a finite number, not text", None),
        ([rule(value=True)], "alert_rules[0].value", "must be a finite number, not a boolean", None),
        ([rule(value=nan)], "alert_rules[0].value", "too large", None),
        ([rule(value=inf)], "alert_rules[0].value", "too large", None),
        ([rule(value=10**400)], "alert_rules[0].value", "too large", None),
        ([rule(consecutive=0)], "alert_rules[0].consecutive", "from 1 to 100", None),
        ([rule(consecutive=101)], "alert_rules[0].consecutive", "from 1 to 100", None),
        ([rule(consecutive=True)], "alert_rules[0].consecutive", "from 1 to 100", None),
        ([rule(cooldown_s=-1)], "alert_rules[0].cooldown_s", "from 0 to 2592000", None),
        ([rule(cooldown_s=1.5)], "alert_rules[0].cooldown_s", "from 0 to 2592000", None),
    ],
)
def test_invalid_rule_is_rejected_with_a_suggestion(sent, param, problem, meant):
    with pytest.raises(RulesInvalid) as refused:
        read_rules(sent, None)
    assert refused.value.param == param
    assert problem in refused.value.problem
    assert refused.value.did_you_mean == meant
    assert refused.value.next_step.endswith(".")
