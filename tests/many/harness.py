"""Nodes, servers, upstream and clients of one test, and the invariants of its ledger at the end."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import orjson
import psycopg
import trio

from bench.core.settings import Setting, toml
from gateway.config.secrets import load_secret
from gateway.node.membership import MembershipPace
from limits.shared_gate import GateSpans
from tests.fakes.entries import EntryRow, nets, read_entries
from tests.fakes.scripted_upstream import Upstream, open_upstream
from tests.processes.commands import PROJECT
from tests.processes.fleet import PROGRAM, Fleet
from tests.processes.process import Process
from upstreams.transport.http import Exchange, HttpCall, origin_of
from upstreams.transport.origin import Origin
from upstreams.transport.pooled import open_transport

COUNT = 3
PROOF_S = 300.0
PATIENCE_S = 60.0
SETTLED_S = 3.0
"""The maximum time on a busy machine between a response and its settlement."""
TRIES = 10
ENVIRON = {"PATH": "/usr/bin:/bin", "SLUICE_SECRET": "a secret of tests, long enough"}
SETTINGS: dict[str, Setting] = {
    "server.port": 0,
    "admin.port": 0,
    "limits.requests_per_minute": 1_000_000,
    "limits.concurrent_requests": 2000,
    "breaker.failures": 100_000,
    "upstreams.defaults.retries": 0,
    "upstreams.defaults.max_connections": 1000,
    "log.access": False,
}


class Unanswered(Exception):
    """The connection broke before the response was complete."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One response with its node, and when it was requested and completed, in seconds on Trio's clock."""

    status: int
    headers: dict[str, str]
    body: bytes
    port: int
    sent_at: float
    there_at: float

    @property
    def json(self) -> Any:
        """Return the body as JSON."""
        return orjson.loads(self.body)

    @property
    def code(self) -> str:
        """Return the error's type, or OK."""
        body = self.json
        return "OK" if body["success"] else str(body["error"]["type"])

    @property
    def took_s(self) -> float:
        """Return the seconds from the request to the complete response."""
        return self.there_at - self.sent_at


@dataclass(slots=True)
class Node:
    """A node that is running or has ended."""

    process: Process
    public: Origin
    admin: Origin


@dataclass(slots=True)
class Cluster:
    """Several nodes with one account and its key. Records the responses of `ask` for `assert_sound`."""

    nodes: list[Node]
    upstream: Upstream
    exchange: Exchange
    fleet: Fleet
    store_url: str
    admin_token: str
    key: str = ""
    account: str = ""
    answers: list[Answer] = field(default_factory=list)
    unanswered: int = 0
    unsettled: set[str] = field(default_factory=set)
    """The ids of requests whose node was lost after it had responded. Their charges are settled later, or refunded."""
    killed_at: dict[int, float] = field(default_factory=dict)
    """The times at which nodes were killed, in seconds on Trio's clock, by port."""
    running: list[Process] = field(default_factory=list)
    """The running nodes, including those that are starting."""
    numbers: Iterator[int] = field(default_factory=count)

    async def ask(self, node: Node, target: str, key: str = "", **headers: str) -> Answer:
        """Send a GET with an API key (default: the first one). Raises Unanswered."""
        named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        call = HttpCall("GET", node.public, target, (("x-api-key", key or self.key), *named))
        try:
            answer = await self._exchange(call)
        except Unanswered:
            self.unanswered += 1
            raise
        self.answers.append(answer)
        return answer

    async def told(self, node: Node, target: str, key: str = "", *, tries: int = TRIES, **headers: str) -> Answer:
        """Like `ask`, retrying while the node reports that a server was too slow, as happens on a busy machine."""
        for _ in range(tries):
            answer = await self.ask(node, target, key, **headers)
            if answer.status != 503:
                break
            assert (answer.headers["retry-after"], answer.json["credits_used"]) == ("1", 0), answer
            await trio.sleep(1)
        return answer

    async def operate(self, node: Node, operation: str, /, **arguments: object) -> Any:
        """Run an operator's operation through a node's admin address."""
        headers = (("authorization", f"Bearer {self.admin_token}"), ("content-type", "application/json"))
        answer = await self._exchange(
            HttpCall("POST", node.admin, f"/admin/{operation}", headers, orjson.dumps(arguments))
        )
        assert answer.status == 200, answer
        return answer.json

    async def readiness(self, node: Node) -> tuple[int, str]:
        """Return the response of /readyz."""
        answer = await self._exchange(HttpCall("GET", node.admin, "/readyz"))
        return answer.status, answer.body.decode()

    async def metrics(self, node: Node) -> str:
        """Return the response of /metrics."""
        return (await self._exchange(HttpCall("GET", node.admin, "/metrics"))).body.decode()

    async def health(self, node: Node) -> Answer:
        """Return the response of /healthz, which involves only the node."""
        return await self._exchange(HttpCall("GET", node.admin, "/healthz"))

    async def new_key(self, *, balance: int) -> tuple[str, str]:
        """Create an account. Return its id and its key."""
        account = (await self.operate(self.nodes[0], "account.create", name="test", credits=balance))["id"]
        return account, (await self.operate(self.nodes[0], "key.create", account=account))["key"]

    def kill(self, node: Node) -> None:
        """Kill a node with SIGKILL."""
        self.killed_at[node.public.port] = trio.current_time()
        self.fleet.kill(node.process)
        self._forget(node)

    async def wait(self, node: Node) -> int:
        """Stop a node. Return its exit code."""
        exit_code = await trio.to_thread.run_sync(self.fleet.wait, node.process)
        self._forget(node)
        return exit_code

    def _forget(self, node: Node) -> None:
        self.running.remove(node.process)
        self.nodes.remove(node)

    async def _exchange(self, call: HttpCall) -> Answer:
        sent_at = trio.current_time()
        try:
            answer = await self.exchange(call, sent_at + PATIENCE_S)
        except httpx.TransportError as exc:
            raise Unanswered from exc
        port = call.origin.port
        return Answer(answer.status, answer.headers, answer.body, port, sent_at, trio.current_time())

    async def rows(self, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Return rows of the database."""
        return await trio.to_thread.run_sync(_rows, self.store_url, sql, arguments)

    async def entries(self) -> list[EntryRow]:
        """Return the ledger's entries."""
        return await trio.to_thread.run_sync(lambda: read_entries(lambda sql: _rows(self.store_url, sql, ())))

    async def balance(self, account: str = "") -> int:
        """Return the balance of an account from the database."""
        ((balance,),) = await self.rows("SELECT balance FROM accounts WHERE id = %s", account or self.account)
        return int(balance)

    async def open_charges(self) -> int:
        """Return the number of open charges."""
        ((count,),) = await self.rows("SELECT count(*) FROM charges")
        return int(count)

    async def assert_sound(self, *, settled_within_s: float = 60.0) -> dict[str, int]:
        """Check that every charge is closed, each answer cost its stated price, and the ledger is sound.

        No other request may have been charged. Return the cost of each request.
        """
        await until(self._is_settled, within_s=settled_within_s)
        net = nets(await self.entries())
        billed = {one.json["request_id"]: one for one in self.answers if not one.json.get("idempotent_replay")}
        told = {id_: answer.json["credits_used"] for id_, answer in billed.items()}
        paid = {id_: net.get(id_, 0) for id_ in told}
        wrong = {
            id_: (used, paid[id_])
            for id_, used in told.items()
            if paid[id_] != used and (paid[id_] or not self._may_be_refunded(billed[id_]))
        }
        assert not wrong, f"answered, charged: {wrong}"
        silent = {request_id for request_id, cost in net.items() if cost and request_id not in told}
        assert len(silent) <= self.unanswered, "a request without an answer was charged"
        ((lowest, held),) = await self.rows("SELECT min(balance), sum(held) FROM accounts")
        assert lowest >= 0
        assert held == 0
        assert await self.operate(self.nodes[0], "ledger.verify") == {"ok": True, "violations": []}
        return net

    def _may_be_refunded(self, answer: Answer) -> bool:
        """Return whether the node was killed before it had to settle a request.

        The response may have been read after the kill.
        """
        killed_at = self.killed_at.get(answer.port, math.inf)
        return answer.there_at > killed_at - SETTLED_S or answer.json["request_id"] in self.unsettled

    async def _is_settled(self) -> bool:
        return await self.open_charges() == 0


def _rows(url: str, sql: str, arguments: Sequence[object]) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, connect_timeout=60, options="-c statement_timeout=60s") as connection:
        return connection.execute(sql.encode(), arguments).fetchall()


async def until(holds: Callable[[], Any], *, within_s: float) -> float:
    """Poll until the condition holds. Return the elapsed seconds."""
    began = trio.current_time()
    with trio.fail_after(within_s):
        while not await holds():  # noqa: ASYNC110 - the condition is about another process
            await trio.sleep(0.05)
    return trio.current_time() - began


@asynccontextmanager
async def open_cluster(
    fleet: Fleet,
    folder: Path,
    *,
    store_url: str,
    state_url: str,
    direct_url: str = "",
    skews_s: Sequence[float] = (0.0,) * COUNT,
    pace: MembershipPace | None = None,
    spans: GateSpans | None = None,
    program: str = PROGRAM,
    balance: int = 100_000,
    **settings: Setting,
) -> AsyncIterator[Cluster]:
    """Run one node per entry of `skews_s`, and check the ledger when the block ends.

    `direct_url` is the store without a proxy. `pace`, `spans` and `program` have the same meaning as in `Fleet.start`.
    A setting `limits__requests_per_minute=60` belongs to the table `limits`. The block may take up to `PROOF_S`, and
    its exceptions are raised unchanged.
    """
    failure: Exception | None = None
    upstream = Upstream()
    with trio.fail_after(PROOF_S):
        async with open_upstream(upstream) as egress, open_transport(max_connections=2000) as transport:
            urls: dict[str, Setting] = {"store.url": store_url, "state.url": state_url, "upstreams.egress": egress}
            own = {name.replace("__", "."): value for name, value in settings.items()}
            config = folder / "config.toml"
            config.write_text(toml({**SETTINGS, **urls, **own}))
            nodes: list[Node] = []
            token = load_secret(ENVIRON, folder).admin_token
            cluster = Cluster(nodes, upstream, transport.exchange, fleet, direct_url or store_url, token)
            environ = {**ENVIRON, "TMPDIR": str(folder), "PYTHONPATH": str(PROJECT)}
            for number, skew_s in enumerate(skews_s):
                how: Any = {"skew_s": skew_s, "pace": pace, "spans": spans, "program": program}
                cluster.running.append(fleet.start(config, environ, name=f"node-{number}", **how))
            try:
                nodes.extend([await _listening(process) for process in cluster.running])
                cluster.account, cluster.key = await cluster.new_key(balance=balance)
                yield cluster
                await cluster.assert_sound()
            except Exception as exc:  # noqa: BLE001 - raised below, outside of nurseries that wrap it in groups
                failure = exc
            finally:
                for process in cluster.running:
                    fleet.kill(process)
    if failure is not None:
        raise failure


async def _listening(process: Process) -> Node:
    """Wait for a node until it has printed its first line, and return the node."""
    line = await process.listening()
    return Node(process, origin_of(line["url"])[0], origin_of(line["admin_url"])[0])
