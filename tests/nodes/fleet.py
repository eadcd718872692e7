"""Several whole nodes on one database, each a process, with one account and one upstream that the test decides."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import trio

from tests.fakes.commands import Commands
from tests.fakes.scripted_upstream import Upstream, open_upstream
from tests.fakes.sluice_process import Place, Served
from tests.nodes.node import SECRET
from tests.servers.redis import open_redis

BALANCE = 1_000_000
LOOK_EVERY_S = 0.05
TABLES: dict[str, dict[str, object]] = {
    "limits": {"requests_per_minute": 1_000_000, "concurrent_requests": 1000},
    "breaker": {"failures": 100_000},
}
NET = """
SELECT request_id, SUM(CASE kind WHEN 'deduction' THEN amount WHEN 'refund' THEN -amount ELSE 0 END)
FROM ledger_entries WHERE request_id IS NOT NULL GROUP BY request_id
"""


@dataclass
class Fleet:
    """The nodes, and who asks them."""

    url: str
    upstream: Upstream
    client: httpx.AsyncClient
    places: list[Place]
    nodes: list[Served]
    account: str
    key: str
    told: dict[str, int] = field(default_factory=dict)
    """What each answered request was said to cost, by its id."""
    _asked: int = 0

    async def ask(self, node: Served, **headers: str) -> dict[str, Any]:
        """One billed call that no cache answers; its envelope."""
        self._asked += 1
        target = f"{node.url}/v1/github/profile?handle=user{self._asked}"
        answer = await self.client.get(target, headers={"x-api-key": self.key, **headers})
        assert answer.status_code == 200, answer.text
        envelope: dict[str, Any] = answer.json()
        self.told[envelope["request_id"]] = envelope["credits_used"]
        return envelope

    async def load(self, node: Served) -> None:
        """Ask until the node dies."""
        try:
            while True:
                await self.ask(node)
        except httpx.TransportError:
            return

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What the database says."""
        with psycopg.connect(self.url) as connection:
            return connection.execute(sql.encode()).fetchall()

    def held(self) -> int:
        """Credits that are held for calls under way."""
        ((held,),) = self.rows("SELECT SUM(held) FROM accounts")
        return int(held)

    async def until_nothing_is_held(self) -> None:
        """Wait until every charge is closed."""
        while self.held():  # noqa: ASYNC110 - a database sets no event
            await trio.sleep(LOOK_EVERY_S)

    def assert_sound(self) -> dict[str, int]:
        """The ledger proves itself, and the account has what its requests have left of it; gives what each cost."""
        assert self.places[0].told("ledger", "verify") == {"ok": True, "violations": []}
        costs = dict(self.rows(NET))
        assert self.rows("SELECT balance, held FROM accounts") == [(BALANCE - sum(costs.values()), 0)]
        return costs


@asynccontextmanager
async def open_fleet(folder: Path, url: str, commands: Commands, *, count: int) -> AsyncIterator[Fleet]:
    """So many nodes, gone when the block ends."""
    upstream = Upstream()
    with ExitStack() as stack:
        redis = stack.enter_context(open_redis(folder / "redis"))
        async with open_upstream(upstream) as egress, httpx.AsyncClient(timeout=60.0, verify=False) as client:
            places = []
            for number in range(count):
                program = (sys.executable, "-m", "tests.nodes.node")
                place = Place(folder / f"node{number}", commands, {"SLUICE_SECRET": SECRET}, program)
                place.folder.mkdir()
                place.configure(**TABLES, store={"url": url}, state={"url": redis.url}, upstreams={"egress": egress})
                places.append(place)
            account, key = places[0].new_key(balance=BALANCE)
            nodes = [stack.enter_context(place.serve()) for place in places]
            yield Fleet(url, upstream, client, places, nodes, account, key["key"])
