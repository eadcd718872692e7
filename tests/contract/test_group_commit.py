"""The writer on each real engine: which calls share a commit, which fail alone, and the effects of cancelled calls."""

import gc
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

import pytest
import trio
import trio.testing

from storage import batching
from storage.batching import Bell
from storage.errors import ConstraintViolated, HandlerFailed, StoreBusy, StoreUnavailable
from storage.opening import open_store
from storage.store import Store, Tx
from storage.transactions import Job
from tests.contract.calls import held_writer, submit_all, wait_held
from tests.storage.tables import NOTES, add, add_note, add_notes, all_texts


async def test_concurrent_calls_share_a_commit_except_the_first(
    store: Store,
) -> None:
    before = store.statistics().commits
    async with trio.open_nursery() as nursery:
        for number in range(64):
            nursery.start_soon(store.submit, add_notes, f"note {number}")
    assert store.statistics().commits - before <= 2
    assert len(await all_texts(store)) == 64


async def test_handler_receives_adjacent_requests_together_in_order(store: Store) -> None:
    """Goal: a closing after a charge finds that charge. Method: writes and two handlers alternate in one batch."""
    seen: list[list[str]] = []

    def watch(tx: Tx, requests: Sequence[str]) -> list[int]:
        seen.append(list(requests))
        return [tx.all("SELECT COUNT(*) FROM notes")[0][0]] * len(requests)

    results = await submit_all(
        store,
        [
            partial(store.submit, add_notes, "a"),
            partial(store.submit, add_notes, "b"),
            partial(store.submit, watch, "x"),
            partial(store.write, add_note("c")),
            partial(store.write, add_note("d")),
            partial(store.submit, watch, "y"),
            partial(store.submit, watch, "z"),
        ],
    )
    assert results == ["A", "B", 2, 1, 1, 4, 4]
    assert seen == [["x"], ["y", "z"]]
    assert await all_texts(store) == ["a", "b", "c", "d"]


async def test_refusal_affects_only_its_request(store: Store) -> None:
    results = await submit_all(store, [partial(store.submit, add_notes, text) for text in ("a", "bad b", "c")])
    assert [type(result) for result in results] == [str, ValueError, str]
    assert await all_texts(store) == ["a", "c"]


async def test_failing_handler_affects_only_its_requests(store: Store) -> None:
    results = await submit_all(
        store,
        [
            partial(store.write, add_note("before")),
            partial(store.submit, add_notes, "lost"),
            partial(store.submit, add_notes, "bug"),
            partial(store.write, add_note("after")),
        ],
    )
    assert [type(result) for result in results] == [int, HandlerFailed, HandlerFailed, int]
    assert isinstance(results[1].__cause__, ZeroDivisionError)
    assert results[1] is not results[2]
    assert await all_texts(store) == ["before", "after"]


async def test_raising_write_changes_nothing_and_its_error_is_raised(store: Store) -> None:
    def half(tx: Tx) -> None:
        add(tx, "half")
        raise LookupError("changed my mind")

    results = await submit_all(store, [partial(store.write, half), partial(store.write, add_note("whole"))])
    assert isinstance(results[0], LookupError)
    assert await all_texts(store) == ["whole"]


async def test_constraint_violation_raises_the_stores_error(store: Store) -> None:
    await store.write(add_note("one"))
    with pytest.raises(ConstraintViolated, match=r"(?i)unique"):
        await store.write(add_note("one"))


async def test_failed_commit_fails_all_calls_and_the_store_continues(store: Store) -> None:
    """Method: a foreign key that is only checked at COMMIT makes the real commit fail."""

    def poison(tx: Tx) -> None:
        tx.run("INSERT INTO replies (note_id) VALUES (77)")

    called: list[str] = []

    def told(tx: Tx) -> None:
        add(tx, "told")
        tx.on_commit(lambda: called.append("told"))

    results = await submit_all(
        store, [partial(store.write, told), partial(store.write, poison), partial(store.submit, add_notes, "x")]
    )
    assert [type(result) for result in results] == [ConstraintViolated] * 3
    assert called == []
    assert store.statistics().failed_commits == 1
    assert await all_texts(store) == []
    await store.write(add_note("alive"))
    assert await all_texts(store) == ["alive"]


async def test_callbacks_run_after_the_commit_before_callers_resume(store: Store) -> None:
    order: list[str] = []

    def write(name: str, tx: Tx) -> None:
        tx.on_commit(lambda: order.append(f"committed {name}"))
        if name == "b":
            raise LookupError

    async def call(name: str) -> None:
        await trio.lowlevel.checkpoint()
        try:
            await store.write(partial(write, name))
        except LookupError:
            order.append(f"failed {name}")
        else:
            order.append(f"resumed {name}")

    await submit_all(store, [partial(call, name) for name in "abc"])
    assert order[:2] == ["committed a", "committed c"]
    assert set(order[2:]) == {"resumed a", "failed b", "resumed c"}


async def test_call_cancelled_while_waiting_never_happens(store: Store) -> None:
    with trio.move_on_after(0.2) as scope, held_writer(store) as begun:
        await wait_held(begun)
        await store.write(add_note("never"))
    assert scope.cancelled_caught
    await store.write(add_note("later"))
    assert await all_texts(store) == ["later"]


async def test_call_in_a_cancelled_scope_never_happens(store: Store) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.write(add_note("never"))
    assert scope.cancelled_caught
    assert await all_texts(store) == []


async def test_running_call_is_awaited_when_cancelled(store: Store) -> None:
    running, go = threading.Event(), threading.Event()

    def slow(tx: Tx) -> str:
        running.set()
        assert go.wait(5)
        add(tx, "slow")
        return "done"

    result = None
    async with trio.open_nursery() as nursery:

        async def cancel_then_go() -> None:
            await trio.to_thread.run_sync(running.wait, 5)
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            go.set()

        nursery.start_soon(cancel_then_go)
        with trio.CancelScope() as scope:
            result = await store.write(slow)
    assert result == "done"
    assert await all_texts(store) == ["slow"]


async def test_cancelled_call_is_atomic(store: Store) -> None:
    """Goal: a caller that was cancelled has written nothing. Method: cancel hundreds of calls at random times."""
    rng = random.Random(7)
    done: set[str] = set()

    async def call(text: str, delay: float) -> None:
        with trio.move_on_after(delay):
            await store.submit(add_notes, text) if rng.random() < 0.5 else await store.write(add_note(text))
            done.add(text)

    for round_ in range(20):
        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(call, f"{round_}/{number}", rng.random() * rng.choice([0.003, 0.05]))
    assert 0 < len(done) < 600
    assert set(await all_texts(store)) == done


@pytest.mark.parametrize("callers", [1, 6])
async def test_call_cancelled_while_the_thread_dequeues_it_is_atomic(
    store: Store, monkeypatch: pytest.MonkeyPatch, callers: int
) -> None:
    """Method: a few callers at a time give up at about the time when the thread dequeues their calls."""
    rng = random.Random(11)
    heard: list[str] = []
    takers: Counter[str] = Counter()
    take = batching.Writer._take

    def watched(writer: batching.Writer, at_most: int) -> list[Job]:
        takers[threading.current_thread().name] += 1
        return take(writer, at_most)

    monkeypatch.setattr(batching.Writer, "_take", watched)

    async def caller(name: str) -> None:
        for number in range(300):
            with trio.move_on_after(rng.random() * 0.001 * callers):
                heard.append(cast("str", await store.submit(add_notes, f"{name}/{number}")))

    async with trio.open_nursery() as nursery:
        for name in "abcdef"[:callers]:
            nursery.start_soon(caller, name)
    # The thread may dequeue a lone call immediately. The call is then awaited although it was cancelled.
    assert 0 < len(heard) <= 300 * callers - (callers > 1)
    assert sorted(map(str.upper, await all_texts(store))) == sorted(heard)
    assert takers["storage-writer"] > 50


@contextmanager
def interrupted_everywhere() -> Iterator[None]:
    """Switch threads whenever an object is created, because garbage collection may run any code in any thread."""

    def interrupt(_phase: str, _info: object) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(interrupt)
    gc.set_threshold(1, 100_000, 100_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(interrupt)


async def test_calls_keep_their_order_despite_thread_switches(store: Store) -> None:
    """Method: calls are sent and abandoned while the thread dequeues them, with a thread switch at every new object."""
    seen: list[int] = []

    def watch(_tx: Tx, numbers: Sequence[int]) -> list[int]:
        seen.extend(numbers)
        return list(numbers)

    with interrupted_everywhere(), trio.fail_after(60):
        for round_ in range(300):
            async with trio.open_nursery() as nursery:
                for number in range(8):
                    nursery.start_soon(store.submit, watch, round_ * 100 + number)
                    store.submit_nowait(watch, round_ * 100 + 50 + number)
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.deadline = trio.current_time() + 0.001 * (round_ % 3)
    await store.write(add_note("last"))
    unheard = [number for number in seen if number % 100 >= 50]
    assert unheard == [round_ * 100 + 50 + number for round_ in range(300) for number in range(8)]
    assert len(seen) == len(set(seen))


async def test_callbacks_run_in_commit_order(store: Store) -> None:
    """Method: single callers, several concurrent ones, calls without a caller, and pauses alternate at random."""
    rng = random.Random(4)
    heard: list[int] = []

    def number(tx: Tx, requests: Sequence[str]) -> list[int]:
        tx.run_many("INSERT INTO notes (text) VALUES {rows}", [(text,) for text in requests])
        ((last,),) = tx.all("SELECT MAX(id) FROM notes")
        tx.on_commit(partial(heard.append, last))
        return [last] * len(requests)

    async def call(text: str) -> None:
        last = await store.submit(number, text)
        assert last in heard, "before any caller resumes"

    for round_ in range(300):
        if rng.random() < 0.5:
            store.submit_nowait(number, f"left {round_}")
        async with trio.open_nursery() as nursery:
            for each in range(rng.choice((0, 1, 1, 1, 3))):
                nursery.start_soon(call, f"{round_}/{each}")
        if rng.random() < 0.2:
            await trio.sleep(rng.random() * 1.5 * batching.LINGER_S)
    assert len(heard) > 200
    assert heard == sorted(heard)


async def test_lone_caller_waits_for_its_own_outcome(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: a stray ring precedes each wait, so a caller that trusts a ring returns without its outcome."""
    waits = 0
    wait = Bell.wait

    async def after_a_stray_ring(bell: Bell, give_up: Callable[[], bool]) -> None:
        nonlocal waits
        waits += 1
        if waits % 2:
            bell.ring()
        await wait(bell, give_up)

    monkeypatch.setattr(Bell, "wait", after_a_stray_ring)
    for number in range(20):
        assert await store.submit(add_notes, f"note {number}") == f"NOTE {number}"
    assert waits


async def test_queue_is_bounded(store: Store) -> None:
    def nothing(tx: Tx, requests: Sequence[int]) -> list[int]:
        return list(requests)

    with held_writer(store) as begun:
        await wait_held(begun)
        for number in range(batching.QUEUE_MAX):
            store.submit_nowait(nothing, number)
        with pytest.raises(StoreBusy):
            store.submit_nowait(nothing, 0)
        with pytest.raises(StoreBusy):
            await store.write(add_note("no room"))
    while store.statistics().waiting:  # noqa: ASYNC110 - the store has no event for it
        await trio.sleep(0.01)
    await store.write(add_note("room again"))


async def test_batch_is_bounded(store: Store) -> None:
    sizes: list[int] = []

    def measure(tx: Tx, requests: Sequence[int]) -> list[int]:
        sizes.append(len(requests))
        return list(requests)

    with held_writer(store) as begun:
        await wait_held(begun)
        for number in range(1200):
            store.submit_nowait(measure, number)
    await store.write(add_note("last"))
    assert sizes == [512, 512, 176]


async def test_background_error_is_logged_counted_and_passed_on(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    with caplog.at_level(logging.CRITICAL + 1):
        store.submit_nowait(add_notes, "bad", lambda: told.append("bad"))
        store.submit_nowait(add_notes, "good", lambda: told.append("good"))
        await store.write(add_note("last"))
    assert told == ["bad"]
    assert store.statistics().background_errors == 1
    assert await all_texts(store) == ["good", "last"]


async def test_submitted_calls_are_committed_before_the_store_closes(store_url: str) -> None:
    with trio.fail_after(10):
        async with open_store(store_url, [NOTES]) as store:
            for number in range(1000):
                store.submit_nowait(add_notes, f"note {number}")
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.write(add_note("late"))
        async with open_store(store_url, [NOTES]) as store:
            assert len(await all_texts(store)) == 1000


async def test_ping_writes_and_can_be_cancelled(store: Store) -> None:
    commits = store.statistics().commits
    await store.ping()
    assert store.statistics().commits == commits + 1
    with held_writer(store) as begun:
        await wait_held(begun)
        with trio.move_on_after(0.1) as scope:
            await store.ping()
        assert scope.cancelled_caught
    await store.write(add_note("fine"))


async def test_background_call_is_committed_soon_after_any_pause(store: Store) -> None:
    """Method: pauses close to the time when the thread goes to sleep, with and without calls in between."""
    rng = random.Random(1)
    with trio.fail_after(60):
        for number in range(120):
            store.submit_nowait(add_notes, f"note {number}")
            before = store.statistics().calls
            if rng.random() < 0.3:
                await store.submit(add_notes, f"heard {number}")
            while store.statistics().calls == before or store.statistics().waiting:  # noqa: ASYNC110 - it has no event
                await trio.sleep(0.001)
            await trio.sleep(rng.uniform(0.5, 1.5) * batching.LINGER_S)
        assert sum(text.startswith("note ") for text in await all_texts(store)) == 120
