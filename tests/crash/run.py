"""One node, killed repeatedly under mixed load and while it starts. At the end its ledger is verified."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import trio

from gateway.config.secrets import load_secret
from gateway.node.membership import MembershipPace
from tests.crash.clients import Clients, Node
from tests.crash.dying import NodeDied
from tests.crash.seen import Life, Seen, check_costs
from tests.fakes.entries import nets, read_entries
from tests.fakes.outsider import open_outsider
from tests.fakes.quick_node import BEAT_S
from tests.fakes.scripted_upstream import ScriptedAnswer, Upstream, open_upstream
from tests.fakes.stores import engine
from tests.processes.commands import Commands
from tests.processes.fleet import Fleet, open_fleet
from tests.processes.place import Place
from tests.processes.process import Process
from upstreams.transport.http import origin_of
from upstreams.transport.pooled import open_transport

BALANCE = 10_000_000
PLAIN, CLAIMING = 10, 10
DURING_START = 0.3
"""The share of kills during a node's start."""
START_S_MAX, LOAD_S_MAX = 0.25, 0.3
ANSWERS_MAX, SLOW_S = 40, 5.0
VERIFY_EVERY = 20
RECOVERED_S = 60.0
ENVIRON = {"SLUICE_SECRET": "a secret of tests, long enough"}
TABLES: dict[str, dict[str, object]] = {
    "limits": {"requests_per_minute": 1_000_000, "concurrent_requests": 1000},
    "breaker": {"failures": 100_000},
    "log": {"access": False},
}
LOST_REPLIES = """
SELECT owner FROM claims LEFT JOIN replies ON replies.id = claims.reply
WHERE claims.reply IS NOT NULL AND replies.id IS NULL
"""


@dataclass
class Report:
    """The result of a run, for people and for the test's final assertions."""

    kills: int = 0
    during_start: int = 0
    recovered: int = 0
    counts: Counter[str] = field(default_factory=Counter)


@dataclass
class CrashRun:
    """A place, its node and its clients, for all processes of the node."""

    place: Place
    fleet: Fleet
    clients: Clients
    rng: Random
    account: str
    report: Report = field(default_factory=Report)

    async def kill_once(self) -> None:
        """Run one process, which is killed while it starts or under load."""
        started = self._start()
        if self.rng.random() < DURING_START:
            await trio.sleep(self.rng.random() * START_S_MAX)
            self.fleet.kill(started)
            self.report.during_start += 1
        else:
            async with self._open_node(started) as node:
                await self._live(node, started)
        self.report.recovered += sum(event["charges"] for event in started.events("recovered"))
        self.report.kills += 1

    def _start(self) -> Process:
        """Start a node that takes over the previous one's remaining work immediately.

        On a server, it checks for work often.
        """
        self.place.bury()
        pace = None if engine() == "sqlite" else MembershipPace(beat_s=BEAT_S)
        return self.fleet.start(self.place.config, self._environ, pace=pace)

    async def _live(self, node: Node, started: Process) -> None:
        life = Life()
        works = [self.clients.plain] * PLAIN + [self.clients.claiming] * CLAIMING
        works += [self.clients.granting, self.clients.keying]
        async with trio.open_nursery() as nursery:
            for work in works:
                nursery.start_soon(_until_it_dies, work, node, life)
            wanted = self.clients.seen.counts.total() + self.rng.randrange(ANSWERS_MAX)
            await trio.sleep(self.rng.random() * LOAD_S_MAX)
            await self._until_answered(wanted)
            node.is_killed = True
            self.fleet.kill(started)
        self.clients.seen.end(life)

    async def _until_answered(self, wanted: int) -> None:
        """Wait until clients have counted this many answers, whatever the speed of the machine."""
        with trio.move_on_after(SLOW_S):
            while self.clients.seen.counts.total() < wanted:  # noqa: ASYNC110 - clients only count, and set no event
                await trio.sleep(0.005)

    async def finish(self) -> None:
        """Run the last process: every idempotency key gets its outcome and repeats it.

        Then the node is killed once more.
        """
        started = self._start()
        async with self._open_node(started) as node:
            for work in list(self.clients.pending):
                await self.clients.until_finished(node, *work)
            for key in self.clients.seen.finished:
                await self.clients.replay(node, key)
            node.is_killed = True
            self.fleet.kill(started)
        await self.verify()

    @asynccontextmanager
    async def _open_node(self, started: Process) -> AsyncIterator[Node]:
        line = await started.listening()
        public, admin = origin_of(line["url"])[0], origin_of(line["admin_url"])[0]
        async with open_transport() as transport:
            node = Node(transport.exchange, public, admin)
            await self._recovered(node)
            yield node

    async def _recovered(self, node: Node) -> None:
        """Check that open charges are refunded: in a file before its owner serves, and on a server soon after."""
        with trio.fail_after(RECOVERED_S):
            while await self._held(node) != [0, 0]:
                assert engine() != "sqlite"
                await trio.sleep(0.05)

    async def _held(self, node: Node) -> list[int]:
        return [account["held"] for account in await node.operate("account.list", self.clients.admin_token, {})]

    async def verify(self) -> None:
        """Run the operator's verification on the store as the kill has left it."""
        verified = await trio.to_thread.run_sync(self.place.json_of, "ledger", "verify")
        assert verified == {"ok": True, "violations": []}

    def check(self) -> None:
        """Compare the answers that clients saw with the store."""
        seen = self.clients.seen
        with open_outsider(self.place.store_url) as store:
            entries = read_entries(store.run)
            net = nets(entries)
            refunded = {entry.request_id for entry in entries if entry.kind == "refund"}
            partial = {id_: cost for id_, cost in net.items() if cost and id_ in refunded}
            accounts = dict(store.run("SELECT id, balance FROM accounts"))
            used = dict(store.run("SELECT account_id, used FROM keys WHERE account_id = ?", self.account))
            owners = dict(store.run("SELECT owner, status FROM claims WHERE status IS NOT NULL"))
            lost = store.run(LOST_REPLIES)
        check_costs(seen, net, partial)
        assert accounts[self.account] == BALANCE - sum(net.values())
        assert used == {self.account: sum(net.values())}
        assert seen.granted <= accounts[self.clients.treasury] <= seen.perhaps_granted
        assert owners == {one.request_id: one.status for one in seen.finished.values()}
        assert lost == [], "a claim and its text are stored in one transaction"

    @property
    def _environ(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "TMPDIR": str(self.place.folder), **ENVIRON}


async def _until_it_dies(work: Callable[[Node, Life], Awaitable[None]], node: Node, life: Life) -> None:
    try:
        await work(node, life)
    except NodeDied:
        return


def unreliable(rng: Random, upstream: Upstream) -> Callable[[str], ScriptedAnswer | None]:
    """An upstream that is slow, sometimes fails, and does not have every profile."""

    def script(asked: str) -> ScriptedAnswer | None:
        delay_s, dice = rng.random() * 0.03, rng.random()
        is_part = "code" in asked and not asked.endswith("/code")
        if dice < (0.6 if is_part else 0.08):  # so that some composites lack most of their legs
            return ScriptedAnswer(500, b"{}", delay_s=delay_s)
        if dice > 0.95 and "/users/" in asked:
            return ScriptedAnswer(404, b"{}", delay_s=delay_s)
        upstream.behaviour.latency_s = delay_s
        return None

    return script


def at_once(_report: Report) -> bool:
    """Accept any report, so that the run ends after its number of kills."""
    return True


async def crash_run(
    folder: Path,
    commands: Commands,
    *,
    kills: int,
    seed: int,
    tell: Callable[[str], None] = print,
    is_enough: Callable[[Report], bool] = at_once,
) -> Report:
    """Kill a node this many times, and then until `is_enough` returns true. Verify its ledger.

    The seed decides everything except the machine's timing.
    """
    tell(f"seed {seed}, {kills} kills")
    rng, upstream = Random(seed), Upstream()
    upstream.script = unreliable(Random(rng.random()), upstream)
    with open_fleet(commands) as fleet:
        async with open_upstream(upstream) as egress:
            place = Place(folder, commands, ENVIRON)
            upstreams: dict[str, object] = {"egress": egress, "defaults": {"retries": 0}}
            place.configure(**TABLES, upstreams=upstreams)
            run = _prepare(place, fleet, rng)
            run.report.counts = run.clients.seen.counts
            while run.report.kills < kills or not is_enough(run.report):
                await run.kill_once()
                number = run.report.kills
                if number % VERIFY_EVERY == 0:
                    await run.verify()
                    tell(f"{number} kills: {run.report.recovered} charges recovered, {dict(run.clients.seen.counts)}")
            await run.finish()
    run.check()
    return run.report


def _prepare(place: Place, fleet: Fleet, rng: Random) -> CrashRun:
    account, key = place.new_key(balance=BALANCE)
    treasury: dict[str, Any] = place.json_of("account", "create", "--name", "treasury", "--credits", "0")
    token = load_secret(ENVIRON, place.database.parent).admin_token
    clients = Clients(Random(rng.random()), Seen(), key["key"], token, treasury["id"])
    return CrashRun(place, fleet, clients, rng, account)
