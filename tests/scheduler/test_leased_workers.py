"""Leased work: if one piece fails, other pieces and the node continue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from scheduler.clock.catch_up import Ready
from scheduler.leased_workers import LeasedKind, LeasedWorkers, WorkLease
from storage.errors import StoreUnavailable
from tests.fakes.patient_clock import VIRTUALLY


@dataclass
class Log:
    lines: list[tuple[str, str]] = field(default_factory=list)

    def event(self, level: str, event: str, **fields: Any) -> None:
        self.lines.append((event, str(fields.get("error", ""))))

    def failure(self, event: str, exc: BaseException, **fields: Any) -> None:
        self.lines.append((event, str(exc)))


class Bench:
    """Leased work whose run, end and renewal are defined by the test."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.log = Log()
        self.errors: dict[str, Exception] = {}
        self.fail_error: Exception | None = None
        self.renew_error: Exception | None = None
        self.private = False
        self.failed: list[str] = []
        self.renewed: list[list[str]] = []
        self.go_on = trio.Event()
        kind: LeasedKind[str] = LeasedKind(
            name="run",
            lease_of=lambda work: WorkLease(work, work[0], 2),
            run=self.run,
            fail=self.fail,
            renew=self.renew,
            renew_every_s=1.0,
            is_private=lambda _: self.private,
        )
        self.workers = LeasedWorkers(kind, nursery, self.log)

    async def run(self, work: str) -> None:
        if work in self.errors:
            raise self.errors[work]
        await self.go_on.wait()

    async def fail(self, work: str) -> None:
        self.failed.append(work)
        if self.fail_error is not None:
            raise self.fail_error

    async def renew(self, ids: list[str]) -> None:
        self.renewed.append(ids)
        if self.renew_error is not None:
            raise self.renew_error


@asynccontextmanager
async def open_bench() -> AsyncIterator[Bench]:
    async with trio.open_nursery() as nursery:
        yield Bench(nursery)
        nursery.cancel_scope.cancel()


async def test_failure_is_logged_and_other_work_continues() -> None:
    async with open_bench() as bench:
        bench.errors["a1"] = RuntimeError("a bug")
        bench.workers.start(["a1", "b1"])
        await wait_all_tasks_blocked()
        assert bench.log.lines == [("run_failed", "a bug")]
        assert bench.failed == ["a1"]
        assert len(bench.workers) == 1
        assert "b1" in bench.workers


@pytest.mark.parametrize("error", [RuntimeError("another bug"), StoreUnavailable("away")], ids=["bug", "store"])
async def test_failing_failure_handler_ends_no_other_work(error: Exception) -> None:
    async with open_bench() as bench:
        bench.errors["a1"], bench.fail_error = RuntimeError("a bug"), error
        bench.workers.start(["a1", "b1"])
        await wait_all_tasks_blocked()
        assert bench.log.lines[0][0] == "run_failed"
        assert [text for _, text in bench.log.lines] == ["a bug", str(error)]
        assert "b1" in bench.workers


async def test_work_without_its_store_waits_for_its_lease_to_expire() -> None:
    async with open_bench() as bench:
        bench.errors["a1"] = StoreUnavailable("away")
        bench.workers.start(["a1"])
        await wait_all_tasks_blocked()
        assert bench.log.lines == [("run_cut_short", "away")]
        assert not bench.failed
        assert not bench.workers


async def test_private_work_keeps_the_text_of_its_errors_out_of_the_log() -> None:
    async with open_bench() as bench:
        bench.private, bench.errors["a1"] = True, RuntimeError("somebody's handle")
        bench.workers.start(["a1"])
        await wait_all_tasks_blocked()
        assert bench.log.lines == [("run_failed", "RuntimeError")]


@VIRTUALLY
async def test_leases_are_renewed_while_work_is_in_flight_and_after_a_failed_renewal() -> None:
    async with open_bench() as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.workers.keep_renewing)
        await trio.sleep(3.5)
        assert not bench.renewed, "no work is in flight"
        bench.renew_error = StoreUnavailable("away")
        bench.workers.start(["a1", "b1"])
        await trio.sleep(2)
        assert bench.renewed == [["a1", "b1"]] * 2
        assert bench.log.lines == [("run_leases_not_renewed", "away")] * 2
        bench.go_on.set()
        await trio.sleep(2)
        assert len(bench.renewed) == 2
        nursery.cancel_scope.cancel()


def ready(*ids: str) -> list[Ready]:
    return [Ready(float(at), one[0], one) for at, one in enumerate(ids)]


CHOICES: dict[str, tuple[Callable[[], list[Ready]], int, int, list[str]]] = {
    "round robin over accounts": (lambda: ready("a2", "a3", "b1"), 3, 9, ["b1", "a2"]),
    "an account's share": (lambda: ready("a2", "a3", "a4"), 9, 2, ["a2"]),
    "what is in flight is not chosen again": (lambda: ready("a1", "b1"), 9, 9, ["b1"]),
    "no room": (lambda: ready("b1"), 1, 9, []),
}


@pytest.mark.parametrize("name", CHOICES)
async def test_choose_shares_the_room_fairly(name: str) -> None:
    made, at_once, each_max, expected = CHOICES[name]
    async with open_bench() as bench:
        bench.workers.start(["a1"])
        chosen = bench.workers.choose(made(), at_once=at_once, each_max=each_max)
        assert [one.run_id for one in chosen] == expected
