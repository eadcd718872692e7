"""A whole node for the storm: it serves like `sluice serve`, and its writers append until a stop is requested.

`STORM` in its environment is the plan's file, and `STORM_LIFE` is the number of this process. Commits are reported to
`reports-N`, one line per batch with its number and time. The last line reports that all writers have stopped.
"""

from __future__ import annotations

import os
import random
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path

import msgspec
import trio

from gateway.cli.run import known_platforms
from gateway.config import Config, load_config
from gateway.config.secrets import load_secret
from gateway.node.node import Node
from gateway.node.serve import Start, open_served_node, print_line
from gateway.observability.logs import open_log
from storage.errors import StorageError
from storage.store import Tx
from tests.storm.facts import fact
from tests.storm.plan import Plan, batch_of, facts_of, is_undone

STOPPED = "stopped"
PAUSE_S = 0.05


class Undone(Exception):
    """Raised to undo a transaction after appending."""


class Reports:
    """Reports for the driver, which survive the process."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def tell(self, *parts: object) -> None:
        """Write a line without buffering."""
        os.write(self._file, (" ".join(map(str, parts)) + "\n").encode())


class Writers:
    """The producers of one node."""

    def __init__(self, node: Node, plan: Plan, life: int) -> None:
        self._stores = node.stores
        self._plan = plan
        self._life = life
        self._stop = Path(plan.folder) / "stop"
        self.reports = Reports(Path(plan.folder) / f"reports-{life}")

    async def write(self, writer: int) -> None:
        """Append one batch after the other."""
        for number in count():
            if self._is_over():
                return
            batch = batch_of(self._life, writer, number)
            try:
                await self._append(batch)
            except StorageError as exc:
                self.reports.tell("failed", type(exc).__name__)
                await trio.sleep(PAUSE_S)
            await trio.sleep(random.random() * self._plan.pause_s)

    async def _append(self, batch: int) -> None:
        facts = [fact(self._plan, number) for number in facts_of(self._plan, batch)]
        undo = is_undone(self._plan, batch)

        def work(tx: Tx) -> None:
            self._stores.feed.append(tx, facts)
            if undo:
                raise Undone

        try:
            await self._stores.store.write(work)
        except Undone:
            return
        self.reports.tell(batch, time.time())

    def _is_over(self) -> bool:
        return self._stop.exists()


async def run(start: Start, plan: Plan, life: int) -> None:
    """Serve, and write until a stop is requested."""
    async with open_served_node(start) as (node, line):
        print_line(line)
        writers = Writers(node, plan, life)
        async with trio.open_nursery() as nursery:
            for writer in range(plan.writers):
                nursery.start_soon(writers.write, writer)
        writers.reports.tell(STOPPED)
        await trio.sleep_forever()


def main() -> None:
    """Serve with the config in the last argument."""

    def read_config() -> Config:
        return load_config(sys.argv[-1], {}, known_platforms())

    plan = msgspec.json.decode(Path(os.environ["STORM"]).read_bytes(), type=Plan)
    config = read_config()
    secrets = load_secret(os.environ, config.store.data_dir)
    with open_log("info", access=False) as log:
        start = Start(config, read_config, secrets, dict(os.environ), log)
        trio.run(partial(run, start, plan, int(os.environ["STORM_LIFE"])))
