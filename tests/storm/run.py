"""The storm: writers inside nodes that are killed every few seconds, readers outside, and the checks of both."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import trio

from bench.core.settings import Setting, toml
from gateway.config.secrets import load_secret
from tests.crash.clients import Node
from tests.processes.commands import Commands
from tests.processes.fleet import Fleet, open_fleet
from tests.storm.asking import Nodes
from tests.storm.judge import Filter, LogJudge, judge_consumer, judge_walk, visible
from tests.storm.lives import Lives, Reported
from tests.storm.log import open_database
from tests.storm.plan import PARENTS, TYPES, Account, Plan
from tests.storm.readers import FEED, Consumer, Reader, Walker
from upstreams.transport.http import Exchange, origin_of
from upstreams.transport.pooled import open_transport

ENVIRON = {"SLUICE_SECRET": "a secret of tests, long enough"}
SETTINGS: dict[str, Setting] = {
    "server.port": 0,
    "admin.port": 0,
    "limits.requests_per_minute": 1_000_000,
    "limits.concurrent_requests": 1000,
    "log.access": False,
}
TO_MEET = ("lost_connections", "long_polls", "rereads", "restarts", "acknowledged")
"""The events that readers of killed nodes must have experienced; the storm continues until then."""
WALKERS = 2
"""Walkers of each account: one sees everything visible to its key, the other has filters."""
CHECK_S = 0.05
POLL_S, POLL_LEAST_S = 1, 0.9
POLLS_FREE_S = 90.0
"""The time until all polls are free: a dead node's polls count until their leases have expired."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a storm: it runs for this many events, and for this many kills.

    `pause_s` is the longest pause of a writer between two batches. At the end `polls_free` polls of each key must wait.
    """

    events: int
    kills: int = 0
    accounts: int = 4
    consumers: int = 6
    kill_every_s: float = 5.0
    seed: int = 1
    writers: int = 4
    pause_s: float = 0.005
    polls_free: int = 5


class Broken(AssertionError):
    """The faults found by the judges."""


@dataclass
class Storm:
    """One store, its nodes, and its readers."""

    size: Size
    url: str
    plan: Plan
    lives: Lives
    nodes: Nodes
    walkers: list[Walker]
    consumers: list[Consumer]

    async def run(self) -> dict[str, Any]:
        """Run everything and return the figures. Raises Broken."""
        began = trio.current_time()
        await self.lives.start_all()
        async with trio.open_nursery() as reading:
            for walker in self.walkers:
                reading.start_soon(walker.walk, self.nodes)
            for number, consumer in enumerate(self.consumers):
                for _ in range(1 + number % 2):
                    reading.start_soon(consumer.read, self.nodes)
            await self._write()
            written_s = trio.current_time() - began
        read_s = trio.current_time() - began
        await self._check_ends()
        await trio.to_thread.run_sync(self.judge)
        return self._figures(written_s, read_s)

    async def _write(self) -> None:
        """Kill nodes until enough events are written."""
        async with trio.open_nursery() as killing:
            killing.start_soon(self._kill)
            while not self._is_enough:
                await trio.sleep(CHECK_S)
                self.lives.look()
            (Path(self.plan.folder) / "stop").touch()
            while not self.lives.have_stopped:  # noqa: ASYNC110 - other processes set no event
                await trio.sleep(CHECK_S)
            self.nodes.end_writing()

    async def _kill(self) -> None:
        while True:
            await trio.sleep(self.size.kill_every_s * self.lives.rng.uniform(0.5, 1.5))
            if self._is_enough:
                return
            await self.lives.kill_nodes()

    @property
    def _is_enough(self) -> bool:
        has_met_all = not self.size.kills or all(getattr(self.nodes.figures, name) for name in TO_MEET)
        return self.lives.reported.facts >= self.size.events and self.lives.kills >= self.size.kills and has_met_all

    async def _check_ends(self) -> None:
        """Check that no events are unread, and that every poll of every key is free again."""
        for consumer in self.consumers:
            told = await self.nodes.read(f"{FEED}/consumers/{consumer.name}", consumer.reader.key)
            shown = told["data"]["consumer"]
            assert (shown["unread"], shown["status"]) == (0, "active"), told
        with trio.fail_after(POLLS_FREE_S):
            async with trio.open_nursery() as nursery:
                for key in {one.reader.key for one in self.walkers} | {one.reader.key for one in self.consumers}:
                    nursery.start_soon(self._until_polls_are_free, key)

    async def _until_polls_are_free(self, key: str) -> None:
        while True:
            took_s: list[float] = []

            async def park(took_s: list[float] = took_s) -> None:
                began = trio.current_time()
                envelope = await self.nodes.read(f"{FEED}?cursor=now&wait_s={POLL_S}", key)
                assert not envelope["data"]["items"]
                took_s.append(trio.current_time() - began)

            full = self.nodes.figures.polls_full
            async with trio.open_nursery() as nursery:
                for _ in range(self.size.polls_free):
                    nursery.start_soon(park)
            assert min(took_s) >= POLL_LEAST_S
            if self.nodes.figures.polls_full == full:
                return

    def judge(self) -> None:
        """Compare the read events with the written ones, and the written ones with the reports. Raises Broken."""
        log, found = LogJudge(self.plan), list[str]()
        with open_database(self.url) as database:
            for account in self.plan.accounts:
                rows = database.rows(account.id)
                found += log.log(account.id, rows, ends=database.ends(account.id))
                for number, walker in enumerate(self.walkers):
                    if (reader := walker.reader).account_id == account.id:
                        verdicts = judge_walk(visible(rows, reader.key_id, reader.chosen), walker.seen)
                        found += [f"walker {number}, {reader}: {verdict}" for verdict in verdicts]
                for consumer in self.consumers:
                    if (reader := consumer.reader).account_id == account.id:
                        expected = visible(rows, reader.key_id, reader.chosen)
                        verdicts = judge_consumer(expected, consumer.given, consumer.acked)
                        found += [f"{consumer.name}, {reader}: {verdict}" for verdict in verdicts]
        found += log.batches(self.lives.reported.committed_at.keys())
        if found:
            raise Broken(f"{len(found)} verdicts\n" + "\n".join(found[:50]))

    def _figures(self, written_s: float, read_s: float) -> dict[str, Any]:
        reported = self.lives.reported
        walked = sum(len(walker.seen) for walker in self.walkers)
        consumed = sum(len(page.items) for consumer in self.consumers for page in consumer.acked)
        delays = sorted(chain.from_iterable(walker.delays(reported.committed_at) for walker in self.walkers))
        return {
            **asdict(self.size),
            "events": reported.facts,
            "batches": len(reported.committed_at),
            "written_s": round(written_s, 1),
            "all_read_s": round(read_s, 1),
            "events_per_s": round(reported.facts / written_s),
            "walked": walked,
            "consumed": consumed,
            "read_per_s": round((walked + consumed) / read_s),
            "nodes": self.lives.count,
            "kills": self.lives.kills,
            "kills_in_start": self.lives.kills_in_start,
            "writes_failed": dict(reported.failed),
            **asdict(self.nodes.figures),
            "seen_after_s": {
                name: round(delays[int(share * (len(delays) - 1))], 3)
                for name, share in (("p50", 0.5), ("p99", 0.99), ("longest", 1.0))
            },
        }


async def storm(
    folder: Path, size: Size, commands: Commands, *, store_url: str, state_url: str = "memory:"
) -> dict[str, Any]:
    """Run a storm on an empty store with files in `folder`: three nodes if they share state, otherwise one.

    Return its figures. Raises Broken.
    """
    (folder / "config.toml").write_text(toml({**SETTINGS, "store.url": store_url, "state.url": state_url}))
    count = 1 if state_url == "memory:" else 3
    with open_fleet(commands) as fleet:
        async with open_transport(max_connections=1000) as transport:
            nodes = Nodes(transport.exchange, Random(size.seed))
            prepared = await _prepare(folder, size, fleet, nodes, url=store_url, count=count)
            return await prepared.run()


async def _prepare(folder: Path, size: Size, fleet: Fleet, nodes: Nodes, *, url: str, count: int) -> Storm:
    """Create the nodes' plan, and readers for the keys of its accounts."""
    rng, config = Random(size.seed), folder / "config.toml"
    environ = {"PATH": "/usr/bin:/bin", "TMPDIR": str(folder), **ENVIRON}
    accounts, readers = await _make_keys(size, fleet, config, environ, exchange=nodes.exchange)
    plan = Plan(size.seed, size.writers, size.pause_s, str(folder), accounts)
    file = folder / "plan.json"
    file.write_bytes(msgspec.json.encode(plan))
    environ["STORM"] = str(file)
    lives = Lives(fleet, config, environ, nodes, Reported(plan), Random(rng.random()), count)
    walkers = [Walker(one, Random(rng.random())) for one in readers[: WALKERS * size.accounts]]
    consumers = [
        Consumer(f"consumer-{number}", one, Random(rng.random()))
        for number, one in enumerate(readers[WALKERS * size.accounts :])
    ]
    return Storm(size, url, plan, lives, nodes, walkers, consumers)


async def _make_keys(
    size: Size, fleet: Fleet, config: Path, environ: dict[str, str], *, exchange: Exchange
) -> tuple[tuple[Account, ...], list[Reader]]:
    """Create accounts, and readers with a key each, on a node that is killed afterwards."""
    rng = Random(size.seed)
    process = fleet.start(config, environ, name="first")
    line = await process.listening()
    node = Node(exchange, origin_of(line["url"])[0], origin_of(line["admin_url"])[0])
    token = load_secret(ENVIRON, config.parent).admin_token
    ids = [(await node.operate("account.create", token, {"name": "storm"}))["id"] for _ in range(size.accounts)]
    key_ids: dict[str, list[str]] = {id_: [] for id_ in ids}
    readers = []
    for number in range(WALKERS * size.accounts + size.consumers):
        account = ids[number % size.accounts]
        made = await node.operate("key.create", token, {"account": account})
        key_ids[account].append(made["id"])
        sees_all = number < size.accounts
        chosen, limit = (Filter(), 500) if sees_all else (_filter(rng), rng.randint(20, 500))
        readers.append(Reader(account, made["id"], made["key"], chosen, limit))
    fleet.kill(process)
    return tuple(Account(id_, tuple(keys)) for id_, keys in key_ids.items()), readers


def _filter(rng: Random) -> Filter:
    """Return a selection: everything, some families and types, or some parents."""
    families = sorted({f"{kind.partition('.')[0]}.*" for kind in TYPES})
    match rng.randrange(4):
        case 0:
            return Filter()
        case 1:
            return Filter(tuple(rng.sample(families, 2)))
        case 2:
            return Filter(tuple(rng.sample(TYPES, 5)))
    return Filter(parents=tuple(f"parent_{one}" for one in rng.sample(range(PARENTS), 3)))
