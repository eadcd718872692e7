"""Discover runs over real platforms' searches, by nodes that are killed periodically, and the checks of the results.

The expected results of a run are computed here from the answers of the searches' own endpoints, independently of the
code under test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import orjson
import trio

from tests.fakes.scripted_upstream import Upstream, open_upstream
from tests.processes.commands import Commands
from tests.processes.fleet import Fleet, open_fleet
from tests.processes.place import Place
from tests.processes.process import Process
from tests.storm.discover.node import Search, searches
from tests.storm.discover.stand_ins import StandIns
from tests.storm.retrying import ask

RUNS: Final = "/v1/prism/discover/runs"
PATIENCE_S: Final = 900.0
PAGES_MAX: Final = 20
"""Pages of a leg (decisions 19)."""
PAGE_ROWS: Final = "&limit=50"
"""The rows per page that a run requests."""
FEWER: Final = {"mastodon": "&limit=40", "discourse": ""}
"""The rows per page for a search that returns fewer, or any number."""
CREDITS: Final = 1_000_000
PROGRAM: Final = "tests.storm.discover.node"


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a storm: runs of this many legs, each keyword on each search."""

    legs: int = 1_000
    runs: int = 1
    keywords: int = 10
    kill_every_s: float = 5.0
    kills_max: int = 10_000
    page_s: float = 0.01
    seed: int = 1

    @property
    def searches(self) -> int:
        """Return the number of searches that a storm of this size needs."""
        return self.legs // self.keywords

    @property
    def words(self) -> list[str]:
        """Return the keywords."""
        return [f"word{number}" for number in range(self.keywords)]


@dataclass(slots=True)
class Expected:
    """The expected results of a run, read page by page from the searches' own endpoints, and merged by the test."""

    pages: int = 0
    rows: dict[str, tuple[set[tuple[str, str, int]], list[Any]]] = field(default_factory=dict)
    """By the identity of each item: its positions (endpoint, keyword and rank), and its content."""

    def take(self, search: Search, keyword: str, items: Sequence[Any]) -> None:
        """Add the results of a search."""
        for rank, item in enumerate(items, 1):
            places, told = self.rows.setdefault(known_by(search.slug, item["post"]), (set(), []))
            if not any(place[:2] == (search.endpoint, keyword) for place in places):  # the best rank counts
                places.add((search.endpoint, keyword, rank))
            told.append(item)


def known_by(slug: str, post: Any) -> str:
    """Return the identity of a post: its URL without insignificant parts, or else its platform and id."""
    if post["url"] is None:
        return f"{slug} {post['id']}"
    address = urlsplit(post["url"])
    host = address.hostname or ""
    return f"{host.removeprefix('www.')}{address.path.rstrip('/')}?{address.query}"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a storm."""

    kills: int
    pages_read: int
    """The number of requested pages, including repetitions after a kill."""
    pages: int
    rows: int
    events: int
    resumed_s: float
    """The longest time from a node's start to the next stored page."""
    stood_s: float
    """The longest time without a stored page, with or without a kill."""


async def storm(
    folder: Path, size: Size, commands: Commands, *, store_url: str | None = None, state_url: str | None = None
) -> Report:
    """Start the runs, and kill nodes periodically until all runs have ended. Then check their rows and costs.

    A store in a file has one node. With a `state_url`, three nodes run.
    """
    upstream = Upstream()
    upstream.script = StandIns(size.page_s).answer
    environ = {"SLUICE_SECRET": "a secret of tests, long enough", "STORM_SEARCHES": str(size.searches)}
    async with open_upstream(upstream) as address:
        place = Place(folder, commands, environ)
        tables: dict[str, Mapping[str, object]] = {
            "upstreams": {"egress": address},
            "limits": {"requests_per_minute": 1_000_000, "concurrent_requests": 1_000},
            "log": {"access": False},
            "admin": {"port": 0},
        }
        if store_url is not None:
            tables["store"] = {"url": store_url}
        if state_url is not None:
            tables["state"] = {"url": state_url}
        place.configure(**tables)
        key, reader = (place.new_key(balance=CREDITS)[1]["key"] for _ in range(2))
        with open_fleet(commands) as fleet:
            nodes = 1 if state_url is None else 3
            return await _Storm(place, fleet, upstream, size, environ, key, reader, nodes).run()


@dataclass(slots=True)
class _Storm:
    place: Place
    fleet: Fleet
    upstream: Upstream
    size: Size
    environ: Mapping[str, str]
    key: str
    reader: str
    """The key of another account, used to call the searches' endpoints."""
    nodes: int
    kills: int = 0
    resumed_s: float = 0.0
    stood_s: float = 0.0
    living: list[tuple[Process, str]] = field(default_factory=list)

    async def run(self) -> Report:
        rng = Random(self.size.seed)
        for number in range(self.nodes):
            await self._start(number)
        runs = [await self._begin() for _ in range(self.size.runs)]
        while not await self._ended(runs, self.size.kill_every_s * rng.uniform(0.5, 1.5)):
            if self.kills < self.size.kills_max:
                process, _ = self.living.pop(rng.randrange(len(self.living)))
                self.fleet.kill(process)
                self.kills += 1
                await self._start(self.kills + self.nodes)
        read, expected = len(self.upstream.requests), await self._expect()
        rows = [await self._check(one, expected) for one in runs]
        events = await self._check_events(runs, expected)
        for process, _ in self.living:
            self.fleet.kill(process)
        verified = await trio.to_thread.run_sync(self.place.json_of, "ledger", "verify")
        assert verified == {"ok": True, "violations": []}
        times = round(self.resumed_s, 1), round(self.stood_s, 1)
        return Report(self.kills, read, expected.pages * self.size.runs, sum(rows), events, *times)

    async def _start(self, number: int) -> None:
        node = self.fleet.start(self.place.config, self.environ, name=f"node-{number}", program=PROGRAM)
        self.living.append((node, (await node.listening())["url"]))

    async def _expect(self) -> Expected:
        """Walk each search of a real platform for each keyword.

        The platform's further names return the same results.
        """
        expected, lists = Expected(), dict[tuple[str, str], tuple[int, list[Any]]]()
        for search in searches(self.size.searches):
            for word in self.size.words:
                if (search.like, word) not in lists:
                    lists[search.like, word] = await self._walk(search, word)
                pages, items = lists[search.like, word]
                expected.pages += pages
                expected.take(search, word, items)
        return expected

    async def _walk(self, search: Search, word: str) -> tuple[int, list[Any]]:
        """Return the pages and the items of a list."""
        items, cursor = list[Any](), ""
        for page in range(1, PAGES_MAX + 1):
            target = f"/v1/{search.endpoint}?query={word}{FEWER.get(search.like, PAGE_ROWS)}{cursor}"
            answer = await self._ask("GET", target, key=self.reader)
            assert answer.status_code == 200, answer.text
            body = answer.json()
            assert body["credits_used"] == 1
            items += body["data"]["items"]
            if not body["pagination"]["has_more"]:
                return page, items
            cursor = f"&cursor={body['pagination']['next_cursor']}"
        return page, items

    async def _begin(self) -> str:
        slugs = [one.slug for one in searches(self.size.searches)]
        body = {
            "keywords": self.size.words,
            "platforms": slugs,
            "max_credits": 10_000,
            "max_rows": 10_000,
            "background": True,
        }
        answer = await self._ask("POST", RUNS, json=body)
        assert answer.status_code == 202, answer.text
        assert answer.json()["data"]["counts"]["legs"]["planned"] == self.size.legs
        run_id: str = answer.json()["data"]["run_id"]
        return run_id

    async def _ended(self, runs: list[str], within_s: float) -> bool:
        """Return whether all runs end within this time, which starts with the first page stored after a kill."""
        spent, began = await self._spent(runs), trio.current_time()
        last, last_at, ends_at = spent, began, began + PATIENCE_S
        while trio.current_time() < ends_at:
            found = [await self._run(one) for one in runs]
            now, kept = trio.current_time(), sum(one["credits"]["spent"] for one in found)
            if all(one["finished_at"] for one in found):
                return True
            if kept > last:
                if last == spent:
                    self.resumed_s, ends_at = max(self.resumed_s, now - began), now + within_s
                self.stood_s, last, last_at = max(self.stood_s, now - last_at), kept, now
            await trio.sleep(0.05)
        return False

    async def _spent(self, runs: list[str]) -> int:
        return sum([(await self._run(one))["credits"]["spent"] for one in runs])

    async def _run(self, run_id: str) -> Any:
        return (await self._ask("GET", f"{RUNS}/{run_id}")).json()["data"]

    async def _check(self, run_id: str, expected: Expected) -> int:
        """Check that each row is stored once, with every position and all its content, and each page charged."""
        run, pages = await self._run(run_id), expected.pages
        assert (run["status"], run["stopped_because"]) == ("completed", None), run
        legs = {"planned": self.size.legs, "done": self.size.legs}
        assert run["counts"]["legs"] == {**legs, "empty": 0, "failed": 0, "skipped": 0, "pending": 0}
        credits_ = run["credits"]
        assert credits_["spent"] == pages
        assert credits_["spent"] + credits_["refunded"] == credits_["reserved"]
        lines = (await self._ask("GET", f"{RUNS}/{run_id}/results.jsonl")).text.splitlines()
        rows = [orjson.loads(line) for line in lines]
        assert len({row["row_id"] for row in rows}) == len(rows) == run["counts"]["rows_kept"]
        found = {known_by(row["platform"], row["record"]["post"]): row for row in rows}
        assert len(found) == len(rows)
        assert found.keys() == expected.rows.keys()
        for name, row in found.items():
            places, told = expected.rows[name]
            assert {(one["endpoint"], one["keyword"], one["rank"]) for one in row["found_in"]} == places
            assert row["record"] in told
        return len(rows)

    async def _check_events(self, runs: list[str], expected: Expected) -> int:
        """Check that each tenth of a run, and then its end, was reported once and in order. Check every payment."""
        answer = await self._ask("GET", "/v1/events?types=discover.*&limit=500")
        events = answer.json()["data"]["items"]
        assert len({one["id"] for one in events}) == len(events)
        for run_id in runs:
            own = [one for one in events if one["data"]["run_id"] == run_id]
            assert [one["type"] for one in own][-1] == "discover.completed"
            assert {one["type"] for one in own[:-1]} == {"discover.progress"}
            tenths = [one["data"]["counts"]["legs"]["done"] * 10 // self.size.legs for one in own[:-1]]
            assert tenths == sorted(set(tenths)), tenths
            assert tenths[-1] == 10
            versions = [one["data"]["version"] for one in own]
            assert versions == sorted(set(versions))
        balance = (await self._ask("GET", "/v1/credits/balance")).json()["data"]
        assert (balance["balance"], balance["held"]) == (CREDITS - expected.pages * len(runs), 0), balance
        return len(events)

    async def _ask(self, method: str, target: str, *, key: str | None = None, **terms: Any) -> httpx.Response:
        """Send a request to a live node."""
        _, url = self.living[0]
        return await ask(method, url + target, key=key or self.key, within_s=PATIENCE_S, **terms)
