"""Every body for a monitor becomes a monitor that can be stored, or an error that names a field and a fix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from scheduler.errors import MonitorInvalid
from scheduler.monitors.metrics.rules import stored_rules
from scheduler.monitors.model.draft import CreateBody, read_draft
from scheduler.monitors.model.patch import PatchBody, patched, read_patch
from scheduler.monitors.model.records import Monitor
from tests.fakes.scripted_recipes import ScriptedRecipes

NOW = 1_800_000_000.0
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
LIKES = "items[].post.engagement.likes"
RULES = st.lists(
    st.fixed_dictionaries(
        {"metric": st.sampled_from((LIKES, "total")) | JSON, "op": st.sampled_from(("gt", "no_data")) | JSON},
        optional={"value": JSON, "consecutive": JSON, "cooldown_s": JSON},
    ),
    max_size=3,
)
CADENCES: st.SearchStrategy[Any] = st.sampled_from(("hourly", "daily", "weekly")) | st.builds(
    dict, cron=st.sampled_from(("*/5 * * * *", "0 0 29 2 *", "* * * * *")) | JSON
)
URLS = st.sampled_from(("https://example.com/hook", "https://127.0.0.1/", None)) | JSON
CREATES = st.builds(
    CreateBody,
    recipe=st.just("github/search"),
    cadence=CADENCES | JSON,
    params=st.just({}),
    webhook_url=URLS,
    alert_rules=RULES | JSON,
    suppress_webhook_unless_alert=st.booleans() | JSON,
    webhook_secret=st.none() | st.text(max_size=12) | JSON,
    track=st.none() | st.just({"metrics": [LIKES, "total"]}) | JSON,
    webhook_format=st.sampled_from((None, "full", "rows")) | JSON,
    name=st.none() | st.text(max_size=12) | JSON,
    run_now=st.booleans() | JSON,
)
PATCHES = st.builds(
    PatchBody,
    name=st.just(UNSET) | st.text(max_size=12) | JSON,
    params=st.just(UNSET) | st.just({"who": "another"}),
    cadence=st.just(UNSET) | CADENCES | JSON,
    track=st.just(UNSET) | st.none() | st.just({"metrics": ["total"]}) | JSON,
    alert_rules=st.just(UNSET) | RULES | JSON,
    webhook_url=st.just(UNSET) | URLS,
    webhook_secret=st.just(UNSET) | st.none() | st.text(max_size=12) | JSON,
    webhook_format=st.just(UNSET) | st.sampled_from((None, "full", "rows")) | JSON,
    suppress_webhook_unless_alert=st.just(UNSET) | st.booleans() | JSON,
    status=st.just(UNSET) | st.sampled_from(("active", "paused")) | JSON,
)


def kept(sent: CreateBody) -> Monitor:
    return read_draft(sent, ScriptedRecipes(), now=NOW, allow_insecure=False).monitor("mon_1", "acc_1", "key_1", NOW)


def assert_helpful(refused: MonitorInvalid, fields: tuple[str, ...]) -> None:
    assert refused.param.split(".")[0].split("[")[0] in fields
    assert refused.problem
    assert refused.next_step.endswith(".")


def assert_sound(monitor: Monitor) -> None:
    """Check what the store's constraints and the clock require of a monitor."""
    assert monitor.webhook_format == "full" or monitor.track is not None
    assert (monitor.next_slot_at is None) == (monitor.status == "paused")
    assert monitor.next_slot_at is None or monitor.next_slot_at > NOW
    assert all(isinstance(rule.metric, str) for rule in stored_rules(orjson.loads(monitor.alert_rules)))
    assert 1 <= len(monitor.name) <= 200
    assert "\0" not in monitor.name


@given(CREATES)
def test_any_body_becomes_a_monitor_or_a_helpful_error(sent: CreateBody) -> None:
    try:
        monitor = kept(sent)
    except MonitorInvalid as refused:
        assert_helpful(refused, CreateBody.__struct_fields__)
    else:
        assert_sound(monitor)
        assert monitor.status == "active"


TRACKED = CreateBody("github/search", "hourly", {}, track={"metrics": [LIKES, "total"]})


@given(PATCHES, st.booleans())
def test_any_patch_is_applied_correctly_or_rejected(sent: PatchBody, is_paused: bool) -> None:
    before = kept(TRACKED)
    if is_paused:
        before = replace(before, status="paused", next_slot_at=None)
    try:
        patch = read_patch(sent, now=NOW, allow_insecure=False)
        after = patched(before, patch, NOW + 1, recipes=ScriptedRecipes(), has_webhook=False)
    except MonitorInvalid as refused:
        assert_helpful(refused, (*PatchBody.__struct_fields__, "body"))
    else:
        assert_sound(after)
        assert after.version == before.version + 1
        unchanged = ("id", "account_id", "recipe", "created_at", "runs_total", "credits_spent")
        assert all(getattr(after, name) == getattr(before, name) for name in unchanged)
