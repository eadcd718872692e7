"""Queries over a cohort on loopback, by nodes that are killed periodically, and the checks of their results."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx
import orjson
import trio

from scheduler.jobs.cohorts.results import PAGE_BYTES
from tests.fakes.panel import DAY_S, Panel, iso_at
from tests.fakes.scripted_upstream import Upstream, open_upstream
from tests.processes.commands import Commands
from tests.processes.fleet import Fleet, open_fleet
from tests.processes.place import Place
from tests.processes.process import Process
from tests.storm.cohorts import hiding

PATIENCE_S: Final = 600.0
ENVIRON: Final = {"SLUICE_SECRET": "a secret of tests, long enough"}
PAGES: Final = 2
"""The maximum number of pages that are read per member."""
PAGE_ROWS: Final = 5
CREDITS: Final = 1_000_000
RESUMED_S: Final = 10.0
PUBLIC: Final = ("metrics", "/v1/events?limit=500", "/v1/credits/transactions?limit=100")
"""Answers of the admin address and of the account, which must not name members."""
SOME: Final = 20


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a storm."""

    members: int = 10_000
    queries: int = 1
    kill_every_s: float = 5.0
    kills_max: int = 10_000
    """The number of kills; after them, the nodes keep running."""
    page_s: float = 0.02
    seed: int = 1


def handle_of(number: int) -> str:
    return f"hush-{number}.panel.test"


def make_panel(size: Size) -> Panel:
    """Serve members by number: every 17th is missing, every 19th fails, and all others have up to 12 posts."""
    now = time.time()
    posts = {
        handle_of(number): [
            (f"whispér {place} of acme" if place % 2 else f"whispér {place}", now - (place + 1) * 3_600.0)
            for place in range(number % 13)
        ]
        for number in range(size.members)
        if number % 17
    }
    broken = frozenset(handle_of(number) for number in range(0, size.members, 19) if number % 17)
    return Panel(posts, page_rows=PAGE_ROWS, broken=broken, takes_s=size.page_s)


@dataclass(frozen=True, slots=True)
class Due:
    """The expected results of one member."""

    status: str
    pages: int
    paid: int
    """The number of pages that had posts, which are charged."""
    content_ids: tuple[str, ...]


def due_of(panel: Panel, number: int) -> Due:
    """Compute, independently of the node, the results that a query must return for a member."""
    handle = handle_of(number)
    if handle not in panel.posts:
        return Due("not_found", 0, 0, ())
    if handle in panel.broken:
        return Due("failed", 0, 0, ())
    posts = panel.posts[handle]
    pages = min(PAGES, max(1, -(-len(posts) // PAGE_ROWS)))
    found = tuple(
        f"hush-{number}-{place}" for place, (text, _) in enumerate(posts[: pages * PAGE_ROWS]) if "acme" in text
    )
    return Due("complete" if len(posts) <= PAGES * PAGE_ROWS else "partial", pages, pages if posts else 0, found)


async def storm(folder: Path, size: Size, commands: Commands, *, store_url: str, state_url: str = "") -> dict[str, Any]:
    """Fill a cohort, query it, and kill a node periodically until all queries have ended, then check everything.

    With a `state_url`, three nodes run, and any of them may be killed.
    """
    panel, upstream = make_panel(size), Upstream()
    upstream.script = panel
    async with open_upstream(upstream) as address:
        place = Place(folder, commands, ENVIRON)
        place.configure(
            admin={"port": 0},
            store={"url": store_url},
            **({"state": {"url": state_url}} if state_url else {}),
            upstreams={"egress": address, "defaults": {"retries": 0}},
            breaker={"failures": 100_000},
            limits={"requests_per_minute": 1_000_000, "concurrent_requests": 1_000},
        )
        account, made = place.new_key(balance=CREDITS)
        with open_fleet(commands) as fleet:
            prepared = _Storm(place, fleet, panel, size, made["key"], account, 3 if state_url else 1)
            async with httpx.AsyncClient(timeout=PATIENCE_S, verify=False) as prepared.client:
                return await prepared.run(store_url)


@dataclass(slots=True)
class _Storm:
    place: Place
    fleet: Fleet
    panel: Panel
    size: Size
    key: str
    account: str
    count: int
    client: httpx.AsyncClient = field(init=False)
    nodes: dict[int, tuple[Process, str, str]] = field(default_factory=dict)
    """The process and both addresses of each node, by its number."""
    kills: int = 0
    resumed_s: float = 0.0
    rss_kb: int = 0
    queries: list[str] = field(default_factory=list)

    async def run(self, store_url: str) -> dict[str, Any]:
        for number in range(self.count):
            await self._start(number)
        cohort = await self._fill()
        self.queries = [await self._begin(cohort) for _ in range(self.size.queries)]
        rng, began = Random(self.size.seed), trio.current_time()
        while not await self._is_over(within_s=self.size.kill_every_s * rng.uniform(0.5, 1.5)):
            if self.kills < self.size.kills_max:
                await self._kill_one(rng)
        took_s = trio.current_time() - began
        for query in self.queries:
            await self._check(query)
        places = await self._everywhere(store_url)
        assert hiding.told(places) == []
        assert any(self.queries[0].encode() in body for body in places.values()), "only the known locations contain it"
        balance = (await self._ask("GET", "/v1/credits/balance"))["data"]
        used = sum(due_of(self.panel, number).paid for number in range(self.size.members)) * self.size.queries
        assert (balance["balance"], balance["held"]) == (CREDITS - used, 0), balance
        self._measure()
        destroyed = await self._destroy(cohort, store_url, places)
        for number in list(self.nodes):
            self.fleet.kill(self.nodes.pop(number)[0])
        verified = await trio.to_thread.run_sync(self.place.json_of, "ledger", "verify")
        assert verified == {"ok": True, "violations": []}
        assert self.resumed_s < RESUMED_S, f"the queries made no progress for {self.resumed_s:.1f} s"
        return {
            "members": self.size.members,
            "kills": self.kills,
            "pages_read": sum(self.panel.reads.values()),
            "pages_paid": used,
            "resumed_s": round(self.resumed_s, 2),
            "took_s": round(took_s, 1),
            "rss_kb_max": self.rss_kb,
            "searched_mb": round(sum(map(len, places.values())) / 1e6),
            "forms": len(hiding.FORMS),
            "members_sealed_for_good": destroyed,
        }

    async def _start(self, number: int) -> None:
        process = self.fleet.start(self.place.config, ENVIRON, name=f"node-{number}")
        line = await process.listening()
        self.nodes[number] = process, line["url"], line["admin_url"]

    async def _kill_one(self, rng: Random) -> None:
        """Kill a node, restart it, and wait for the next stored shard. Record the time without progress."""
        self._measure()
        done, number = await self._done(), rng.choice(sorted(self.nodes))
        self.fleet.kill(self.nodes.pop(number)[0])
        self.kills += 1
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._start, number)
            if self.count > 1:
                await self._until_more(done)
        if self.count == 1:
            began = trio.current_time()  # no query can continue without a node
            await self._until_more(done)
        self.resumed_s = max(self.resumed_s, trio.current_time() - began)

    async def _until_more(self, done: int) -> None:
        while await self._done() == done and not await self._is_over(within_s=0):  # noqa: ASYNC110 - the nodes'
            await trio.sleep(0.02)

    def _measure(self) -> None:
        """Record the highest peak memory of any node."""
        for process, _, _ in self.nodes.values():
            text = Path(f"/proc/{process.pid}/status").read_text()
            peak = next(line for line in text.splitlines() if line.startswith("VmHWM"))
            self.rss_kb = max(self.rss_kb, int(peak.split()[1]))

    async def _fill(self) -> str:
        made = await self._ask("POST", "/v1/cohorts", {"name": "A name to hide"})
        cohort = str(made["data"]["id"])
        for first in range(0, self.size.members, 1_000):
            some = range(first, min(first + 1_000, self.size.members))
            members = [
                {"platform": "bluesky", "handle": handle_of(one), "external_id": f"persön-{one}"} for one in some
            ]
            put = (await self._ask("PUT", f"/v1/cohorts/{cohort}/members", {"members": members}))["data"]
            assert put["inserted"] == len(members)
        assert put["member_count"] == self.size.members
        return cohort

    async def _begin(self, cohort: str) -> str:
        body = {
            "keywords": ["Acme", "whispér nobody"],
            "date_from": iso_at(time.time() - 30 * DAY_S),
            "max_credits": CREDITS,
            "max_items_per_identity": 100,
            "max_pages_per_identity": PAGES,
        }
        query = (await self._ask("POST", f"/v1/cohorts/{cohort}/queries", body))["data"]
        assert query["reserved_credits"] == self.size.members * PAGES
        return str(query["query_id"])

    async def _is_over(self, *, within_s: float) -> bool:
        """Return whether all queries have ended within this time."""
        end = trio.current_time() + within_s
        while True:
            if all([(await self._query(one))["finished_at"] for one in self.queries]):
                return True
            if trio.current_time() >= end:
                return False
            await trio.sleep(min(0.1, within_s))

    async def _done(self) -> int:
        return sum([(await self._query(one))["completed_shard_count"] for one in self.queries])

    async def _query(self, query: str) -> Any:
        return (await self._ask("GET", f"/v1/cohort-queries/{query}"))["data"]

    async def _check(self, query: str) -> None:
        """Check that members are read once and in order, and posts stored once.

        Only pages with posts are charged, once.
        """
        due = [due_of(self.panel, number) for number in range(self.size.members)]
        data, paid = await self._query(query), sum(one.paid for one in due)
        assert (data["status"], data["actual_credits"]) == ("succeeded", paid), data
        assert data["actual_credits"] + data["refunded_credits"] == data["reserved_credits"]
        items, coverage = list[Any](), list[Any]()
        async for page in self._pages(query):
            items += page["items"]
            coverage += page["coverage"]
        assert [(one["external_id"], one["status"], one["pages"]) for one in coverage] == [
            (f"persön-{number}", one.status, one.pages) for number, one in enumerate(due)
        ]
        assert [one["content_id"] for one in items] == [id_ for one in due for id_ in one.content_ids]
        assert data["result_count"] == len(items)
        assert {tuple(one["matched_keywords"]) for one in items} <= {("acme",)}
        progress = data["progress"]
        assert progress["members_completed"] == progress["routes_completed"] == self.size.members
        assert progress["pages_failed"] == sum(one.status == "failed" for one in due)

    async def _pages(self, query: str) -> AsyncIterator[Any]:
        cursor = ""
        while True:
            answer = await self._request("GET", f"/v1/cohort-queries/{query}/results?limit=500{cursor}")
            assert len(answer.content) < PAGE_BYTES
            body = answer.json()
            yield body["data"]
            if not body["pagination"]["has_more"]:
                return
            cursor = f"&cursor={body['pagination']['next_cursor']}"

    async def _said(self, target: str) -> bytes:
        """Return an answer that is visible without access to the cohort."""
        if target.startswith("/"):
            return (await self._request("GET", target)).content
        _, _, admin_url = next(iter(self.nodes.values()))
        return (await self.client.get(f"{admin_url}/{target}")).content

    async def _everywhere(self, store_url: str) -> dict[str, bytes]:
        """Return everything that is visible or stored without access to the cohort, except the config."""
        answers = {target: await self._said(target) for target in PUBLIC}
        places = (
            hiding.files(self.place.folder) | hiding.tables(store_url) | hiding.backup(store_url, self.place.folder)
        )
        return {name: body for name, body in (answers | places).items() if name != "config.toml"}

    async def _destroy(self, cohort: str, store_url: str, places: Mapping[str, bytes]) -> int:
        """Delete a cohort. Check that the node's secret opened its rows before, and opens none afterwards."""
        members, secret = hiding.members_of(store_url, cohort), ENVIRON["SLUICE_SECRET"]
        assert hiding.opened(places, secret, cohort, members[:SOME]) == len(members[:SOME]), "the key must be found"
        assert (await self._request("DELETE", f"/v1/cohorts/{cohort}")).status_code == 204
        (self.place.folder / "backup.db").unlink(missing_ok=True)  # a backup keeps its key, see docs/cohorts.md
        with trio.fail_after(PATIENCE_S):
            while hiding.rows(store_url, "SELECT id FROM cohorts"):  # noqa: ASYNC110 - the nodes'
                await trio.sleep(0.1)
        left = await self._everywhere(store_url)
        assert hiding.opened(left, secret, cohort, members) == 0
        assert not hiding.members_of(store_url, cohort)
        return len(members)

    async def _ask(self, method: str, path: str, body: object = None) -> Any:
        answer = await self._request(method, path, body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def _request(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Return an answer of any live node."""
        content = None if body is None else orjson.dumps(body)
        with trio.fail_after(PATIENCE_S):
            while True:
                for _, url, _ in list(self.nodes.values()):
                    try:
                        answer = await self.client.request(
                            method, url + path, headers={"x-api-key": self.key}, content=content
                        )
                    except httpx.TransportError:
                        continue
                    if answer.status_code != 503:
                        return answer
                await trio.sleep(0.05)
