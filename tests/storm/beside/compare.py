"""Billed misses during many background jobs, alternating with the same misses while the jobs are paused.

The misses use the benchmark's open loop, so that waiting requests are counted. Because the upstream answers them
immediately, the node itself causes nearly all of their latency. Each turn is compared with the previous one, because a
machine's speed changes.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import httpx
import trio

from bench.core.results import Step
from bench.core.scenarios import SCENARIOS
from bench.load.driving import Tempo, drive_open
from bench.peers.servers import ServerTarget
from tests.fakes.scripted_upstream import ScriptedAnswer, Upstream, open_upstream
from tests.processes.commands import Commands
from tests.processes.fleet import open_fleet
from tests.processes.place import Place

ENVIRON: Final = {"SLUICE_SECRET": "a secret of tests, long enough"}
MISS: Final = SCENARIOS["miss"]
RATIO_MAX: Final = 1.5
"""The maximum ratio of the misses' p99 with and without jobs."""
GROWTH_MB_MAX: Final = 96.0
"""The maximum growth of the node, without worker processes, over its size before its first job."""
WORKER_MB_MAX: Final = 64.0
"""The maximum size of each worker process."""
KEYS_A_TURN: Final = 1_000_000
"""The number of targets that are reserved for the misses of each turn, so that no two turns request the same target."""
CACHE_BYTES: Final = 4_194_304
"""The cache is so small that it is full within the first turn and does not cause later growth."""
SETTLE_S: Final = 1.0
"""The pause after jobs were paused or resumed."""
PATIENCE_S: Final = 60.0

Begin = Callable[[httpx.AsyncClient, Sequence[str]], Awaitable[Mapping[str, str]]]
"""Starts the jobs with the keys of all accounts. Returns the key of each job by the path that pauses it."""


@dataclass(frozen=True, slots=True)
class BackgroundJobs:
    """The background jobs: how they are started for a number of accounts, and the upstream's answers to them.

    `read` counts the pages that they have requested. `miss_s` is the upstream's time for a miss, and `workers` the
    number of worker processes that the jobs keep busy.
    """

    accounts: int
    begin: Begin
    script: Callable[[str], ScriptedAnswer | None]
    read: Counter[str]
    miss_s: float = 0.0
    workers: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """The number of turns without and with jobs, and the misses per second of each."""

    per_s: float
    seconds: float = 10.0
    turns: int = 3


@dataclass(slots=True)
class Compared:
    """The misses of each turn, and the node's resident memory: its peak before the first job, and its overall peak."""

    without: list[Step] = field(default_factory=list)
    beside: list[Step] = field(default_factory=list)
    pages: int = 0
    """The pages that jobs read during misses."""
    workers: int = 0
    alone_mb: float = 0.0
    highest_mb: float = 0.0

    @property
    def p99_times(self) -> float:
        """Return the ratio of the p99 with jobs to the p99 without: the median over the pairs of turns."""
        return median(one.p99_ms / before.p99_ms for before, one in zip(self.without, self.beside, strict=True))

    def flaws(self) -> list[str]:
        """Return the failed bounds."""
        failed = Counter[str]()
        for step in (*self.without, *self.beside):
            failed.update(step.unexpected | ({"unanswered": step.unanswered} if step.unanswered else {}))
        grown_mb = self.highest_mb - self.alone_mb - self.workers * WORKER_MB_MAX
        return [
            *([f"the p99 is {self.p99_times:.2f} times as long"] if self.p99_times > RATIO_MAX else []),
            *([f"misses failed: {dict(failed)}"] if failed else []),
            *([] if self.pages else ["no page was read beside them"]),
            *([f"the node grew by {grown_mb:.0f} MB"] if grown_mb > GROWTH_MB_MAX else []),
        ]

    def __str__(self) -> str:
        """Return a line for each turn, and one for all."""
        lines = [
            f"p99 {one.p99_ms:.1f} ms beside jobs, {before.p99_ms:.1f} ms without; p50 {one.p50_ms:.1f}, "
            f"{before.p50_ms:.1f} ms; the machine {one.machine_share:.0%}, {before.machine_share:.0%} busy"
            for before, one in zip(self.without, self.beside, strict=True)
        ]
        memory = f"{self.alone_mb:.0f} MB before the first job, {self.highest_mb:.0f} MB at most"
        lines.append(f"p99 {self.p99_times:.2f} times as long beside {self.pages} pages; {memory}")
        return "\n".join(lines)


async def compare(folder: Path, jobs_kind: BackgroundJobs, pace: Pace, commands: Commands) -> Compared:
    """Measure in turns. Every job is cancelled at the end."""
    upstream = Upstream()
    upstream.script, upstream.behaviour.latency_s = jobs_kind.script, jobs_kind.miss_s
    async with open_upstream(upstream) as egress:
        place = Place(folder, commands, ENVIRON)
        place.configure(
            upstreams={"egress": egress},
            limits={"requests_per_minute": 1_000_000, "concurrent_requests": 1_000},
            cache={"max_bytes": CACHE_BYTES},
            log={"access": False},
        )
        own, *keys = [place.new_key(balance=10_000_000)[1]["key"] for _ in range(1 + jobs_kind.accounts)]
        with open_fleet(commands) as fleet:
            node = fleet.start(place.config, ENVIRON)
            target = ServerTarget((await node.listening())["url"], node.pid, (("x-api-key", own),))
            async with httpx.AsyncClient(base_url=target.url, timeout=PATIENCE_S, verify=False) as client:
                with _no_collections():
                    return await _by_turns(client, target, jobs_kind, pace, keys)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Disable garbage collection in the block: a pause of this process, the upstream, would look like the node's."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _by_turns(
    client: httpx.AsyncClient, target: ServerTarget, jobs_kind: BackgroundJobs, pace: Pace, keys: Sequence[str]
) -> Compared:
    tempo, compared = Tempo(pace.per_s, pace.seconds), Compared(workers=jobs_kind.workers)
    # This turn is not compared, because the objects that first calls create belong to neither kind of turn.
    alone = await drive_open(MISS, target, tempo)
    compared.alone_mb = compared.highest_mb = _most_mb(alone)
    jobs = await jobs_kind.begin(client, keys)
    for turn in range(2 * pace.turns):
        is_beside = turn % 2 == 1
        await _change(client, jobs, "running" if is_beside else "paused")
        before = jobs_kind.read.total()
        step = await drive_open(MISS, target, tempo, first_key=(1 + turn) * KEYS_A_TURN)
        (compared.beside if is_beside else compared.without).append(step)
        compared.pages += jobs_kind.read.total() - before if is_beside else 0
        compared.highest_mb = max(compared.highest_mb, _most_mb(step))
    for path, key in jobs.items():
        await client.delete(path, headers={"x-api-key": key})
    return compared


async def _change(client: httpx.AsyncClient, jobs: Mapping[str, str], status: str) -> None:
    """Pause or resume all jobs. None of them may have ended."""
    for path, key in jobs.items():
        changed = await client.patch(path, headers={"x-api-key": key}, json={"status": status})
        assert changed.status_code == 200, changed.text
    await trio.sleep(SETTLE_S)


def _most_mb(step: Step) -> float:
    return max(one.rss_bytes for one in step.memory) / 1e6
