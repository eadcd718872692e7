"""Runs as rows: the request ids under which their attempts are charged."""

from __future__ import annotations

from dataclasses import replace

from scheduler.monitors.model.records import Run

RUN = Run("run_1", "mon_1", "acc_1", 0.0, "pending", 0.0)


def test_each_attempt_has_its_own_request_id() -> None:
    """A crash between two attempts must never merge their charges or split one of them."""
    ids = [replace(RUN, attempt=attempt).request_id() for attempt in range(5)]
    assert ids == ["run_1", "run_1", "run_1.2", "run_1.3", "run_1.4"]


def test_run_returns_the_request_ids_of_earlier_attempts() -> None:
    third = replace(RUN, attempt=3)
    assert [third.request_id(attempt) for attempt in (1, 2, 3)] == ["run_1", "run_1.2", "run_1.3"]
