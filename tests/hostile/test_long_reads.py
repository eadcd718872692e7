"""One account reads its longest results continuously; another account's reads stay fast, and memory stays small.

The node is a separate process. The hostile account has a job whose results are 16 MB each, stored in 16 KB. Before
decompression was limited to a page, four such reads took 1.7 GB and delayed the other account by 7.6 s.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf

import httpx
import pytest
import trio

from tests.fakes.long_jobs import store_job
from tests.fakes.outsider import open_outsider
from tests.hostile.bystander import cpu_s, resident_mb
from tests.processes.place import Place, Served

pytestmark = pytest.mark.critical
ROWS = 40
ROW_BYTES = 16_000_000
GROWTH_MB = 300.0
"""Four answers of 16 MB, each decompressed and copied once, plus the allocator's overhead."""
SHARE_S = 0.3
"""The limit of the node's CPU seconds while the other account's read waits; the former bug took seconds."""


@dataclass(slots=True)
class Reads:
    """The reads of one account: their numbers by outcome, and the seconds and the node's CPU seconds of each."""

    statuses: list[int] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @property
    def p95_s(self) -> float:
        return p95(self.took_s)

    @property
    def cpu_p95_s(self) -> float:
        return p95(self.cpu_s)


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * len(values))] if values else inf


@contextmanager
def a_node(place: Place) -> Iterator[tuple[Served, str, str]]:
    """A node with the long job of one account, and the keys of both."""
    place.configure(limits={"requests_per_minute": 1_000_000}, log={"access": False})
    hostile, its = place.new_key()
    _, other = place.new_key()
    with open_outsider(place.store_url) as outsider:
        store_job(outsider.run, hostile, [ROW_BYTES] * ROWS)
    with place.serve() as node:
        yield node, its["key"], other["key"]


async def read_on(client: httpx.AsyncClient, node: Served, target: str, key: str, reads: Reads) -> None:
    """Read without a pause until cancelled, discarding the answers."""
    while True:
        with suppress(httpx.TransportError):  # some answers are lost, because the key has too many unread bytes
            async with client.stream("GET", node.url + target, headers={"x-api-key": key}) as answer:
                reads.statuses.append(answer.status_code)
                async for _ in answer.aiter_raw():
                    pass


async def ask_on(client: httpx.AsyncClient, node: Served, key: str, reads: Reads) -> None:
    """Request the balance every 20 ms until cancelled."""
    while True:
        began_s, before_s = time.monotonic(), cpu_s(node.popen.pid)
        answer = await client.get(f"{node.url}/v1/credits/balance", headers={"x-api-key": key})
        reads.took_s.append(time.monotonic() - began_s)
        reads.cpu_s.append(cpu_s(node.popen.pid) - before_s)
        reads.statuses.append(answer.status_code)
        await trio.sleep(0.02)


async def beside(within_s: float, *tasks: Callable[[], Awaitable[None]]) -> None:
    with trio.move_on_after(within_s):
        async with trio.open_nursery() as nursery:
            for task in tasks:
                nursery.start_soon(task)


@pytest.mark.parametrize("target", ["/v1/web/jobs/job_long/results?limit=100", "/v1/web/jobs/job_long/results.jsonl"])
async def test_long_results_of_one_account_hardly_delay_another(place: Place, target: str) -> None:
    with a_node(place) as (node, hostile, other):
        await measure(node, hostile, other, target, at_once=16, within_s=8.0)


async def measure(node: Served, hostile: str, other: str, target: str, *, at_once: int, within_s: float) -> str:
    async with httpx.AsyncClient(timeout=60, verify=False, limits=httpx.Limits(max_connections=None)) as client:
        return await _measure(client, node, hostile, other, target, at_once=at_once, within_s=within_s)


async def _measure(
    client: httpx.AsyncClient, node: Served, hostile: str, other: str, target: str, *, at_once: int, within_s: float
) -> str:
    alone, meanwhile, long = Reads(), Reads(), Reads()
    await beside(2.0, lambda: ask_on(client, node, other, alone))
    before_mb = resident_mb(node.popen.pid, "VmRSS")
    readers = [lambda: read_on(client, node, target, hostile, long)] * at_once
    await beside(within_s, lambda: ask_on(client, node, other, meanwhile), *readers)
    grown_mb = resident_mb(node.popen.pid) - before_mb
    told = (
        f"{at_once} readers: {len(long.statuses)} long reads, +{grown_mb:.0f} MB, balance p95 {alone.p95_s:.4f} s,"
        f" {meanwhile.p95_s:.4f} s beside them ({meanwhile.cpu_p95_s:.2f} s of CPU), {len(meanwhile.statuses)} asked"
    )
    print(told)
    assert node.events("request_failed") == [], told
    assert set(meanwhile.statuses) == {200}
    assert set(long.statuses) <= {200, 429}
    assert len(long.statuses) > 4, told
    assert grown_mb < GROWTH_MB, told
    assert meanwhile.cpu_p95_s < SHARE_S, told
    assert node.events("request_failed") == []
    return told
