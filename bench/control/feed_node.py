"""A node as in `sluice serve`, plus the bench's commands: `python -m bench.control.feed_node CONFIG`.

The commands are operations of the node's admin address. No other node has them.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import trio

from bench.control.control_protocol import APPEND, PEOPLE, WAITING, Append, Appended, People, Person, PersonKey, Waiting
from bench.control.delivery_control import DeliveryOperations
from bench.control.monitor_control import MonitorOperations
from events.filters import Filters
from events.log.kinds import DiscoverCounts, DiscoverCredits, DiscoverLegs, DiscoverRun
from events.log.log import Fact, Subject
from events.log.pages import PageQuery
from gateway.admin.operations import Nothing, Operation
from gateway.cli.run import known_platforms, read_config, run
from gateway.config import load_config
from gateway.config.secrets import load_secret
from gateway.node.node import Node
from gateway.node.serve import Start, open_served_node, print_line, tune_garbage_collection
from gateway.observability.logs import open_log
from storage.store import Tx

CREDITS = 1_000_000
A_WRITE = 2_000
"""The number of events per transaction if many are appended."""


def fact(account_id: str, key_id: str | None = None) -> Fact:
    """Return an event of typical size: the end of a discover run."""
    legs = DiscoverLegs(planned=12, done=11, empty=1, failed=0, skipped=0, pending=0)
    data = DiscoverRun(
        run_id="run_0190f3a2c4d87e5fb6a1d2e3f4a5b6c7",
        status="completed",
        stopped_because=None,
        counts=DiscoverCounts(legs=legs, rows_kept=240),
        credits=DiscoverCredits(spent=33),
        version=3,
        schedule_id="sch_0190f3a2c4d87e5fb6a1d2e3f4a5b6c8",
    )
    return Fact(
        account_id,
        "discover.completed",
        Subject("discover_run", "run_0190f3a2c4d87e5fb6a1d2e3f4a5b6c7", "bench"),
        data,
        key_id=key_id,
        parent_id="sch_0190f3a2c4d87e5fb6a1d2e3f4a5b6c8",
        links={"run": "/v1/discover/runs/run_0190f3a2c4d87e5fb6a1d2e3f4a5b6c7"},
    )


class BenchOperations:
    """Runs the commands on one node.

    It remembers the accounts that it created, so that one transaction can append events to all of them.
    """

    def __init__(self, node: Node) -> None:
        """Start without accounts."""
        self._node = node
        self._accounts: list[str] = []
        for name, operation in (
            (PEOPLE, Operation(People, self._people)),
            (APPEND, Operation(Append, self._append)),
            (WAITING, Operation(Nothing, self._waiting)),
        ):
            node.operations.add(name, operation)

    async def _people(self, args: People) -> Any:
        made: list[Person] = []
        async with trio.open_nursery() as nursery:
            for _ in range(args.accounts):
                nursery.start_soon(self._person, args.keys_each, made)
        self._accounts += [person.account for person in made]
        return msgspec.to_builtins(made)

    async def _person(self, keys: int, made: list[Person]) -> None:
        account = await self._node.stores.billing.accounts.create("bench", credits=CREDITS)
        new = [await self._node.stores.billing.keys.create(account.id) for _ in range(keys)]
        made.append(Person(account.id, tuple(PersonKey(key.id, key.key) for key in new)))

    async def _append(self, args: Append) -> Any:
        if args.account is None:
            return _announce(await self._write([fact(account_id) for account_id in self._accounts]))
        one, left, committed_ns = fact(args.account, args.key_id), args.count, 0
        while left > 0:
            committed_ns = await self._write([one] * min(left, A_WRITE))
            left -= A_WRITE
        return _announce(committed_ns)

    async def _write(self, facts: Sequence[Fact]) -> int:
        """Append events, and return the time of the commit."""
        committed: list[int] = []
        await self._node.stores.store.write(partial(self._append_in, facts=facts, note=committed.append))
        return committed[-1]

    def _append_in(self, tx: Tx, *, facts: Sequence[Fact], note: Callable[[int], None]) -> None:
        tx.on_commit(lambda: note(time.monotonic_ns()))  # runs before the feed's callback, which wakes polls
        self._node.stores.feed.append(tx, facts)

    async def _waiting(self, _args: Nothing) -> Any:
        count = len(self._node.feed.hub)
        # A counted poll may still be about to read, but the store reads pages in the order of their requests.
        for account_id in self._accounts[:1]:
            await self._node.feed.readers.pages.read(PageQuery(account_id, "", 0, 1, Filters()))
        return msgspec.to_builtins(Waiting(count))


def _announce(committed_ns: int) -> Any:
    return msgspec.to_builtins(Appended(committed_ns))


async def serve(start: Start) -> None:
    """Serve until SIGTERM or SIGINT, like `gateway.node.serve.serve`."""
    async with open_served_node(start) as (node, line):
        BenchOperations(node)
        MonitorOperations(node)
        DeliveryOperations(node)
        tune_garbage_collection()
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            print_line(line)
            async for _ in signals:
                break


def main(path: str) -> None:
    """Run the node of a config."""
    config = read_config(path)
    read_again = partial(load_config, path, os.environ, known_platforms())
    secrets = load_secret({}, config.store.data_dir)  # not the operator's, because the bench sends the admin token
    with open_log(config.log.level, access=config.log.access) as log:
        run(partial(serve, Start(config, read_again, secrets, os.environ, log)))


if __name__ == "__main__":
    main(sys.argv[1])
