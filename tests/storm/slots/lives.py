"""The processes of the nodes. They are killed at any moment, even during their start, and restarted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import trio

from tests.processes.fleet import Fleet
from tests.processes.process import Process

DURING_START: Final = 0.2
START_S_MAX: Final = 0.6
BOTH: Final = 0.15
"""The share of kills that hit two nodes at the same time."""
LAPSE: Final = 0.25
"""The share of kills at which live nodes lose their leases too, as if all nodes had been paused for long."""


@dataclass
class Lives:
    """The nodes by number, each one process after another. `buried` receives the nodes that keep their leases."""

    fleet: Fleet
    config: Path
    environ: Mapping[str, str]
    rng: Random
    count: int
    buried: Callable[[Sequence[str]], None]
    kills: int = 0
    kills_in_start: int = 0
    _living: dict[int, tuple[Process, str]] = field(default_factory=dict)

    async def start_all(self) -> None:
        """Start every node."""
        await self._start_each(list(range(self.count)), self._start)

    async def kill_nodes(self) -> None:
        """Kill one or two nodes and restart them; they may be killed again while starting."""
        places = self.rng.sample(range(self.count), 2 if self.count > 2 and self.rng.random() < BOTH else 1)
        for place in places:
            self._kill(self._living.pop(place)[0])
        await self._start_each(places, self._start_again)
        is_lapse = self.rng.random() < LAPSE
        self.buried([] if is_lapse else [name for _process, name in self._living.values()])

    def kill_all(self) -> None:
        """Kill all nodes."""
        while self._living:
            self.fleet.kill(self._living.popitem()[1][0])

    async def _start_each(self, places: Sequence[int], start: Callable[[int], Awaitable[None]]) -> None:
        async with trio.open_nursery() as nursery:
            for place in places:
                nursery.start_soon(start, place)

    async def _start_again(self, place: int) -> None:
        if self.rng.random() < DURING_START:
            process = self._fork(place)
            await trio.sleep(self.rng.random() * START_S_MAX)
            self._kill(process)
            self.kills_in_start += 1
        await self._start(place)

    async def _start(self, place: int) -> None:
        process = self._fork(place)
        self._living[place] = process, (await process.listening())["node"]

    def _fork(self, place: int) -> Process:
        return self.fleet.start(self.config, self.environ, name=f"node-{place}", program="tests.storm.slots.node")

    def _kill(self, process: Process) -> None:
        self.fleet.kill(process)
        self.kills += 1
