"""Counts instructions of the hot paths: `python -m bench.instructions`; `--check` compares with the committed figures.

Times on a shared machine vary by tens of percent; the instructions of a request vary by only one or two percent, even
on a busy machine. A node runs under Valgrind's callgrind with a fixed hash seed, real sockets and a real store, and 64
connections send requests. Each figure is the lowest of three counts, because smaller batches only add work: five counts
of a miss varied from 1.01 to 1.11 of its figure. A check ends at the first count within its bound. Figures are valid
for one build of the interpreter, so `instructions.json` next to this file stores them by build.

Valgrind makes the node fifty times slower, but not the clock, so periodic work would count fifty times too much. The
instructions of an idle node over the same time are therefore subtracted.
"""

import argparse
import platform
import shutil
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import trio

from bench.core.callgrind import Callgrind
from bench.core.errors import ChildFailed
from bench.core.machine import interpreter_build
from bench.core.scenarios import Scenario
from bench.core.tasks import run_side_by_side, run_until_stopped
from bench.cost import staged
from bench.counted_rows import count_rows
from bench.counted_starts import STARTS, above_marks, count_starts
from bench.counted_writer import STEPS, count_writer
from bench.load.driving import spec_for
from bench.load.wire import ClosedWire
from bench.peers.servers import ServerTarget, open_stage
from bench.rows import LISTS

COUNTED = ("miss", "hit", "replay", "unauthorized", "reject")
ABOVE_AT_MOST = 1.05
"""The check fails if a count is higher than the recorded figure by more than this factor.

If a count is lower by as much, record it.
"""
FIGURES = Path(__file__).with_name("instructions.json")
SHORT = ("hit", "replay", "unauthorized", "reject")
"""For these scenarios, three times as many requests are counted.

A thousand requests take two to four seconds, and occasional work of the node would be a tenth of that.
"""
CONNECTIONS = 64
COUNTS = 3
NODES_AT_A_TIME = 2
"""The number of nodes that run at the same time. Counts do not depend on how busy the machine is, but each node needs a
core."""
ANSWERS_S = 300.0
ANSWER_DRAIN_S = 60.0
IDLE_S = 10.0
"""Seconds for which an idle node is counted.

Its work recurs every second, so its rate varies by a sixth over three seconds.
"""

Figures = Mapping[str, int]
"""The instructions per request of each scenario."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The count of one scenario, and its committed figure."""

    scenario: str
    counted: int
    committed: int

    @property
    def ratio(self) -> float:
        """The count divided by the committed figure."""
        return self.counted / self.committed

    @property
    def is_over(self) -> bool:
        """Whether the hot path costs more than the check allows."""
        return self.ratio > ABOVE_AT_MOST


def build_name() -> str:
    """Return the interpreter, its compiler and the SQLite version. Counts of different builds are not comparable."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python}, {interpreter_build()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}"


def read_figures(file: Path = FIGURES) -> dict[str, dict[str, int]]:
    """Return the committed figures of each build."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, dict[str, int]])


def compare(counted: Figures, committed: Figures) -> list[Compared]:
    """Return the scenarios that have both a count and a committed figure."""
    return [Compared(name, counted[name], committed[name]) for name in counted if name in committed]


def idle_rate(target: ServerTarget, callgrind: Callgrind) -> float:
    """Return the instructions per second of an idle node."""
    began = time.perf_counter()
    callgrind.begin(target.pid)
    time.sleep(IDLE_S)
    counted = callgrind.end(target.pid)
    return counted / (time.perf_counter() - began)


def count_once(
    scenario: Scenario,
    target: ServerTarget,
    callgrind: Callgrind,
    *,
    requests: int,
    first_key: int = 1,
    idle_per_s: float = 0.0,
) -> int:
    """Return the instructions per request of a scenario, counted after half as many warm-up requests.

    The instructions of an idle node, `idle_per_s` per second, are subtracted.

    Raises:
        ChildFailed: Responses were missing or not as expected.
    """
    wire = ClosedWire(spec_for(scenario, target), first_key=first_key)
    try:
        wire.prime()
        wire.open(CONNECTIONS)
        wire.run(until=time.perf_counter() + ANSWERS_S, answers_max=requests // 2)
        wire.latencies_s.clear()
        began = time.perf_counter()
        callgrind.begin(target.pid)
        wire.run(until=time.perf_counter() + ANSWERS_S, answers_max=requests)
        counted = callgrind.end(target.pid) - int(idle_per_s * (time.perf_counter() - began))
        answered = len(wire.latencies_s)
        wire.drain(until=time.perf_counter() + ANSWER_DRAIN_S)
    finally:
        wire.close()
    if wire.tally.unexpected or answered != requests:
        raise ChildFailed(f"{scenario.name}: {answered} of {requests} answered, unexpected {wire.tally.unexpected}")
    return counted // requests


@dataclass(frozen=True, slots=True)
class Counting:
    """The number of counts of each scenario, and of requests in a count."""

    requests: int
    counts: int = COUNTS
    committed: Figures = field(default_factory=dict)
    """The committed figures. If given, counting a scenario stops at the first count that passes the check."""

    def is_settled(self, scenario: str, counted: Sequence[int]) -> bool:
        """Return whether the counts so far decide the result."""
        if len(counted) == self.counts:
            return True
        if scenario not in self.committed:
            return False
        return any(one <= self.committed[scenario] * ABOVE_AT_MOST for one in counted)


async def count(
    figures: dict[str, int],
    counting: Counting,
    *,
    names: Sequence[str] = COUNTED,
    lists: Sequence[str] = tuple(LISTS),
    starts: Sequence[str] = tuple(STARTS),
    batches: Mapping[str, int] = STEPS,
) -> None:
    """Add the instructions of each scenario (per request), of rows, and of starts to `figures`.

    A scenario's figure is the lowest of its counts. Also add the store thread's share of a miss, over this many batches
    of each kind.

    Raises:
        ChildFailed: A node did not run, or did not respond as expected.
    """
    at_a_time = trio.CapacityLimiter(NODES_AT_A_TIME)
    works = [partial(_count_stage, rows, counting, at_a_time) for rows in staged(names)]
    if lists:
        works.append(partial(_count_lists, lists, at_a_time))
    if starts:
        works.append(partial(_count_starts, starts, at_a_time))
    if batches:
        works.append(partial(_count_writer, batches, at_a_time))
    for counted in await run_side_by_side(*works):
        figures.update(counted)


async def _count_lists(lists: Sequence[str], at_a_time: trio.CapacityLimiter) -> dict[str, int]:
    async with at_a_time:
        with TemporaryDirectory(prefix="sluice-instructions-") as folder:
            return await trio.to_thread.run_sync(count_rows, Callgrind(Path(folder)), lists)


async def _count_writer(batches: Mapping[str, int], at_a_time: trio.CapacityLimiter) -> dict[str, int]:
    async with at_a_time:
        with TemporaryDirectory(prefix="sluice-instructions-") as folder:
            return await trio.to_thread.run_sync(count_writer, Path(folder), batches)


async def _count_starts(starts: Sequence[str], at_a_time: trio.CapacityLimiter) -> dict[str, int]:
    async with at_a_time:
        with TemporaryDirectory(prefix="sluice-instructions-") as folder:
            return await trio.to_thread.run_sync(count_starts, Path(folder), starts)


async def _count_stage(rows: Sequence[Scenario], counting: Counting, at_a_time: trio.CapacityLimiter) -> dict[str, int]:
    async with at_a_time:
        with TemporaryDirectory(prefix="sluice-instructions-") as folder:
            callgrind = Callgrind(Path(folder))
            async with open_stage(rows[0].stage, under=callgrind.command) as target:
                return await trio.to_thread.run_sync(_count_rows, rows, target, callgrind, counting)


def _count_rows(
    rows: Sequence[Scenario], target: ServerTarget, callgrind: Callgrind, counting: Counting
) -> dict[str, int]:
    """Count the scenarios that a single running node can serve."""
    idle_per_s, figures = idle_rate(target, callgrind), {}
    for row in rows:
        requests = counting.requests * (3 if row.name in SHORT else 1)
        count_turn = partial(count_once, row, target, callgrind, requests=requests, idle_per_s=idle_per_s)
        several = list[int]()
        while not counting.is_settled(row.name, several):
            several.append(count_turn(first_key=1 + len(several) * 1_000_000))
        figures[row.name] = min(several)
        print(f"{row.name}: {figures[row.name]:,} (at most {max(several):,})", flush=True)
    return figures


def check(counted: Figures, committed: Figures | None) -> list[str]:
    """Return a line for each hot path above its committed figure. Print a note if this build has no figures."""
    if committed is None:
        print(f"no figures of this build, so nothing was compared; --record keeps these: {build_name()}")
        return []
    lines = []
    for each in compare(counted, committed):
        print(f"{each.scenario}: {each.ratio:.3f} of {each.committed:,}")
        if each.is_over:
            lines.append(f"{each.scenario} takes {each.counted:,} instructions, {each.ratio:.3f} of {each.committed:,}")
    return lines


def record(counted: Figures, file: Path = FIGURES) -> None:
    """Store the counts as the figures of this build. Starts are omitted, because their marks apply to every build."""
    builds = read_figures(file) if file.exists() else {}
    builds[build_name()] = {name: figure for name, figure in counted.items() if name not in STARTS}
    file.write_bytes(msgspec.json.format(msgspec.json.encode(builds), indent=2) + b"\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Count and print. Exit 1 if the counting did not finish or, with `--check`, if a count is above its bound."""
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000, help="requests per count (default 1,000)")
    wanted = parser.add_mutually_exclusive_group()
    wanted.add_argument("--check", action="store_true", help="fail above the committed figures of this build")
    wanted.add_argument("--record", action="store_true", help="store the counts as the figures of this build")
    given = parser.parse_args(arguments)
    if given.requests < 1:
        parser.error("--requests must be above 0")
    if shutil.which("valgrind") is None:
        print("valgrind is not installed", file=sys.stderr)
        return 1
    counted: dict[str, int] = {}
    committed = read_figures().get(build_name())
    counting = Counting(given.requests, committed=committed or {}) if given.check else Counting(given.requests)
    try:
        ended = trio.run(run_until_stopped, partial(count, counted, counting))
    except ChildFailed as exc:
        print(exc, file=sys.stderr)
        return 1
    if not ended:
        return 1
    if given.record:
        record(counted)
    over = [*above_marks(counted), *check(counted, committed)] if given.check else []
    for line in over:
        print(line, file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
