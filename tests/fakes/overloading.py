"""Overloads a node reliably on any machine: its loop stalls repeatedly, and its writer permanently."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from limits.overload.shedding import FEW
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode

HELD = FEW + 16
BLOCKED_S = 0.05
ROOM = {"requests_per_minute": 1_000_000, "concurrent_requests": 10_000}
"""Limits of keys that are too high to matter."""


async def block_loop() -> None:
    """Block the loop, as if it had too much work, on the run's own clock (which may be a patient one)."""
    while True:
        until = trio.current_time() + BLOCKED_S
        while trio.current_time() < until:
            time.sleep(0.001)  # noqa: ASYNC251 - blocking the loop is the purpose
        await trio.sleep(0.001)


@asynccontextmanager
async def open_slow_loop() -> AsyncIterator[None]:
    """Delay every task until the block ends."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(block_loop)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_overload(node: OpenNode, *, sheds: bool = True) -> AsyncIterator[list[Answered]]:
    """Overload the node until it sheds.

    When the block ends, the list contains the answers to the requests that were in progress.

    Once the block ends, the list contains the answers of the requests in progress. Method: more requests than `FEW`
    wait for a stalled writer, while the loop is late.
    """
    answers: list[Answered] = []
    go_on, is_held = threading.Event(), threading.Event()

    def hold(_tx: object) -> None:
        is_held.set()
        go_on.wait(60)

    async def ask(number: int) -> None:
        answers.append(await node.get(f"/v1/github/profile?handle=held{number}"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.node.stores.store.write, hold)
        while not is_held.is_set():  # noqa: ASYNC110 - it has no event
            await trio.sleep(0.001)
        try:
            for number in range(HELD):
                nursery.start_soon(ask, number)
            while node.node.admission.gate.statistics().leases < HELD:  # noqa: ASYNC110 - it has no event
                await trio.sleep(0.001)
            async with open_slow_loop():
                while sheds and not node.node.overload.active:  # noqa: ASYNC110 - it has no event
                    await trio.sleep(0.001)
                yield answers
        finally:
            go_on.set()
