"""Crawls of a site on loopback by a node that is killed periodically, and the checks of their results and costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import httpx
import orjson
import trio

from tests.fakes.scripted_upstream import ScriptedAnswer, Upstream, open_upstream
from tests.processes.commands import Commands
from tests.processes.fleet import Fleet, open_fleet
from tests.processes.place import Place
from tests.storm.retrying import ask

HOST = "site.example.com"
HOME = f"https://{HOST}/"
WIDTH = 12
"""The number of links from a page to pages below it."""
PATIENCE_S = 600.0
ENVIRON = {"SLUICE_SECRET": "a secret of tests, long enough"}
HTML = {"content-type": "text/html; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a storm."""

    pages: int = 2_000
    crawls: int = 1
    kill_every_s: float = 5.0
    kills_max: int = 10_000
    """The number of kills; after them, the node keeps running."""
    page_s: float = 0.02
    seed: int = 1


@dataclass(slots=True)
class Site:
    """A site of this many pages: page n links to `WIDTH` pages from `WIDTH * n + 1` on. Counts concurrent readers."""

    pages: int
    page_s: float
    reads: Counter[int] = field(default_factory=Counter)
    under_way: int = 0
    most_at_once: int = 0

    def answer(self, asked: str) -> ScriptedAnswer:
        """Return the page at an address, or a 404."""
        path = asked.removeprefix(f"{HOST}/").partition("?")[0]
        number = 0 if not path else int(path[1:]) if path[:1] == "p" and path[1:].isdigit() else -1
        if not 0 <= number < self.pages:
            return ScriptedAnswer(404, b"", HTML)
        self.reads[number] += 1
        links = "".join(f'<li><a href="/p{below}">Page {below}</a></li>' for below in self.below(number))
        text = f"<p>This is page {number} of a site that is read while its reader is killed.</p>" * 3
        body = f"<html><head><title>Page {number}</title></head><body><main>{text}<ul>{links}</ul></main></body></html>"
        return ScriptedAnswer(200, body.encode(), HTML, self.page_s)

    def below(self, number: int) -> range:
        """Return the pages that a page links to."""
        return range(WIDTH * number + 1, min(self.pages, WIDTH * number + WIDTH + 1))

    def in_order(self) -> list[tuple[int, str]]:
        """Return the depth and the address of every page, breadth first by number."""
        depths = {0: 0}
        for number in range(self.pages):
            depths |= dict.fromkeys(self.below(number), depths[number] + 1)
        return [(depths[number], f"{HOME}p{number}" if number else HOME) for number in range(self.pages)]


class WatchedUpstream(Upstream):
    """Like `Upstream`, but counts the pages that are in progress at the same time."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.script = site.answer
        self._site = site

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        site = self._site
        site.under_way += 1
        site.most_at_once = max(site.most_at_once, site.under_way)
        try:
            await super().__call__(scope, receive, send)
        finally:
            site.under_way -= 1


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a storm."""

    kills: int
    pages_read: int
    """The number of pages requested from the site, including repetitions after a kill."""
    most_at_once: int
    resumed_s: float
    """The longest time from a node's start to the next page that it stored."""


async def storm(folder: Path, size: Size, commands: Commands) -> Report:
    """Crawl, killing the node periodically until all crawls have ended, then check results and costs."""
    site = Site(size.pages, size.page_s)
    async with open_upstream(WatchedUpstream(site)) as address:
        place = Place(folder, commands, ENVIRON)
        place.configure(
            upstreams={"egress": address},
            limits={"requests_per_minute": 1_000_000, "concurrent_requests": 1_000},
            log={"access": False},
        )
        account = place.json_of("account", "create", "--name", "storm", "--credits", "1000000")["id"]
        key = place.json_of("key", "create", "--account", account)["key"]
        with open_fleet(commands) as fleet:
            return await _Storm(place, fleet, site, size, key, account).run()


class _Look(NamedTuple):
    """The state of all crawls: how many pages are stored, and whether all crawls have ended."""

    done: int
    is_over: bool


@dataclass(slots=True)
class _Storm:
    place: Place
    fleet: Fleet
    site: Site
    size: Size
    key: str
    account: str
    kills: int = 0
    resumed_s: float = 0.0

    async def run(self) -> Report:
        jobs, rng = list[str](), Random(self.size.seed)
        while True:
            self.place.bury()
            node = self.fleet.start(self.place.config, ENVIRON)
            url = (await node.listening())["url"]
            if not jobs:
                jobs = [await self._begin(url) for _ in range(self.size.crawls)]
            life_s = self.size.kill_every_s * rng.uniform(0.5, 1.5) if self.kills < self.size.kills_max else PATIENCE_S
            if await self._ended(url, jobs, life_s):
                for job in jobs:
                    await self._check(url, job)
                break
            self.fleet.kill(node)
            self.kills += 1
        verified = await trio.to_thread.run_sync(self.place.json_of, "ledger", "verify")
        assert verified == {"ok": True, "violations": []}
        return Report(self.kills, sum(self.site.reads.values()), self.site.most_at_once, self.resumed_s)

    async def _begin(self, url: str) -> str:
        body = {"url": HOME, "limit": self.size.pages}
        answer = await self._ask("POST", f"{url}/v1/web/crawl", json=body)
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["data"]["job_id"]
        return job_id

    async def _ended(self, url: str, jobs: list[str], within_s: float) -> bool:
        """Return whether all crawls end within this time, which starts with the first page that this process stores."""
        done, began = (await self._look(url, jobs)).done, trio.current_time()
        while (look := await self._look(url, jobs)).done == done and not look.is_over:  # noqa: ASYNC110 - the node's
            await trio.sleep(0.02)
        self.resumed_s = max(self.resumed_s, trio.current_time() - began)
        with trio.move_on_after(within_s):
            while not (await self._look(url, jobs)).is_over:  # noqa: ASYNC110 - as above
                await trio.sleep(0.1)
            return True
        return False

    async def _look(self, url: str, jobs: list[str]) -> _Look:
        """Return the stored pages of all crawls, and whether they have ended."""
        found = [(await self._ask("GET", f"{url}/v1/web/jobs/{job}")).json()["data"] for job in jobs]
        return _Look(sum(one["progress"]["done"] for one in found), all(one["finished_at"] for one in found))

    async def _check(self, url: str, job: str) -> None:
        """Check that each page is stored once, in its order and at its depth, and charged once."""
        data = (await self._ask("GET", f"{url}/v1/web/jobs/{job}")).json()["data"]
        assert data["status"] == "completed", data
        credits_ = data["credits"]
        assert (credits_["reserved"], credits_["used"], credits_["refunded"]) == (self.size.pages, self.size.pages, 0)
        lines = (await self._ask("GET", f"{url}/v1/web/jobs/{job}/results.jsonl")).text.splitlines()
        rows = [orjson.loads(line) for line in lines]
        assert [(row["depth"], row["url"]) for row in rows] == self.site.in_order()
        assert sum(row["credits_used"] for row in rows) == self.size.pages
        moved = (await self._ask("GET", f"{url}/v1/credits/transactions?limit=100")).json()["data"]["items"]
        assert sum(one["amount"] for one in moved if one["type"] in ("deduction", "refund")) == -(
            self.size.pages * self.size.crawls
        )

    async def _ask(self, method: str, url: str, **terms: Any) -> httpx.Response:
        return await ask(method, url, key=self.key, within_s=PATIENCE_S, **terms)
