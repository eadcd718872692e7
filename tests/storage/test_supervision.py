"""The supervised loop: failures are logged, counted, retried with backoff, and reported when they repeat."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
import trio

from storage.errors import StateUnavailable, StoreInUse, StoreUnavailable
from storage.supervision import FAULT_AFTER, PAUSE_S_MAX, STEADY_S, Supervision


@dataclass
class FakeLog:
    lines: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def event(self, level: str, event: str, **fields: Any) -> None:
        self.lines.append((event, {"level": level, **fields}))

    def failure(self, event: str, exc: BaseException, **fields: Any) -> None:
        self.lines.append((event, {"exc": exc, **fields}))

    def named(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.lines if name == event]


class Loop:
    """Work whose first runs raise, one exception each; the next one runs until cancelled."""

    def __init__(self, *raised: BaseException, lasting_s: float = 0.0) -> None:
        self.raised = list(raised)
        self.lasting_s = lasting_s
        self.starts: list[float] = []

    async def run(self) -> None:
        self.starts.append(trio.current_time())
        if not self.raised:
            await trio.sleep_forever()
        await trio.sleep(self.lasting_s)
        raise self.raised.pop(0)


@pytest.fixture
def log() -> FakeLog:
    return FakeLog()


@pytest.fixture
def supervision(log: FakeLog) -> Supervision:
    return Supervision(log, Random(1))


async def test_work_that_returns_is_not_restarted(supervision, autojump_clock):
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        await trio.lowlevel.checkpoint()

    await supervision.keep("sweep", work)
    assert runs == 1
    assert supervision.failures() == {"sweep": 0}


async def test_failure_is_logged_counted_and_retried(supervision, log, autojump_clock):
    error = KeyError("key_1")
    loop = Loop(error)
    with trio.move_on_after(10):
        await supervision.keep("sweep", loop.run)
    assert len(loop.starts) == 2
    assert supervision.failures() == {"sweep": 1}
    [line] = log.named("loop_failed")
    assert line["exc"] is error
    assert line["loop"] == "sweep"


async def test_backoff_doubles_up_to_its_bound_and_starts_again_after_a_steady_run(supervision, autojump_clock):
    loop = Loop(*[ValueError()] * 12)
    with trio.move_on_after(10_000):
        await supervision.keep("sweep", loop.run)
    pauses = [after - before for before, after in zip(loop.starts, loop.starts[1:], strict=False)]
    assert 0.25 <= pauses[0] <= 0.5
    assert all(1 <= pause <= PAUSE_S_MAX for pause in pauses[2:])
    assert pauses[-1] >= PAUSE_S_MAX / 2

    steady = Loop(ValueError(), ValueError(), lasting_s=STEADY_S + 1)
    with trio.move_on_after(1_000):
        await supervision.keep("other", steady.run)
    assert steady.starts[1] - steady.starts[0] <= STEADY_S + 1 + 0.5


async def test_repeated_failure_is_a_fault_until_the_loop_ran_for_a_while(supervision, autojump_clock):
    loop = Loop(*[KeyError("key_1")] * FAULT_AFTER)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervision.keep, "sweep", loop.run)
        await trio.sleep(0.6)
        assert supervision.fault is None, "a single failure is not yet a fault"
        await trio.sleep(10)
        assert len(loop.starts) == FAULT_AFTER + 1
        assert supervision.fault == "sweep (failed 3 times in a row, last with KeyError)"
        await trio.sleep(STEADY_S)
        assert supervision.fault is None
        nursery.cancel_scope.cancel()


async def test_loop_that_sleeps_for_long_before_it_fails_becomes_a_fault_too(supervision, autojump_clock):
    loop = Loop(*[KeyError("key_1")] * 20, lasting_s=600)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervision.keep, "forget", loop.run)
        await trio.sleep(4 * 630)
        assert supervision.fault is not None
        assert supervision.fault.startswith("forget (failed ")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("away", [StoreUnavailable("away"), StateUnavailable("away")])
async def test_unavailable_store_is_not_a_failure_of_the_loop(away, supervision, log, autojump_clock):
    loop = Loop(*[away] * 10)
    with trio.move_on_after(60):
        await supervision.keep("sweep", loop.run)
    assert len(loop.starts) == 11
    assert loop.starts[-1] - loop.starts[0] <= 10, "earlier passes do not delay the next one"
    assert supervision.failures() == {"sweep": 0}
    assert supervision.fault is None
    assert [line["level"] for line in log.named("loop_waits")] == ["warning"] * 10


async def test_store_unusable_is_raised_to_the_caller(supervision, log, autojump_clock):
    with pytest.raises(StoreInUse):
        await supervision.keep("beat", Loop(StoreInUse("another node")).run)
    assert log.lines == []


async def test_store_unusable_in_a_group_is_raised_and_other_failures_are_logged(supervision, log):
    lost, failed = StoreInUse("another node"), ValueError("broken")
    with pytest.raises(BaseExceptionGroup) as raised:
        await supervision.keep("beat", Loop(BaseExceptionGroup("", [failed, lost])).run)
    assert raised.value.exceptions == (lost,)
    assert [line["exc"] for line in log.named("loop_failed")] == [failed]


async def test_group_of_one_failure_is_logged_as_that_failure(supervision, log, autojump_clock):
    error = ValueError("broken")
    with trio.move_on_after(10):
        await supervision.keep("beat", Loop(ExceptionGroup("", [ExceptionGroup("", [error])])).run)
    assert [line["exc"] for line in log.named("loop_failed")] == [error]


async def test_failure_of_a_cancelled_loop_is_logged_and_the_loop_ends(supervision, log, autojump_clock):
    """The nursery of the work receives a failure and the cancellation at the same time."""
    scope = trio.CancelScope()

    async def fail() -> None:
        scope.cancel()
        raise ValueError("broken")

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(fail)

    with scope, trio.fail_after(60):
        await supervision.keep("beat", work)
    assert scope.cancelled_caught
    assert len(log.named("loop_failed")) == 1
