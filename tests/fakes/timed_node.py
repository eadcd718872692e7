"""A real node on its own loop in a thread, and the durations of that loop's steps."""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio

from gateway.node.serve import tune_garbage_collection
from tests.fakes.migrated import migrated_at
from tests.fakes.node import OpenNode, open_test_node
from upstreams.composites import load_all

T = TypeVar("T")

STEP_S = 0.05
"""A longer step of the loop is a bug, because it blocks all other requests."""


class StepClock(trio.abc.Instrument):
    """Records the longest step of a loop, in CPU time of its thread, which a busy machine does not increase."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.task = ""
        self._began_s = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began_s = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took_s = time.thread_time() - self._began_s
        if took_s > self.longest_s:
            self.longest_s, self.task = took_s, task.name

    def take(self) -> tuple[float, str]:
        """Return the longest step since the last call, and its task."""
        taken, self.longest_s, self.task = (self.longest_s, self.task), 0.0, ""
        return taken


@dataclass(slots=True)
class TimedNode:
    """A node on its own loop. Keeps the duration in milliseconds of the longest step of each `timed` case."""

    opened: OpenNode
    token: trio.lowlevel.TrioToken
    clock: StepClock
    steps: dict[str, tuple[float, str]] = field(default_factory=dict)

    async def call(self, fn: Callable[..., Awaitable[T]], *args: object) -> T:
        """Run `fn` on the node's loop."""
        run: Callable[[], T] = partial(trio.from_thread.run, fn, *args, trio_token=self.token)
        return await trio.to_thread.run_sync(run)

    @asynccontextmanager
    async def timed(self, case: str) -> AsyncIterator[None]:
        """Time the steps of a block, including the step that sends its last answer."""
        await self.call(trio.lowlevel.checkpoint)
        self.clock.take()
        yield
        await self.call(trio.lowlevel.checkpoint)
        self.note(case)

    def note(self, case: str) -> None:
        """Record the longest step since the last call of `take`, as a step of this case."""
        took_s, task = self.clock.take()
        self.steps[case] = round(took_s * 1000, 1), task


@contextmanager
def collecting_as_a_node() -> Iterator[None]:
    """Collect garbage as `sluice serve` does, but exclude objects that the tests have created."""
    before = gc.get_threshold()
    tune_garbage_collection()
    try:
        yield
    finally:
        gc.set_threshold(*before)


@asynccontextmanager
async def open_timed_node(folder: Path, **tables: Any) -> AsyncIterator[TimedNode]:
    """Like `open_test_node`, in a thread. After it has drained, check that no step since its start was too long."""
    clock, ready, stop = StepClock(), trio.Event(), trio.Event()
    nodes: list[TimedNode] = []
    ours = trio.lowlevel.current_trio_token()

    async def serve() -> None:
        token = trio.lowlevel.current_trio_token()
        async with open_test_node(folder, **tables) as opened:
            nodes.append(TimedNode(opened, token, clock))
            clock.take()  # a starting node answers no requests
            ours.run_sync_soon(ready.set)
            done = trio.Event()
            closing.append(partial(token.run_sync_soon, done.set))
            await done.wait()
            clock.take()

    closing: list[Callable[[], object]] = []
    failure: Exception | None = None
    load_all()
    migrated_at(folder / "sluice.db")
    with collecting_as_a_node():
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                await trio.to_thread.run_sync(partial(trio.run, serve, instruments=[clock]))
                stop.set()

            nursery.start_soon(run)
            await ready.wait()
            (timed,) = nodes
            try:
                yield timed
            except Exception as exc:  # noqa: BLE001 - raised below, outside of the nursery that wraps it in a group
                failure = exc
            closing[0]()
            await stop.wait()
    timed.note("drain")
    if failure is not None:
        raise failure
    assert_short(timed.steps)


def assert_short(steps: Mapping[str, tuple[float, str]]) -> None:
    """Check that no step took too long, and print all of them."""
    for case, (took_ms, task) in steps.items():
        print(f"{took_ms:8.1f} ms  {case}  ({task})")
    assert {case: step for case, step in steps.items() if step[0] > STEP_S * 1000} == {}
