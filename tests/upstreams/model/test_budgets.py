"""Budgets of units: what a call costs, and when the periods start and end."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.model.budgets import Budget, Period

PACIFIC = "America/Los_Angeles"


def at(text: str) -> float:
    """Return a time in UTC as Unix seconds."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


WINDOWS: dict[str, tuple[Period, str, str, str, str]] = {
    "a minute": ("minute", PACIFIC, "2026-03-08 10:00:59", "2026-03-08 10:00", "2026-03-08 10:01"),
    "a day in UTC": ("day", "UTC", "2026-11-28 23:59:59", "2026-11-28 00:00", "2026-11-29 00:00"),
    "a day in winter": ("day", PACIFIC, "2026-11-28 07:59:59", "2026-11-27 08:00", "2026-11-28 08:00"),
    "a day of 23 hours": ("day", PACIFIC, "2026-03-08 20:00:00", "2026-03-08 08:00", "2026-03-09 07:00"),
    "a day of 25 hours": ("day", PACIFIC, "2026-11-01 20:00:00", "2026-11-01 07:00", "2026-11-02 08:00"),
    "a month": ("month", PACIFIC, "2026-03-01 07:00:00", "2026-02-01 08:00", "2026-03-01 08:00"),
    "a december": ("month", "UTC", "2026-12-31 23:00:00", "2026-12-01 00:00", "2027-01-01 00:00"),
}


@pytest.mark.parametrize(("per", "zone", "now", "starts", "ends"), WINDOWS.values(), ids=WINDOWS)
def test_periods_follow_the_calendar(per: Period, zone: str, now: str, starts: str, ends: str) -> None:
    assert Budget(1, per=per, resets=zone).window(at(now)) == (at(starts), at(ends))


@given(
    st.floats(0, 4e9),
    st.sampled_from(["minute", "day", "month"]),
    st.sampled_from(["UTC", PACIFIC, "Asia/Kathmandu", "Australia/Lord_Howe"]),
)
def test_periods_follow_each_other_without_gaps(now: float, per: Period, zone: str) -> None:
    budget = Budget(1, per=per, resets=zone)
    window = budget.window(now)
    assert window.starts_at <= now < window.ends_at
    assert budget.window(window.ends_at).starts_at == window.ends_at
    assert per == "minute" or datetime.fromtimestamp(window.starts_at, ZoneInfo(zone)).hour == 0


def test_cost_follows_the_longest_prefix_and_is_at_most_everything() -> None:
    budget = Budget(50, costs={"/search": 10, "/search/all": 100})
    assert [budget.cost(path) for path in ("/x", "/search/x", "/search/all/x")] == [1, 10, 50]
