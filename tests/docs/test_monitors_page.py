"""docs/monitors.md: its statements about clocks, limits, rules and reasons match the code."""

import re
from datetime import datetime

import pytest

from scheduler.clock.cadence import next_slot, read_cadence
from scheduler.clock.catch_up import MISSED, RECORDED_MAX
from scheduler.errors import MonitorInvalid
from scheduler.monitors.changes import ACTIVE_MAX, ALL_MAX
from scheduler.monitors.history.timeseries import POINTS_MAX
from scheduler.monitors.metrics.rules import CONSECUTIVE_MAX, OPS, RULES_MAX
from scheduler.monitors.model.fields import NAME_MAX
from scheduler.monitors.model.patch import PatchBody
from scheduler.monitors.runs.runs import NO_CREDITS
from scheduler.monitors.runs.slots import STILL_RUNS
from tests.fakes.shelf import read
from tests.processes.commands import PROJECT
from upstreams.fetching.plan import as_collecting
from upstreams.model.archetypes import POST_LIST
from upstreams.model.endpoint import Collect, Endpoint
from upstreams.model.params import limit

PAGE = (PROJECT / "docs" / "monitors.md").read_text()
SLOTS = re.findall(r"^\| (20\d\d-\d\d-\d\d)[^|]*\| (\S+Z)", PAGE, re.M)


def test_slots_across_clock_changes_match_scheduler() -> None:
    cadence = read_cadence({"cron": "30 2 * * *", "timezone": "Europe/Berlin"}, 0.0)
    assert len(SLOTS) == 4
    for day, slot in SLOTS:
        midnight = datetime.fromisoformat(f"{day}T00:00:00+01:00").timestamp()
        assert next_slot(cadence, midnight, 0.0) == datetime.fromisoformat(slot).timestamp(), day


def test_plan_table_matches_code() -> None:
    told = {plan: int(most) for plan, most in re.findall(r"^\| ([a-z]+) \| (\d+) \|$", PAGE, re.M)}
    assert told == dict(ACTIVE_MAX)
    assert f"at most {ALL_MAX:,} Monitors in total" in PAGE


def test_page_lists_every_operator_and_changeable_field() -> None:
    fields = ("consecutive", "cooldown_s", *PatchBody.__struct_fields__)
    assert [name for name in (*OPS, *fields) if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize("reason", [MISSED, STILL_RUNS, NO_CREDITS])
def test_page_lists_every_skip_reason(reason: str) -> None:
    assert f"`{reason}`" in PAGE


def test_page_lists_every_monitor_error_reason() -> None:
    errors = (PROJECT / "gateway" / "http" / "errors.py").read_text()
    about_monitors = errors[errors.index("def _monitor_invalid") : errors.index("def _claim_refused")]
    sources = [about_monitors, (PROJECT / "gateway" / "api" / "routes" / "monitor_past.py").read_text()]
    reasons = {reason for text in sources for reason in re.findall(r'"?reason"?[:=] ?"([a-z_]+)"', text)}
    reasons |= {MonitorInvalid("recipe", "is wrong", "Send another.").reason, "double_encoded", "invalid_utf8"}
    assert {"invalid_param", "monitor_limit_reached", "run_too_soon", "no_numbers"} <= reasons
    assert {reason for reason in reasons | {"unknown_monitor"} if f"`{reason}`" not in PAGE} == set()


def test_documented_page_counts_match_planned_walks() -> None:
    sized, unsized = (
        as_collecting(Endpoint(resource="x", summary="Xs.", archetype=POST_LIST, read=read, params=params))
        for params in ((limit(100),), ())
    )
    assert (sized.collect, unsized.collect) == (Collect(100, spare_pages=4), Collect(10_000, spare_pages=19))
    told = " ".join(PAGE.split())
    assert "four extra pages if the credits are available (20 pages in total if the endpoint has no `limit`)" in told


def test_documented_numbers_match_code() -> None:
    for told in (
        f"up to {RULES_MAX} [rules](#alerts)",
        f"(1 to {CONSECUTIVE_MAX})",
        f"up to {NAME_MAX} characters",
        f"At most {RECORDED_MAX} of them",
        f"{POINTS_MAX:,} numbers",
    ):
        assert told in PAGE, told
