"""Changes to a monitor: omitted fields are kept, invalid ones are named, and the next slot is set (decisions 12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from scheduler.errors import MonitorInvalid
from scheduler.monitors.model.draft import CreateBody, read_draft
from scheduler.monitors.model.patch import PatchBody, patched, read_patch
from scheduler.monitors.model.records import Monitor
from tests.fakes.scripted_recipes import ScriptedRecipes

MADE = 1_800_000_000.0 + 1_200  # 08:20 UTC
LATER = MADE + 3 * 3_600
HOOK = "https://example.com/hook"
LIKES = "items[].post.engagement.likes"
RULE = {"metric": LIKES, "op": "gt", "value": 1000}


def made(**sent: Any) -> Monitor:
    body = CreateBody("github/search", "hourly", {}, **{"webhook_url": HOOK, **sent})
    draft = read_draft(body, ScriptedRecipes(), now=MADE, allow_insecure=False)
    return draft.monitor("mon_1", "acc_1", "key_1", MADE)


PLAIN = made()
TRACKED = made(webhook_url=None, track={"metrics": [LIKES, "total"]})


def changed(monitor: Monitor, now: float = LATER, *, has_webhook: bool = True, **sent: Any) -> Monitor:
    patch = read_patch(PatchBody(**sent), now=now, allow_insecure=False)
    return patched(monitor, patch, now, recipes=ScriptedRecipes(), has_webhook=has_webhook)


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a name": ({"name": "Another"}, {"name": "Another"}),
    "a flag": ({"suppress_webhook_unless_alert": True}, {"suppress": True}),
    "rules": ({"alert_rules": [RULE]}, {"alert_rules": orjson.dumps([RULE]).decode()}),
    "no rules": ({"alert_rules": None}, {"alert_rules": "[]"}),
    "its webhook": ({"webhook_url": "https://example.com/other"}, {}),
    "a pause": ({"status": "paused"}, {"status": "paused", "next_slot_at": None}),
    "the same status": ({"status": "active"}, {}),
}


@pytest.mark.parametrize(("sent", "fields"), CHANGES.values(), ids=CHANGES.keys())
def test_patch_changes_only_its_fields_and_the_version(sent: dict[str, Any], fields: dict[str, Any]) -> None:
    assert changed(PLAIN, **sent) == replace(PLAIN, updated_at=LATER, version=1, **fields)


BEGUN = replace(TRACKED, rule_state='{"x": 1}', baseline_run_id="run_1")


def test_new_parameters_or_track_reset_baseline_and_rule_state() -> None:
    """Numbers from other parameters or another track must not be compared with earlier ones."""
    for sent in ({"params": {"query": "another"}}, {"track": {"metrics": ["total"]}}):
        after = changed(BEGUN, **sent)
        assert (after.rule_state, after.baseline_run_id) == ("{}", None), sent
    same = changed(BEGUN, params=orjson.loads(BEGUN.params), track={"metrics": [LIKES, "total"]}, name="Another")
    assert (same.rule_state, same.baseline_run_id, same.name) == ('{"x": 1}', "run_1", "Another")


def test_track_can_be_set_and_removed_with_a_webhook() -> None:
    tracked = changed(PLAIN, track={"metrics": ["total"]}, webhook_format="rows")
    assert (orjson.loads(tracked.track or "")["metrics"], tracked.webhook_format) == (["total"], "rows")
    assert changed(tracked, track=None, webhook_format="full").track is None
    for sent, has_webhook, param in (
        ({"track": None}, True, "webhook_format"),
        ({"track": None, "webhook_format": "full"}, False, "track"),
        ({"webhook_url": None, "track": None, "webhook_format": "full"}, True, "webhook_url"),
        ({"track": {"metrics": ["totl"]}}, True, "track.metrics[0]"),
    ):
        with pytest.raises(MonitorInvalid) as refused:
            changed(tracked, has_webhook=has_webhook, **sent)
        assert refused.value.param == param, sent


def test_stored_rules_are_validated_against_a_new_track() -> None:
    ruled = changed(TRACKED, alert_rules=[RULE])
    with pytest.raises(MonitorInvalid) as refused:
        changed(ruled, track={"metrics": ["total"]})
    assert refused.value.param == "alert_rules[0].metric"
    assert changed(ruled, track={"metrics": ["total"]}, alert_rules=[]).alert_rules == "[]"


def test_flag_and_rules_can_be_reset() -> None:
    before = made(suppress_webhook_unless_alert=True, alert_rules=[RULE])
    after = changed(before, suppress_webhook_unless_alert=False, alert_rules=[])
    assert (after.suppress, after.alert_rules) == (False, "[]")


# Next slots


@pytest.mark.parametrize(
    ("cadence", "due"),
    [
        ("hourly", LATER - 1_200 + 3_600),
        ("daily", MADE + 86_400),
        ("weekly", MADE + 7 * 86_400),
        ({"cron": "30 * * * *"}, LATER + 600),
    ],
)
def test_new_cadence_sets_the_next_slot_from_now(cadence: object, due: float) -> None:
    after = changed(PLAIN, cadence=cadence)
    assert (after.next_slot_at, orjson.loads(after.cadence)) == (due, cadence)


def test_resume_sets_the_next_slot_from_now() -> None:
    paused = changed(PLAIN, MADE + 60, status="paused")
    assert changed(paused, status="active").next_slot_at == LATER - 1_200 + 3_600


def test_change_without_cadence_or_status_keeps_the_slot() -> None:
    """This includes a slot that has arrived and waits to start."""
    assert PLAIN.next_slot_at is not None
    assert PLAIN.next_slot_at < LATER
    assert changed(PLAIN, name="Another").next_slot_at == PLAIN.next_slot_at


def test_paused_monitor_has_no_slot_after_any_change() -> None:
    paused = changed(PLAIN, status="paused")
    after = changed(paused, cadence="daily", name="Another")
    assert (after.status, after.next_slot_at, after.version) == ("paused", None, 2)


# Errors

# The body, the field named in the error, and the suggestion.
WRONG: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "nothing": ({}, "body", None),
    "a misspelt status": ({"status": "pause"}, "status", "paused"),
    "no status": ({"status": None}, "status", None),
    "an empty name": ({"name": ""}, "name", None),
    "no name": ({"name": None}, "name", None),
    "a misspelt cadence": ({"cadence": "dayly"}, "cadence", "daily"),
    "no cadence": ({"cadence": None}, "cadence", None),
    "a cadence that is too fast": ({"cadence": {"cron": "* * * * *"}}, "cadence.cron", None),
    "a rule of a misspelt op": ({"alert_rules": [{**RULE, "op": "gtt"}]}, "alert_rules[0].op", "gt"),
    "a rule on what is not tracked": (
        {"alert_rules": [RULE, {**RULE, "metric": LIKES[:-1]}]},
        "alert_rules[1].metric",
        LIKES,
    ),
    "a webhook within": ({"webhook_url": "https://127.0.0.1/"}, "webhook_url", None),
    "a flag that is none": ({"suppress_webhook_unless_alert": "yes"}, "suppress_webhook_unless_alert", None),
    "a right field beside a wrong one": ({"name": "Another", "status": "on"}, "status", None),
}


@pytest.mark.parametrize(("sent", "param", "meant"), WRONG.values(), ids=WRONG.keys())
def test_invalid_field_in_a_change_is_named(sent: dict[str, Any], param: str, meant: str | None) -> None:
    with pytest.raises(MonitorInvalid) as refused:
        changed(TRACKED, **sent)
    assert (refused.value.param, refused.value.did_you_mean) == (param, meant)
    assert refused.value.next_step.endswith(".")


def test_webhook_cannot_be_removed_without_track() -> None:
    with pytest.raises(MonitorInvalid, match="webhook_url cannot be removed unless track is set"):
        changed(PLAIN, webhook_url=None)
    assert changed(TRACKED, webhook_url=None) == replace(TRACKED, updated_at=LATER, version=1)
