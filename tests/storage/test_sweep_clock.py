"""When removals by age may trust the clock, in virtual time; the row in the store outlives processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from storage.errors import StoreUnavailable
from storage.sweep_clock import AHEAD_S, MIGRATIONS, SECOND_CHECK_S, SweepClock
from tests.fakes.inline_store import InlineStore

EPOCH = 1_800_000_000.0
DAY_S = 86_400.0


class Machine:
    """A machine with a settable clock and a store. Each `process` has its own instance."""

    def __init__(self) -> None:
        self.store = InlineStore([MIGRATIONS])
        self.wrong_s = 0.0
        self.events: list[tuple[str, str, dict[str, Any]]] = []

    def now(self) -> float:
        return EPOCH + trio.current_time() + self.wrong_s

    def process(self) -> SweepClock:
        return SweepClock(self.store, lambda _tx: self.now(), event=self.event)

    def event(self, level: str, name: str, **fields: Any) -> None:
        self.events.append((level, name, fields))

    async def trusted(self) -> SweepClock:
        """Return a process that has checked the clock twice."""
        clock = self.process()
        assert await clock.check() is None
        await trio.sleep(SECOND_CHECK_S)
        assert await clock.check() == self.now()
        return clock


@pytest.fixture
def machine() -> Iterator[Machine]:
    opened = Machine()
    yield opened
    opened.store.close()


async def test_never_swept_store_is_swept_at_the_second_check_without_warning(
    machine: Machine, autojump_clock: MockClock
) -> None:
    clock = machine.process()
    assert await clock.check() is None
    await trio.sleep(SECOND_CHECK_S - 1)
    assert await clock.check() is None
    await trio.sleep(1)
    assert await clock.check() == machine.now()
    assert machine.events == []


@pytest.mark.parametrize("passes_s", [0.0, 600.0, 10 * DAY_S])
async def test_evenly_running_clock_is_trusted_at_every_check(
    machine: Machine, autojump_clock: MockClock, passes_s: float
) -> None:
    clock = await machine.trusted()
    for wrong_s in (0.0, 60.0, AHEAD_S, AHEAD_S - 60):
        machine.wrong_s += wrong_s
        await trio.sleep(passes_s)
        assert await clock.check() == machine.now()
    assert machine.events == []


async def test_jump_of_more_than_a_day_is_reported_and_trusted_after_an_hour(
    machine: Machine, autojump_clock: MockClock
) -> None:
    clock = await machine.trusted()
    machine.wrong_s += 40 * DAY_S
    told = {"at": machine.now(), "ahead_s": 40 * 86_400, "sweeps_again_in_s": SECOND_CHECK_S}
    for _ in range(6):
        assert await clock.check() is None
        await trio.sleep(SECOND_CHECK_S / 6)
    assert machine.events == [("warning", "clock_doubted", told)]
    assert await clock.check() == machine.now()


async def test_corrected_clock_is_trusted_immediately(machine: Machine, autojump_clock: MockClock) -> None:
    clock = await machine.trusted()
    machine.wrong_s += 40 * DAY_S
    assert await clock.check() is None
    machine.wrong_s -= 40 * DAY_S
    await trio.sleep(10)
    assert await clock.check() == machine.now()
    machine.wrong_s += 40 * DAY_S
    assert await clock.check() is None, "the first doubt and its hour have ended"


async def test_second_jump_restarts_the_hour(machine: Machine, autojump_clock: MockClock) -> None:
    clock = await machine.trusted()
    for jump_s in (40 * DAY_S, 300 * DAY_S, -100 * DAY_S):
        machine.wrong_s += jump_s
        assert await clock.check() is None
        await trio.sleep(SECOND_CHECK_S - 1)
    assert await clock.check() is None
    await trio.sleep(1)
    assert await clock.check() == machine.now()
    assert [fields["ahead_s"] // 86_400 for _, _, fields in machine.events] == [40, 340, 240]


async def test_process_started_with_a_wrong_clock_detects_it_from_the_store(
    machine: Machine, autojump_clock: MockClock
) -> None:
    await machine.trusted()
    machine.wrong_s += 40 * DAY_S
    for _ in range(3):
        restarted = machine.process()
        assert await restarted.check() is None
        await trio.sleep(SECOND_CHECK_S - 1)
        assert await restarted.check() is None, "each process needs its own hour"
    assert len(machine.events) == 3
    machine.wrong_s -= 40 * DAY_S
    assert await machine.process().check() == machine.now()


async def test_node_that_was_off_for_a_week_resumes_after_an_hour(machine: Machine, autojump_clock: MockClock) -> None:
    await machine.trusted()
    await trio.sleep(7 * DAY_S)
    restarted = machine.process()
    assert await restarted.check() is None
    await trio.sleep(SECOND_CHECK_S)
    assert await restarted.check() == machine.now()
    assert [name for _, name, _ in machine.events] == ["clock_doubted"]


async def test_backward_jump_is_trusted_and_its_reversal_is_a_jump(machine: Machine, autojump_clock: MockClock) -> None:
    clock = await machine.trusted()
    machine.wrong_s -= 400 * DAY_S
    assert await clock.check() == machine.now()
    machine.wrong_s += 400 * DAY_S
    assert await clock.check() is None
    await trio.sleep(SECOND_CHECK_S)
    assert await clock.check() == machine.now()


async def test_second_check_of_one_node_is_trusted_by_others(machine: Machine, autojump_clock: MockClock) -> None:
    one, other = await machine.trusted(), machine.process()
    machine.wrong_s += 40 * DAY_S
    assert [await clock.check() for clock in (one, other)] == [None, None]
    await trio.sleep(SECOND_CHECK_S)
    assert [await clock.check() for clock in (one, machine.process())] == [machine.now()] * 2


async def test_failed_check_raises_and_changes_nothing(machine: Machine, autojump_clock: MockClock) -> None:
    clock = await machine.trusted()
    machine.store.failing = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        await clock.check()
    machine.store.failing = None
    assert await clock.check() == machine.now()
