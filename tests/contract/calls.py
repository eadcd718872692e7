"""Calls that wait for the same commit."""

import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import trio
import trio.testing

from storage.store import Store, Tx

Call = Callable[[], Awaitable[object]]


@contextmanager
def held_writer(store: Store, *, also: Callable[[Tx], None] = lambda tx: None) -> Iterator[threading.Event]:
    """Keep the writer's thread busy while the block runs, so that calls submitted inside it share a commit."""
    begun, go = threading.Event(), threading.Event()

    def hold(tx: Tx, requests: Sequence[None]) -> list[None]:
        begun.set()
        assert go.wait(10)
        also(tx)
        return [None] * len(requests)

    store.submit_nowait(hold, None)
    try:
        yield begun
    finally:
        go.set()


async def wait_held(begun: threading.Event) -> None:
    await trio.to_thread.run_sync(begun.wait, 5)


async def collect(results: list[object], call: Call) -> None:
    await trio.lowlevel.checkpoint()
    try:
        results.append(await call())
    except Exception as exc:  # noqa: BLE001 - the test looks at whatever came
        results.append(exc)


async def submit_all(store: Store, calls: Sequence[Call]) -> list[object]:
    """Let all `calls` wait for the same commit. Return their results in order."""
    results: list[list[object]] = [[] for _ in calls]
    async with trio.open_nursery() as nursery:
        with held_writer(store) as begun:
            await wait_held(begun)
            for call, result in zip(calls, results, strict=True):
                nursery.start_soon(collect, result, call)
                await trio.testing.wait_all_tasks_blocked()
    return [result[0] for result in results]
