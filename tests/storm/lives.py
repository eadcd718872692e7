"""The processes of the nodes. They are killed at any moment and restarted, and their writers report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import trio

from tests.processes.fleet import Fleet
from tests.processes.process import Process
from tests.storm.asking import Living, Nodes
from tests.storm.node import STOPPED
from tests.storm.plan import Plan, facts_of
from upstreams.transport.http import origin_of

DURING_START = 0.2
START_S_MAX = 0.4
BOTH = 0.15
"""The share of kills that hit two nodes at the same time."""


@dataclass
class Reported:
    """The reports of all writers so far."""

    plan: Plan
    committed_at: dict[int, float] = field(default_factory=dict)
    facts: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    stopped: set[int] = field(default_factory=set)
    """The processes whose writers have all stopped."""
    _read_bytes: dict[int, int] = field(default_factory=dict)

    def read(self, life: int) -> None:
        """Read the new reports of a process."""
        file = Path(self.plan.folder) / f"reports-{life}"
        if not file.exists():
            return
        with file.open("rb") as lines:
            lines.seek(self._read_bytes.get(life, 0))
            text = lines.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read_bytes[life] = self._read_bytes.get(life, 0) + len(whole)
        for line in whole.decode().splitlines():
            self._take(life, *line.split())

    def _take(self, life: int, first: str, second: str = "") -> None:
        if first == STOPPED:
            self.stopped.add(life)
        elif first == "failed":
            self.failed[second] += 1
        else:
            self.committed_at[int(first)] = float(second)
            self.facts += len(facts_of(self.plan, int(first)))


@dataclass
class Lives:
    """The nodes by their number, each of them one process after another."""

    fleet: Fleet
    config: Path
    environ: Mapping[str, str]
    nodes: Nodes
    reported: Reported
    rng: Random
    count: int
    kills: int = 0
    kills_in_start: int = 0
    _life: int = 0
    _now: dict[int, int] = field(default_factory=dict)
    """The number of the current process of each node."""

    async def start_all(self) -> None:
        """Start every node."""
        async with trio.open_nursery() as nursery:
            for place in range(self.count):
                nursery.start_soon(self._start, place)

    async def kill_nodes(self) -> None:
        """Kill one or two nodes and restart them; they may be killed again while starting."""
        places = self.rng.sample(range(self.count), 2 if self.count > 2 and self.rng.random() < BOTH else 1)
        for place in places:
            node = self.nodes.living.pop(place)
            node.is_killed = True
            self._kill(place, node.process)
        async with trio.open_nursery() as nursery:
            for place in places:
                nursery.start_soon(self._start_again, place)

    async def _start_again(self, place: int) -> None:
        if self.rng.random() < DURING_START:
            process = self._fork(place)
            await trio.sleep(self.rng.random() * START_S_MAX)
            self._kill(place, process)
            self.kills_in_start += 1
        await self._start(place)

    async def _start(self, place: int) -> None:
        process = self._fork(place)
        line = await process.listening()
        self.nodes.living[place] = Living(process, origin_of(line["url"])[0])

    def _fork(self, place: int) -> Process:
        self._life += 1
        self._now[place] = self._life
        environ = {**self.environ, "STORM_LIFE": str(self._life)}
        return self.fleet.start(self.config, environ, name=f"node-{place}", program="tests.storm.node")

    def _kill(self, place: int, process: Process) -> None:
        self.fleet.kill(process)
        self.kills += 1
        self.reported.read(self._now[place])

    def look(self) -> None:
        """Read the reports of the live nodes."""
        for life in self._now.values():
            self.reported.read(life)

    @property
    def have_stopped(self) -> bool:
        """Return whether all writers have stopped."""
        self.look()
        return self.reported.stopped.issuperset(self._now.values())
