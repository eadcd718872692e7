"""The hub: which events wake which waiters, across nodes and by polling, with a simulated state and store."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from events.filters import AppendedEvent, Filters
from events.sleeper import Sleeper
from events.waking.notifier import CHECK_EVERY_S, Hub
from events.waking.waiter import WaitEnd, Waiter
from limits.timers import Deadlines
from storage.state import RECHECK
from tests.events.desk import ACCOUNT, KEY, Desk, alert, low


class Wire:
    """Carries messages to every node, or to every node except the publisher."""

    def __init__(self) -> None:
        self.published: list[bytes] = []
        self.send, self._receive = trio.open_memory_channel[bytes](math.inf)

    def publish(self, _channel: bytes, message: bytes) -> bool:
        self.published.append(message)
        return True

    @asynccontextmanager
    async def subscribe(self, _channel: bytes) -> AsyncIterator[Any]:
        yield self._receive


def appended(pos: int, **more: Any) -> AppendedEvent:
    row = {"type": "monitor.alert_fired", "key_id": KEY, "subject_id": "run_1", "parent_id": "mon_1", **more}
    return AppendedEvent(ACCOUNT, pos, **row)


async def wait(waiter: Waiter, patience_s: float = 1.0) -> WaitEnd:
    return await waiter.wait(trio.current_time() + patience_s, trio.sleep_forever)


async def wait_notified(waiter: Waiter, patience_s: float = 1.0) -> WaitEnd:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiter._deadlines.run)
        ended = await waiter.wait(trio.current_time() + patience_s)
        nursery.cancel_scope.cancel()
    return ended


WAYS = pytest.mark.parametrize("wait", [wait, wait_notified], ids=["reads_its_client", "is_notified_of_its_client"])
Wait = Callable[..., Awaitable[WaitEnd]]


@WAYS
async def test_event_between_arm_and_wait_wakes_the_wait(wait: Wait, autojump_clock: trio.abc.Clock) -> None:
    hub = Hub()
    waiter = hub.listen(ACCOUNT, KEY)
    hub.publish([appended(1)])
    assert await wait(waiter) is WaitEnd.MOVED
    waiter.arm()
    assert await wait(waiter) is WaitEnd.TIME_UP
    waiter.arm()
    hub.publish([appended(2)])
    waiter.expect(Filters(), behind=1)
    assert await wait(waiter) is WaitEnd.MOVED


async def test_wait_ends_when_its_client_leaves(autojump_clock: trio.abc.Clock) -> None:
    waiter = Hub().listen(ACCOUNT, KEY)
    assert await waiter.wait(trio.current_time() + 9, partial(trio.sleep, 1)) is WaitEnd.GONE
    assert await wait(waiter) is WaitEnd.TIME_UP, "the received data may have been a message"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call_later, waiter.disconnect)
        assert await wait_notified(waiter, 9) is WaitEnd.GONE
    assert await wait_notified(waiter, 9) is WaitEnd.GONE, "the waiter does not return"


async def call_later(tell: Callable[[], None]) -> None:
    await trio.sleep(1)
    tell()


@WAYS
async def test_wait_ended_in_several_ways_simultaneously_ends_once(wait: Wait, autojump_clock: trio.abc.Clock) -> None:
    hub = Hub()
    for first in (Waiter.wake, Waiter.close, Waiter.disconnect):
        waiter = hub.listen(ACCOUNT, KEY)

        def end(waiter: Waiter = waiter, first: Callable[[Waiter], None] = first) -> None:
            first(waiter)
            waiter.wake()
            waiter.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call_later, end)
            assert await wait(waiter, 9) in (WaitEnd.GONE, WaitEnd.CLOSING)
        assert not waiter.is_parked


@WAYS
async def test_wait_cancelled_while_it_is_woken_ends_cancelled(wait: Wait, autojump_clock: trio.abc.Clock) -> None:
    for is_told_first in (True, False):
        waiter = Hub().listen(ACCOUNT, KEY)
        with trio.CancelScope() as scope:
            both = [waiter.wake, scope.cancel] if is_told_first else [scope.cancel, waiter.wake]

            def end(both: list[Callable[[], None]] = both) -> None:
                for each in both:
                    each()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(call_later, end)
                await wait(waiter, 9)
                await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        assert not waiter.is_parked
        assert await wait(waiter, 9) is WaitEnd.MOVED


@WAYS
async def test_wait_ends_when_the_node_stops(wait: Wait, autojump_clock: trio.abc.Clock) -> None:
    hub = Hub()
    waiter = hub.listen(ACCOUNT, KEY)
    async with trio.open_nursery() as nursery:

        async def stop() -> None:
            await trio.sleep(1)
            assert hub.parked() == 1
            await hub.close()

        nursery.start_soon(stop)
        assert await wait(waiter, 9) is WaitEnd.CLOSING
    assert hub.parked() == 0
    assert await wait(hub.listen(ACCOUNT, KEY), 9) is WaitEnd.CLOSING, "no waiter is left"
    assert len(hub) == 2


def test_cancelled_waiter_is_removed() -> None:
    hub = Hub()
    one, other = hub.listen(ACCOUNT, KEY), hub.listen("acc_2", KEY)
    hub.leave(one)
    assert len(hub) == 1
    hub.leave(other)
    assert len(hub) == 0
    hub.publish([appended(1)])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from([None, KEY, "other"]),
            st.sampled_from(["x", "y"]),
            st.sampled_from([None, "x", "z"]),
        ),
        max_size=6,
    ),
    st.none() | st.frozensets(st.sampled_from(["a", "b"])),
    st.none() | st.frozensets(st.sampled_from(["x", "z"])),
    st.integers(0, 6),
)
def test_waiter_is_woken_exactly_by_events_that_a_read_would_find(
    facts: list[tuple[str, str | None, str, str | None]],
    types: frozenset[str] | None,
    chosen: frozenset[str] | None,
    behind: int,
) -> None:
    waiter = Waiter(ACCOUNT, KEY, Deadlines())
    waiter.expect(Filters(types, chosen), behind=behind)
    found = [
        pos
        for pos, (type_, key_id, subject, parent) in enumerate(facts, 1)
        if pos > behind
        and key_id in (None, KEY)
        and (types is None or type_ in types)
        and (chosen is None or subject in chosen or parent in chosen)
    ]
    for pos, (type_, key_id, subject, parent) in enumerate(facts, 1):
        waiter.observe(AppendedEvent(ACCOUNT, pos, type_, key_id, subject, parent))
    assert waiter._moved == bool(found)
    assert waiter._moved or waiter.is_behind == (len(facts) > behind)


async def test_message_of_another_node_wakes_waiters(autojump_clock: trio.abc.Clock) -> None:
    one, other = Wire(), Wire()
    here, there = Hub(one), Hub(other)  # type: ignore[arg-type]
    waiter = there.listen(ACCOUNT, KEY)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(there.keep_receiving)
        here.publish([appended(1), appended(2, key_id=None, parent_id=None)])
        for message in one.published:
            await other.send.send(message)
        assert await wait(waiter) is WaitEnd.MOVED
        nursery.cancel_scope.cancel()
    assert here.appended == {"monitor.alert_fired": 2}
    assert not there.appended, "each node counts only the events that it wrote"


@pytest.mark.parametrize("message", [RECHECK, b"{", b"[1]", b'[["acc_1"]]', b"\xff", b"7"])
async def test_unreadable_message_triggers_a_read(message: bytes, quick: Desk) -> None:
    wire = Wire()
    hub = Hub(wire)  # type: ignore[arg-type]
    waiter = hub.listen(ACCOUNT, KEY)
    waiter.expect(Filters(), behind=0)
    await quick.append(low())
    with trio.fail_after(CHECK_EVERY_S - 1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hub.keep_receiving)
            nursery.start_soon(hub.keep_checking, quick.store)
            await wire.send.send(message)
            assert await wait(waiter, 60) is WaitEnd.MOVED
            nursery.cancel_scope.cancel()


@WAYS
async def test_hub_polls_periodically_without_messages(wait: Wait, quick: Desk, autojump_clock: trio.abc.Clock) -> None:
    hub = Hub()
    waiter, reader, other = hub.listen(ACCOUNT, KEY), hub.listen(ACCOUNT, KEY), hub.listen("acc_2", KEY)
    waiter.expect(Filters(), behind=1)
    reader.expect(Filters(), behind=2)
    other.expect(Filters(), behind=0)
    await quick.append(alert(), alert())
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.keep_checking, quick.store)
        assert await wait(waiter, 60) is WaitEnd.MOVED
        assert trio.current_time() - began <= CHECK_EVERY_S + 0.1
        assert await wait(reader, 60) is WaitEnd.TIME_UP, "the hub has read the whole log"
        assert await wait(other, 1) is WaitEnd.TIME_UP
        nursery.cancel_scope.cancel()


class Reads:
    """Reads that are started for a waiter, and end when the test decides."""

    def __init__(self) -> None:
        self.begun: list[Sleeper] = []

    def begin(self, sleeper: Sleeper) -> None:
        self.begun.append(sleeper)


@asynccontextmanager
async def parked(reads: Reads, hub: Hub, patience_s: float = 9.0) -> AsyncIterator[tuple[Waiter, list[WaitEnd]]]:
    """A parked waiter whose reads are started by the hub, and how its wait has ended."""
    waiter, ends = hub.listen(ACCOUNT, KEY), list[WaitEnd]()
    waiter.expect(Filters(types=frozenset({"credits.low"})), behind=1, begin_read=reads.begin)

    async def park() -> None:
        ends.append(await wait_notified(waiter, patience_s))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(park)
        await trio.testing.wait_all_tasks_blocked()
        yield waiter, ends
        nursery.cancel_scope.cancel()


async def test_event_starts_a_read_whose_result_ends_the_wait(autojump_clock: trio.abc.Clock) -> None:
    hub, reads = Hub(), Reads()
    async with parked(reads, hub) as (waiter, ends):
        hub.publish([appended(2)])
        assert not reads.begun, "the event does not match the waiter"
        hub.publish([appended(3, type="credits.low")])
        await trio.testing.wait_all_tasks_blocked()
        assert (reads.begun, ends, waiter.is_behind) == ([waiter], [], False)
        assert waiter.read_since == trio.current_time()
        reads.begun[0].deliver("a page")
        await trio.testing.wait_all_tasks_blocked()
        assert (ends, waiter.found, waiter.has_moved) == ([WaitEnd.MOVED], "a page", False)


async def test_event_during_a_read_ends_the_next_wait(autojump_clock: trio.abc.Clock) -> None:
    """The read may have started before the event, so the log must be read again."""
    hub, reads = Hub(), Reads()
    async with parked(reads, hub) as (waiter, ends):
        hub.publish([appended(2, type="credits.low")])
        hub.publish([appended(3, type="credits.low")])
        assert len(reads.begun) == 1
        waiter.deliver("a page")
        await trio.testing.wait_all_tasks_blocked()
        assert ends == [WaitEnd.MOVED]
        assert (await wait_notified(waiter), waiter.found) == (WaitEnd.MOVED, None)


@pytest.mark.parametrize("end", ["time up", "close", "nothing"])
async def test_read_in_progress_is_awaited(end: str, autojump_clock: trio.abc.Clock) -> None:
    hub, reads = Hub(), Reads()
    async with parked(reads, hub) as (waiter, ends):
        hub.publish([appended(2, type="credits.low")])
        if end == "close":
            await hub.close()
        elif end == "time up":
            await trio.sleep(60)
        await trio.testing.wait_all_tasks_blocked()
        assert ends == []
        waiter.deliver("a page")
        await trio.testing.wait_all_tasks_blocked()
        assert ends == [WaitEnd.MOVED]
        assert await wait_notified(waiter, 1) is (WaitEnd.CLOSING if end == "close" else WaitEnd.TIME_UP)
