"""Discover runs over many searches on loopback, by nodes that are killed every so often; and the proof of what is left.

What a run has to bring is worked out here from what the searches give, apart from the code that it proves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import parse_qs

import httpx
import orjson
import trio

from tests.fakes.scripted_upstream import Told, Upstream, open_upstream
from tests.processes.commands import Commands
from tests.processes.fleet import Fleet, open_fleet
from tests.processes.place import Place
from tests.processes.process import Process

RUNS: Final = "/v1/prism/discover/runs"
PATIENCE_S: Final = 900.0
ROWS: Final = 60
"""Rows of a leg: two pages."""
PAGES: Final = 2
PAGE_ROWS: Final = 50
POOL: Final = 4_000
"""Stories that all legs share."""
PROGRAM: Final = "tests.storm.discover.node"


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a storm: runs of so many legs, each keyword on each search."""

    legs: int = 1_000
    runs: int = 1
    keywords: int = 20
    kill_every_s: float = 5.0
    kills_max: int = 10_000
    page_s: float = 0.01
    seed: int = 1

    @property
    def searches(self) -> int:
        """How many searches that takes."""
        return self.legs // self.keywords

    @property
    def words(self) -> list[str]:
        """The keywords."""
        return [f"word{number}" for number in range(self.keywords)]


@dataclass(slots=True)
class Searches:
    """What the searches give, and how often they were asked for a page."""

    size: Size
    reads: Counter[tuple[str, str, int]] = field(default_factory=Counter)

    def numbers(self, host: str, word: str) -> range:
        """The stories that a search has for a keyword, best first."""
        begin = (int(host[6 : host.index(".")]) * 41 + int(word[4:]) * 97) % POOL
        return range(begin, begin + ROWS)

    def answer(self, asked: str) -> Told:
        """A page of a search."""
        place, _, query = asked.partition("?")
        host, sent = place.partition("/")[0], {name: one[0] for name, one in parse_qs(query).items()}
        page, numbers = int(sent.get("page", "0")), self.numbers(host, sent["query"])
        self.reads[host, sent["query"], page] += 1
        hits = [story(one) for one in numbers[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]]
        body = {"hits": hits, "nbHits": ROWS, "page": page, "nbPages": PAGES}
        return Told(200, orjson.dumps(body), delay_s=self.size.page_s)

    def expected(self) -> dict[str, set[tuple[str, str, int]]]:
        """Where each story is found: by its number, the endpoint, the keyword and the rank."""
        found: dict[str, set[tuple[str, str, int]]] = {}
        for search in range(1, self.size.searches + 1):
            for word in self.size.words:
                for rank, number in enumerate(self.numbers(f"search{search}.example.com", word), 1):
                    found.setdefault(str(number), set()).add((f"search{search}/search", word, rank))
        return found


def story(number: int) -> Mapping[str, object]:
    """A story as Hacker News' search tells it."""
    return {
        "objectID": str(number),
        "story_id": number,
        "title": f"The story number {number} of a storm",
        "author": f"user{number % 7}",
        "points": number,
        "created_at": "2026-11-01T12:00:00Z",
        "created_at_i": 1_793_534_400,
        "_tags": ["story", f"story_{number}"],
    }


@dataclass(frozen=True, slots=True)
class Report:
    """The end of a storm."""

    kills: int
    pages_read: int
    """Pages that were asked for; those that a kill cut short were asked for again."""
    pages: int
    rows: int
    events: int
    resumed_s: float
    """The longest time from a node's start to the next page that was kept."""
    stood_s: float
    """The longest time in which no page was kept, a kill in it or not."""


async def storm(
    folder: Path, size: Size, commands: Commands, *, store_url: str | None = None, state_url: str | None = None
) -> Report:
    """Run, and kill nodes every so often until all runs have ended; then look at what they kept and cost.

    One node on a file; three where there is a `state_url`.
    """
    searches, upstream = Searches(size), Upstream()
    upstream.script = searches.answer
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
        account = place.told("account", "create", "--name", "storm", "--credits", "1000000")["id"]
        key = place.told("key", "create", "--account", account)["key"]
        with open_fleet(commands) as fleet:
            nodes = 1 if state_url is None else 3
            return await _Storm(place, fleet, searches, size, environ, key, nodes=nodes).blow()


@dataclass(slots=True)
class _Storm:
    place: Place
    fleet: Fleet
    searches: Searches
    size: Size
    environ: Mapping[str, str]
    key: str
    nodes: int
    kills: int = 0
    resumed_s: float = 0.0
    stood_s: float = 0.0
    living: list[tuple[Process, str]] = field(default_factory=list)

    async def blow(self) -> Report:
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
        rows = [await self._check(one) for one in runs]
        events = await self._check_events(runs)
        for process, _ in self.living:
            self.fleet.kill(process)
        verified = await trio.to_thread.run_sync(self.place.told, "ledger", "verify")
        assert verified == {"ok": True, "violations": []}
        pages = PAGES * self.size.legs * self.size.runs
        read = sum(self.searches.reads.values())
        return Report(self.kills, read, pages, sum(rows), events, round(self.resumed_s, 1), round(self.stood_s, 1))

    async def _start(self, number: int) -> None:
        node = self.fleet.start(self.place.config, self.environ, name=f"node-{number}", program=PROGRAM)
        self.living.append((node, (await node.listening())["url"]))

    async def _begin(self) -> str:
        body = {"keywords": self.size.words, "max_credits": 10_000, "max_rows": 10_000, "background": True}
        answer = await self._ask("POST", RUNS, json=body)
        assert answer.status_code == 202, answer.text
        assert answer.json()["data"]["counts"]["legs"]["planned"] == self.size.legs
        run_id: str = answer.json()["data"]["run_id"]
        return run_id

    async def _ended(self, runs: list[str], within_s: float) -> bool:
        """Whether all runs end within this time, which begins with the first page that is kept after a kill."""
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

    async def _check(self, run_id: str) -> int:
        """Each row once, with every place where it was found; each leg done and each page paid."""
        run, pages = await self._run(run_id), PAGES * self.size.legs
        assert (run["status"], run["stopped_because"]) == ("completed", None), run
        legs = {"planned": self.size.legs, "done": self.size.legs}
        assert run["counts"]["legs"] == {**legs, "empty": 0, "failed": 0, "skipped": 0, "pending": 0}
        credits_ = run["credits"]
        assert credits_["spent"] == pages
        assert credits_["spent"] + credits_["refunded"] == credits_["reserved"]
        lines = (await self._ask("GET", f"{RUNS}/{run_id}/results.jsonl")).text.splitlines()
        rows = [orjson.loads(line) for line in lines]
        assert len({row["row_id"] for row in rows}) == len(rows) == run["counts"]["rows_kept"]
        found = {
            row["record"]["post"]["id"]: {(one["endpoint"], one["keyword"], one["rank"]) for one in row["found_in"]}
            for row in rows
        }
        assert len(found) == len(rows)
        assert found == self.searches.expected()
        return len(rows)

    async def _check_events(self, runs: list[str]) -> int:
        """Each tenth of each run once, in order, then its end, once; all that was paid stands in the ledger."""
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
        moved = (await self._ask("GET", "/v1/credits/transactions?limit=100")).json()["data"]["items"]
        paid = sum(one["amount"] for one in moved if one["type"] in ("deduction", "refund"))
        assert paid == -PAGES * self.size.legs * self.size.runs
        return len(events)

    async def _ask(self, method: str, target: str, **terms: Any) -> httpx.Response:
        """Ask a living node."""
        _, url = self.living[0]
        async with httpx.AsyncClient(timeout=PATIENCE_S, verify=False) as client:
            return await client.request(method, url + target, headers={"x-api-key": self.key}, **terms)
