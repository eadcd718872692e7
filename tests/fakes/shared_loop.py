"""Let the async tests of a module share a node: a thread runs it, and the tests run in the thread's event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any, Final, TypeVar

import trio

from tests.fakes.patient_clock import PatientClock, run_patiently

T = TypeVar("T")

TEST_S: Final = 90.0
"""Seconds for one test in a shared loop."""
_loops: list[trio.lowlevel.TrioToken] = []
"""The shared loop of the current module, if one of its fixtures has opened it."""


@contextmanager
def sharing(opening: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Open something in the event loop of a new thread. Async tests run in this loop until the block ends.

    Use it in a fixture whose scope is the module. The tests still run one after another.
    """
    opened: Future[T] = Future()
    ending = trio.Event()

    async def hold() -> None:
        async with opening as value:
            _loops.append(trio.lowlevel.current_trio_token())
            opened.set_result(value)
            await ending.wait()

    def fail_if_closed(held: Future[None]) -> None:
        if not opened.done():
            opened.set_exception(held.exception())

    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(lambda: trio.run(hold, clock=PatientClock()))
        held.add_done_callback(fail_if_closed)
        try:
            yield opened.result()
        finally:
            with suppress(IndexError, trio.RunFinishedError):  # the reason is the loop's own error
                trio.from_thread.run_sync(ending.set, trio_token=_loops.pop())
            held.result()


def run_shared_or_patiently(
    main: Callable[[], Awaitable[object]], *, clock: trio.abc.Clock | None, **options: Any
) -> object:
    """Run a test in the shared loop of its module, or like `run_patiently` if there is none."""
    if not _loops or clock is not None:
        return run_patiently(main, clock=clock, **options)

    async def run_in_time() -> object:
        with trio.fail_after(TEST_S):
            return await main()

    return trio.from_thread.run(run_in_time, trio_token=_loops[-1])
