"""A real node in the test's own run: real sockets, a real store, and upstreams controlled by the test."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import orjson
import trio

from gateway.config import load_config
from gateway.config.secrets import load_secret
from gateway.node.node import Node
from gateway.node.serve import Start, open_served_node
from gateway.observability.logs import Log
from storage.disk_watch import Probe
from storage.supervision import Supervise, Supervision
from tests.fakes.calling import Answered
from tests.fakes.migrated import migrated_at
from tests.fakes.outsider import admit, refuse
from tests.fakes.scripted_upstream import Upstream, open_upstream
from upstreams.composites import load_all, with_composites
from upstreams.guard.resolver import Resolve
from upstreams.index import load_indexed
from upstreams.model.endpoint import Platform
from upstreams.platforms import load_platforms
from upstreams.suppliers import interface_names
from upstreams.web import SLUG as WEB
from upstreams.web import make_web

EXPIRED_AT = 1_580_472_000.0
CREDITS = 100_000
PATIENCE_S = 90.0
SECRET = {"SLUICE_SECRET": "a secret of tests, long enough", "SUPPLIER_KEY": "a key of tests"}
SUPPLIERS = {name: {"key_env": "SUPPLIER_KEY"} for name in interface_names()}
"""The `[suppliers]` tables that make every endpoint of a supplier available."""
Table: TypeAlias = Mapping[str, object] | Sequence[Mapping[str, object]]
REFUSED = {
    "deduction": ("charges", "1 = 1"),
    "settlement": ("journal", "NEW.kind <= 2 AND (NEW.refunded < NEW.taken OR NEW.taken = 0)"),
    "refund": ("journal", "NEW.refunded > 0"),
}
"""For each kind of entry, the table that stores it, and the SQL condition for its rows."""


@dataclass(slots=True)
class OpenNode:
    """A running node, initially with one account and one key."""

    node: Node
    url: str
    admin_url: str
    upstream: Upstream
    client: httpx.AsyncClient
    log: io.BytesIO
    account: str = ""
    key: str = ""
    key_id: str = ""
    _auditors: dict[str, str] = field(default_factory=dict)

    async def get(
        self, target: str, *, key: str | None = "", headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> Answered:
        """Make one request with `key`, by default the node's first key; None sends no key."""
        own = {} if key is None else {"x-api-key": key or self.key}
        answer = await self.client.request(method, self.url + target, headers={**own, **(headers or {})})
        return Answered(answer.status_code, dict(answer.headers), answer.content)

    async def operate(self, operation: str, **arguments: Any) -> Any:
        """Run one operator operation. Return its result from the admin address."""
        return orjson.loads(orjson.dumps(await self.node.operations.run(operation, arguments)))

    async def new_account(self, balance: int = CREDITS) -> str:
        """Return a new account's id."""
        account: str = (await self.operate("account.create", name="test", credits=balance))["id"]
        return account

    async def new_key(self, account: str, **terms: Any) -> tuple[str, str]:
        """Return a new key and its id."""
        made = await self.operate("key.create", account=account, **terms)
        return made["key"], made["id"]

    async def renew(self, balance: int = CREDITS) -> None:
        """Give the next requests a new account and key, an empty cache, and the upstream's usual answers."""
        self.account = await self.new_account(balance)
        self.key, self.key_id = await self.new_key(self.account)
        cache = self.node.calls.cache
        for key in tuple(cache._entries):
            cache.forget(key)
        self.upstream.always(None)
        self.upstream.requests.clear()

    async def new_expired_key(self) -> str:
        """Return a key of the node's account that has expired since it was created."""
        made = await self.node.stores.billing.keys.create(self.account, name="", expires_at=EXPIRED_AT)
        return made.key

    async def entries(self, request_id: str, account: str = "") -> list[dict[str, Any]]:
        """Return the statement's entries of one request, read over HTTP with a key used only for that."""
        owner = account or self.account
        if owner not in self._auditors:
            self._auditors[owner] = (await self.new_key(owner))[0]
        target = f"/v1/credits/transactions?request_id={request_id}"
        items: list[dict[str, Any]] = (await self.get(target, key=self._auditors[owner])).json["data"]["items"]
        return items

    async def net(self, request_id: str, account: str = "") -> int:
        """Return the cost of one request, from the statement."""
        return -sum(entry["amount"] for entry in await self.entries(request_id, account))

    async def money(self, account: str = "") -> tuple[int, int]:
        """Return the balance and the reserved credits of an account, after all queued writes."""
        await self.node.stores.store.write(lambda _tx: None)  # writes keep their order, so all earlier ones are done
        report = await self.node.stores.billing.ledger.report(account or self.account)
        return report.balance, report.held

    async def assert_sound(self) -> None:
        """Check that the ledger's proof finds no violations, and that no credits are reserved."""
        assert await self.operate("ledger.verify") == {"ok": True, "violations": []}
        assert (await self.money())[1] == 0

    @asynccontextmanager
    async def store_refusing(self, kind: str = "", *, table: str = "charges") -> AsyncIterator[None]:
        """Make the store refuse deductions, settlements or refunds, according to `kind`, or new rows of `table`."""
        store = self.node.stores.store
        statements = refuse(*REFUSED.get(kind, (table, "1 = 1")))
        await store.write(lambda tx: [tx.run(sql) for sql in statements])
        try:
            yield
        finally:
            with trio.move_on_after(PATIENCE_S, shield=True):
                await store.write(lambda tx: tx.run(admit()))

    def log_events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of this name that were logged so far."""
        # Only lines that may match are parsed: parsing thousands of others would count as a long step of the node's
        # loop.
        events = [orjson.loads(line) for line in self.log.getvalue().splitlines() if name.encode() in line]
        return [event for event in events if event["event"] == name]

    async def gauge(self, name: str) -> float:
        """Return one value of the metrics, from the admin address."""
        text = (await self.client.get(f"{self.admin_url}/metrics")).text
        return float(next(line for line in text.splitlines() if line.startswith(f"{name} ")).split()[1])


@cache
def _all() -> tuple[Platform, ...]:
    """Return everything that a node serves, created once for all nodes of a process."""
    return load_all()


def _all_with_new_web() -> tuple[Platform, ...]:
    """Return everything that a node serves, with a new web platform; the other platforms are stateless and shared.

    With `SLUICE_TEST_INDEXED`, return what a node reads from the index, which takes 20 ms longer for each node.
    """
    if os.environ.get("SLUICE_TEST_INDEXED"):
        return load_indexed()
    return tuple(make_web() if platform.slug == WEB else platform for platform in _all())


@asynccontextmanager
async def open_test_node(
    folder: Path,
    *,
    credits: int = CREDITS,  # noqa: A002 - the specification's name
    egress: str = "",
    environ: Mapping[str, str] | None = None,
    platforms: tuple[Platform, ...] = (),
    resolve: Resolve | None = None,
    probe_disk: Probe | None = None,
    only: tuple[Platform, ...] = (),
    patience_s: float = PATIENCE_S,
    sandbox: str = "",
    supervise: Supervise | None = None,
    **tables: Table,
) -> AsyncIterator[OpenNode]:
    """Run a node on `tables` of config.toml, free ports and a store in `folder`, until the block ends.

    The node calls `OpenNode.upstream`, unless the test passes its own `egress`, or the address of a `sandbox`. A list
    in `tables` becomes an array of tables. `platforms` are added to the real ones; `only` replaces them. The block must
    end within `patience_s`. Without `resolve`, no webhook host has an address, so that no test queries real name
    servers. Exceptions of the block are raised unchanged. Background loops must not fail, except in a test that passes
    `supervise`.
    """
    failure: Exception | None = None
    upstream, log = Upstream(), io.BytesIO()
    with trio.fail_after(patience_s):
        async with open_upstream(upstream) as address:
            every = only or (with_composites((*load_platforms(), *platforms)) if platforms else _all_with_new_web())
            start = _start(folder, egress or address, {**SECRET, **(environ or {})}, every, tables, log)
            start = replace(start, resolve=resolve or _no_address, probe_disk=probe_disk)
            start = replace(start, supervise=supervise or Supervision)
            start = start.over_sandbox(sandbox) if sandbox else start
            # Loading the certificate authorities, which no test needs, would take half the time of opening a node.
            unverified = httpx.AsyncClient(timeout=PATIENCE_S, verify=False)
            async with open_served_node(start) as (node, line), unverified as client:
                opened = OpenNode(node, line["url"], line["admin_url"], upstream, client, log)
                opened.account = await opened.new_account(credits)
                opened.key, opened.key_id = await opened.new_key(opened.account)
                try:
                    yield opened
                except Exception as exc:  # noqa: BLE001 - raised below, outside of nurseries that wrap it in groups
                    failure = exc
    if failure is not None:
        raise failure
    assert supervise is not None or not opened.log_events("loop_failed")


async def _no_address(host: str, _port: int) -> Sequence[str]:
    await trio.lowlevel.checkpoint()
    raise socket.gaierror(socket.EAI_NONAME, f"{host} has no address")


def _start(
    folder: Path,
    egress: str,
    environ: Mapping[str, str],
    platforms: tuple[Platform, ...],
    tables: Mapping[str, Table],
    log: io.BytesIO,
) -> Start:
    folder.mkdir(exist_ok=True)
    settled: dict[str, Mapping[str, object]] = {
        "server": {"port": 0, "drain_s": 1},
        "admin": {"port": 0},
        "store": {"url": migrated_at(folder / "sluice.db")},
        "upstreams": {"egress": egress},
        "suppliers": SUPPLIERS,
    }
    file = folder / "config.toml"
    single = {name: table for name, table in tables.items() if isinstance(table, Mapping)}
    several = [(f"[[{name}]]", table) for name, each in tables.items() if name not in single for table in each]
    merged = [(f"[{name}]", {**settled.get(name, {}), **single.get(name, {})}) for name in settled | single]
    lines = (f"{head}\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in table.items()) for head, table in merged + several)
    file.write_text("".join(lines))
    known = {platform.slug for platform in platforms}

    def read_config() -> Any:
        return load_config(file, environ, known)

    return Start(read_config(), read_config, load_secret(environ, folder), environ, Log("debug", stream=log), platforms)


def _toml(value: object) -> str:
    """Return a value as TOML. JSON's scalars and flat arrays are valid TOML; tables are written inline."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + "}"
    return orjson.dumps(value).decode()
