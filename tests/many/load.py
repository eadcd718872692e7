"""Requests to several nodes: at a fixed rate, or all of them concurrently."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count

import trio

from tests.many.harness import TRIES, Answer, Cluster, Unanswered

MISS = "/v1/github/profile?handle=user{n}"
FREE = "/v1/utility/endpoints"


def p99_s(times: Iterable[float]) -> float:
    """Return the 99th percentile."""
    ordered = sorted(times)
    return ordered[-(-len(ordered) * 99 // 100) - 1]


@asynccontextmanager
async def open_load(
    cluster: Cluster, *, per_s: float = 100, target: str = MISS, key: str = ""
) -> AsyncIterator[list[Answer]]:
    """Send requests at a fixed rate to the nodes in turn, whatever their results. Yield the list of answers.

    Each `{n}` in the target is replaced with another number. All requests are answered when the block ends.
    """
    answers: list[Answer] = []
    stop = trio.Event()

    async def one(number: int) -> None:
        with suppress(Unanswered):
            node = cluster.nodes[number % len(cluster.nodes)]
            answers.append(await cluster.ask(node, target.format(n=next(cluster.numbers)), key))

    async def tick() -> None:
        began = trio.current_time()
        for number in count():
            await trio.sleep_until(began + number / per_s)
            if stop.is_set():
                return
            nursery.start_soon(one, number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        yield answers
        stop.set()


async def ask_all(
    cluster: Cluster, targets: Iterable[str], *, key: str = "", tries: int = TRIES, **headers: str
) -> list[Answer]:
    """Send all requests concurrently, to the nodes in turn. Return the final answers in the order of the targets."""
    answers: dict[int, Answer] = {}

    async def one(number: int, target: str) -> None:
        node = cluster.nodes[number % len(cluster.nodes)]
        answers[number] = await cluster.told(node, target, key, tries=tries, **headers)

    async with trio.open_nursery() as nursery:
        for number, target in enumerate(targets):
            nursery.start_soon(one, number, target)
    return [answers[number] for number in sorted(answers)]


def assert_served(answers: Sequence[Answer]) -> None:
    """Check that all requests succeeded, except for a few that timed out at a server on a busy machine."""
    assert {answer.status for answer in answers} <= {200, 503}
    assert sum(answer.status == 200 for answer in answers) >= 0.9 * len(answers)


def assert_filled(cluster: Cluster, answers: Sequence[Answer], limit: int) -> None:
    """Check that each slot of the window was used once. Requests that timed out at Redis may have used one."""
    rests = [int(answer.headers["x-ratelimit-remaining"]) for answer in answers if answer.status == 200]
    lost = sum(answer.status == 503 for answer in cluster.answers)
    assert len(set(rests)) == len(rests)
    assert set(rests) <= set(range(limit))
    assert len(rests) >= limit - lost
