"""A list needs as many SQL statements with many objects in the store as with few.

Method: a node with two objects of each kind, then with 25. Each list of the API and each page of the dashboard and of
the operator is requested, and SQLite counts the statements that its readers run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import trio

from gateway.config.secrets import load_secret
from scheduler.sessions import session_rows
from scheduler.sessions.records import SessionRecord
from storage.sqlite.store import SqliteStore
from tests.fakes.node import SECRET, OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.fakes.stores import engine
from tests.gateway.api.routes.asking import ask
from tests.gateway.dashboard.owner import Owner, open_owner

FEW, MANY = 2, 25
TRIES = 6
NOISE = 4
"""Statements of the node's own loops that may fall into each measurement."""
PACKS = [{"name": "starter", "credits": 1_000, "price_cents": 900, "plan": "starter"}]
DISCOVER = "/v1/prism/discover"
RUN: dict[str, Any] = {"keywords": ["trio"], "platforms": ["hackernews"], "max_credits": 20}
MONITOR = {
    "recipe": "github/profile",
    "params": {"handle": "octocat"},
    "cadence": "daily",
    "track": {"metrics": ["author.followers"]},
}
WATCH = {"url": "https://example.com/", "cadence_minutes": 60}
QUERY = {"keywords": ["acme"], "date_from": "2026-01-01T00:00:00Z", "max_credits": 10, "max_items_per_identity": 5,
         "max_pages_per_identity": 1}  # fmt: skip
LISTS = (
    "/v1/monitors?limit=100",
    "/v1/monitors?status=all&limit=100",
    "/v1/web/monitors?limit=100",
    "/v1/webhooks?limit=100",
    f"{DISCOVER}/runs?limit=100",
    f"{DISCOVER}/schedules?limit=100",
    "/v1/web/jobs?limit=100",
    "/v1/web/sessions?limit=100",
    "/v1/purchases?limit=100",
    "/v1/credits/transactions?limit=100",
    "/v1/events?limit=100",
    "/v1/events/consumers",
)
PAGES = (
    "", "/keys", "/usage", "/transactions", "/billing", "/monitors", "/jobs", "/cohorts", "/discover",
    "/discover/schedules", "/webhooks", "/events", "/account", "/playground?id=github/profile",
)  # fmt: skip
ADMIN = ("/admin", "/admin/pages/platforms", "/admin/pages/account?id={account}")


class Everything:
    """A node with the same number of objects of each kind."""

    def __init__(self, node: OpenNode, owner: Owner, operator: httpx.AsyncClient) -> None:
        self.node, self.owner, self.operator = node, owner, operator
        self.cohort, self.hook, self.monitor = "", "", ""
        self.made = 0

    async def post(self, target: str, body: object = None) -> Any:
        status, answer = await ask(self.node, "POST", target, body)
        assert status in (200, 201, 202), (target, answer)
        return answer.get("data", answer)

    async def grow(self, count: int) -> None:
        """Create objects until there are `count` of each kind."""
        node = self.node
        for number in range(self.made, count):
            made = await self.post("/v1/monitors", {**MONITOR, "run_now": True})
            self.monitor = self.monitor or made["monitor"]["id"]
            await self.post("/v1/web/monitors", WATCH)
            if number < 10:
                hook = await self.post(
                    "/v1/webhooks", {"url": f"https://example.com/{number}", "types": ["key.revoked"]}
                )
                self.hook = self.hook or hook["webhook"]["id"]
            cohort = await self.post("/v1/cohorts", {"name": f"Panel {number}"})
            self.cohort = self.cohort or cohort["id"]
            await self.post(f"{DISCOVER}/runs", RUN)
            await self.post(f"{DISCOVER}/schedules", {"run": RUN, "cadence": "daily"})
            await self.post("/v1/web/batch-scrape", {"urls": ["https://example.com/"]})
            await node.operate("pack.grant", account=node.account, pack="starter", operation_id=f"pack-{number:04}")
            await node.operate("user.invite", account=node.account, email=f"user{number}@example.com")
            await node.new_key(await node.new_account(5))
            _, key = await node.new_key(node.account)
            await node.operate("key.revoke", key=key, operation_id=f"revoke-{number:04}")
            await node.node.stores.store.write(partial(session_rows.add_session, session=session_of(node, number)))
            assert (await node.get(f"/v1/events?consumer=reader-{number}&limit=1")).status == 200
        self.made = count
        await self._rest()

    async def _rest(self) -> None:
        """Wait until all started runs and jobs have ended."""
        live = "SELECT COUNT(*) FROM jobs WHERE finished_at IS NULL"
        with trio.fail_after(60):
            await until_none(partial(self.node.node.stores.store.read, lambda tx: tx.one(live)))

    async def counts(self) -> dict[str, int]:
        """Return the number of statements of each list and page."""
        node, found = self.node, dict[str, int]()
        lists = (
            *LISTS,
            f"/v1/monitors/{self.monitor}/runs?limit=100",
            f"/v1/monitors/{self.monitor}/deliveries?limit=100",
            f"/v1/webhooks/{self.hook}/deliveries?limit=100",
        )
        for target in lists:
            found[target.partition("?")[0]] = await self._fewest(partial(node.get, target))
        for page in (*PAGES, f"/monitors/{self.monitor}", f"/webhooks/{self.hook}", f"/cohorts/{self.cohort}"):
            found[f"dashboard {page}"] = await self._fewest(partial(self.owner.get, page))
        for page in ADMIN:
            found[page] = await self._fewest(partial(self.operator.get, page.format(account=quote(node.account))))
        return found

    async def _fewest(self, request: Callable[[], Awaitable[Any]]) -> int:
        """Return the smallest number of statements over several requests, because the node's loops also read."""
        store, counts = self.node.node.stores.store, list[int]()
        assert isinstance(store, SqliteStore)
        for _ in range(TRIES):
            with counting(store) as ran:
                answer = await request()
            assert getattr(answer, "status", 200) == getattr(answer, "status_code", 200) == 200, answer
            counts.append(len(ran))
        return min(counts)


@contextmanager
def counting(store: SqliteStore) -> Iterator[list[str]]:
    """Collect the statements that the store's readers run in this block."""
    ran: list[str] = []

    def note(sql: str) -> None:
        if not sql.startswith(("BEGIN", "COMMIT", "ROLLBACK", "--")):
            ran.append(sql)

    readers = list(store._idle)
    for connection in readers:
        connection.set_trace_callback(note)
    try:
        yield ran
    finally:
        for connection in readers:
            connection.set_trace_callback(None)


async def until_none(count: Callable[[], Awaitable[Any]]) -> None:
    """Wait until a count is 0."""
    found = await count()
    while found[0]:
        await trio.sleep(0.1)
        found = await count()


def session_of(node: OpenNode, number: int) -> SessionRecord:
    return SessionRecord(
        id=f"ws_{number:032}", account_id=node.account, key_id=node.key_id, url="https://example.com/", mobile=0,
        status="closed", closed_because="owner", charges="[]", held_credits=5, used_credits=5, ttl_s=60, idle_s=None,
        context_id=None, target_id=None, node="none", lease_until=0.0, created_at=1e9 + number, opened_at=1e9,
        active_at=1e9, closed_at=1e9 + 60,
    )  # fmt: skip


@asynccontextmanager
async def open_everything(folder: Path) -> AsyncIterator[Everything]:
    tables: dict[str, Any] = {
        "packs": PACKS,
        "breaker": {"failures": 10_000},
        "upstreams": {"defaults": {"retries": 0}},
        "web": {"respect_robots": False},
    }
    async with open_test_node(folder, **tables) as node, open_owner(node) as owner:
        node.upstream.script = lambda _request: ScriptedAnswer(500)
        await node.operate("account.plan", account=node.account, plan="enterprise", operation_id="plan-0001")
        async with httpx.AsyncClient(base_url=node.admin_url, verify=False) as operator:
            token = load_secret(SECRET, folder).admin_token
            assert (await operator.post("/admin", data={"token": token})).status_code == 303
            yield Everything(node, owner, operator)


@pytest.mark.skipif(engine() != "sqlite", reason="SQLite counts the statements")
async def test_list_uses_a_constant_number_of_statements(tmp_path: Path) -> None:
    async with open_everything(tmp_path) as everything:
        await everything.grow(FEW)
        few = await everything.counts()
        await everything.grow(MANY)
        many = await everything.counts()
    grown = {target: (few[target], count) for target, count in many.items() if count > few[target] + NOISE}
    assert not grown, f"statements with few objects and with many: {grown}"
