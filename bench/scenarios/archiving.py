"""Measures misses on a node with and without a running ledger archive: `python -m bench.scenarios.archiving`.

It reads an `Archiving` from stdin, or uses its defaults if stdin is empty, and prints `ArchivingFigures`, both as JSON.
It exits with 1 if archiving slows down the p99 too much. First, it fills the SQLite store with old rows. Then a node
serves misses at a steady rate, alternately with and without archiving. The upstream responds immediately, so that
latencies are almost entirely the node's.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import trio

from bench.control.control_protocol import open_control
from bench.core.results import Step
from bench.core.scenarios import TRANSPARENT, Stage
from bench.core.tasks import run_side_by_side
from bench.load.driving import Tempo, Watched, run_open_load, split_load, step_of, watch
from bench.load.open_load import OpenLoadCounts
from bench.load.request_spec import RequestSpec
from bench.peers.servers import Bed, ServerTarget, open_feed, open_sandbox
from bench.scenarios.filling import DAY_MS, Misses, make_store
from billing.archive.archiver import alone
from gateway.admin.operations import Nothing

PROFILE = "/v1/github/profile?handle=user{n}"
OLD_DAYS = 60
SPAN_DAYS = 20
DETAIL_DAYS = 30
CONNECTIONS = 100
KEYS_A_TURN = 1_000_000
P99_TIMES_MAX = 1.5
"""The maximum ratio of the p99 with archiving to the p99 without it."""


@dataclass(frozen=True, slots=True)
class Archiving:
    """The store's folder, the number of old rows, the misses per second, and the duration and number of turns."""

    folder: str = "/var/tmp"
    rows: int = 10_000_000
    accounts: int = 10_000
    per_s: float = 1_000
    seconds: float = 20
    turns: int = 5


class ArchivedRows(msgspec.Struct, frozen=True):
    """The fields of the archive operation's response that the bench uses."""

    rows: int
    is_done: bool


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """The misses of a turn: their latencies in milliseconds, and how busy the machine was."""

    p50_ms: float
    p99_ms: float
    cpu_us: float
    served_per_s: float
    lag_p99_ms: float
    machine_share: float
    rows: int
    """The number of rows that left the store in this turn."""


@dataclass(frozen=True, slots=True)
class ArchivingFigures:
    """The turns with and without archiving, and the ratio of their p99s, with to without."""

    without: list[TurnFigures]
    archiving: list[TurnFigures]
    p50_times: float
    p99_times: float
    p99_times_max: float
    is_met: bool
    rows: int


class Archives:
    """Makes a node archive for the duration of a turn. Only `keep_archiving` modifies it."""

    def __init__(self, target: ServerTarget) -> None:
        self._target = target
        self.rows = 0

    async def keep_archiving(self, until_s: float) -> None:
        """Run archive operations until a monotonic time or until no rows are left. The last one may finish later."""
        while time.monotonic() < until_s:
            done = await trio.to_thread.run_sync(self._archive)
            self.rows += done.rows
            if done.is_done:
                return

    def _archive(self) -> ArchivedRows:
        with open_control(self._target.control) as control:
            return control.call("ledger.archive", Nothing(), ArchivedRows)


async def measure(wanted: Archiving) -> ArchivingFigures:
    """Fill a store and measure its node in turns."""
    with TemporaryDirectory(prefix="sluice-bench-archiving-", dir=wanted.folder) as name:
        folder = Path(name)
        settings = {**TRANSPARENT, "ledger.archive": f"{folder}/archive", "ledger.detail_days": DETAIL_DAYS}
        began_ms = (int(time.time() * 1000) // DAY_MS - OLD_DAYS) * DAY_MS
        old = Misses(wanted.rows // wanted.accounts, wanted.accounts, began_ms, SPAN_DAYS * DAY_MS)
        await make_store(f"sqlite:///{folder}/sluice.db", old)
        bed = Bed(folder, stage=Stage("feed", settings))
        async with open_sandbox(bed) as sandbox, open_feed(replace(bed, upstream_url=sandbox.url)) as target:
            turns = [await _turn(target, wanted, number, folder / "archive") for number in range(2 * wanted.turns + 1)]
    return figures_of(turns[1::2], turns[2::2])  # without the first turn, which is a warm-up


async def _turn(target: ServerTarget, wanted: Archiving, number: int, folder: Path) -> TurnFigures:
    """Run one turn, with archiving in even turns except the first. In the other turns, the archive's lock is held."""
    is_archiving = number > 0 and number % 2 == 0
    with open_control(target.control) as control:
        (person,) = control.people(1, 1)
    spec = RequestSpec(target.url, PROFILE, "new", (("x-api-key", person.keys[0].key),))
    pace = Tempo(wanted.per_s, wanted.seconds)
    loads = split_load(spec, pace, connections=CONNECTIONS, first_key=1 + number * KEYS_A_TURN)
    begin_s = loads[0].counted_from_ns / 1e9
    end_s = loads[0].first_ns / 1e9 + pace.warmup_s + pace.seconds
    archives = Archives(target)
    works = [partial(run_open_load, load) for load in loads]
    with nullcontext() if is_archiving else alone(folder):
        async with trio.open_nursery() as nursery:
            if is_archiving:
                nursery.start_soon(archives.keep_archiving, end_s)
            watched, *counts = await run_side_by_side(partial(watch, target.pid, begin_s, end_s), *works)
    assert isinstance(watched, Watched)
    step = step_of(pace, watched, [each for each in counts if isinstance(each, OpenLoadCounts)])
    return _figures(step, archives.rows)


def _figures(step: Step, rows: int) -> TurnFigures:
    assert not step.unexpected, step.unexpected
    times = (step.p50_ms, step.p99_ms, step.cpu_us)
    return TurnFigures(*times, step.served_per_s, step.lag_p99_ms, step.machine_share, rows)


def figures_of(without: Sequence[TurnFigures], archiving: Sequence[TurnFigures]) -> ArchivingFigures:
    """Return the figures of all turns, with the median ratio of each turn with archiving to the turn before it.

    Adjacent turns are compared because the speed of a machine drifts.
    """
    pairs = list(zip(without, archiving, strict=True))
    p99_times = median(one.p99_ms / before.p99_ms for before, one in pairs)
    return ArchivingFigures(
        list(without),
        list(archiving),
        p50_times=median(one.p50_ms / before.p50_ms for before, one in pairs),
        p99_times=p99_times,
        p99_times_max=P99_TIMES_MAX,
        is_met=p99_times <= P99_TIMES_MAX,
        rows=sum(one.rows for one in archiving),
    )


if __name__ == "__main__":
    found = trio.run(measure, msgspec.json.decode(sys.stdin.buffer.read() or b"{}", type=Archiving))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    sys.exit(not found.is_met)
