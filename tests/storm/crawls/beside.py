"""Billed misses while many crawls read pages beside them, by turns with the same misses while those are paused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import trio

from tests.fakes.scripted_upstream import Told, Upstream, open_upstream
from tests.processes.commands import Commands
from tests.processes.fleet import open_fleet
from tests.processes.place import Place
from tests.storm.crawls.run import ENVIRON, HTML

RATIO_MAX: Final = 1.5
"""How many times the p99 of misses may be with crawls beside them."""
SETTLE_S: Final = 1.0
"""The pause after crawls were paused or let go on."""
PATIENCE_S: Final = 60.0
LINE: Final = "A line of a page that is read beside calls which have nothing to do with it. "
MISS: Final = "/v1/github/profile?handle=octocat{}"
"""Each of a turn with a number of its own: identical calls that overlap are one."""


@dataclass(frozen=True, slots=True)
class Besides:
    """The size of a run: so many turns with and without crawls, each of so many misses."""

    crawls: int = 20
    turns: int = 6
    misses: int = 300
    every_s: float = 0.02
    lines: int = 200


@dataclass(slots=True)
class Compared:
    """The milliseconds of misses with crawls beside them and without, and the pages that were read meanwhile."""

    with_ms: list[float] = field(default_factory=list)
    without_ms: list[float] = field(default_factory=list)
    pages: int = 0
    failed: Counter[int] = field(default_factory=Counter)
    """Answers to misses that are none, by status."""

    @property
    def ratio(self) -> float:
        """The p99 with crawls over that without."""
        return p99(self.with_ms) / p99(self.without_ms)

    def flaws(self) -> list[str]:
        """What speaks against it."""
        return [
            *([f"the p99 is {self.ratio:.2f} times as long"] if self.ratio > RATIO_MAX else []),
            *([f"misses failed: {dict(self.failed)}"] if self.failed else []),
            *([] if self.pages else ["no page was read beside them"]),
        ]


def p99(times_ms: Sequence[float]) -> float:
    """The 99th percentile."""
    return sorted(times_ms)[int(len(times_ms) * 0.99)]


def site(lines: int, read: Counter[str]) -> Any:
    """A script of hosts `sN.example.com`, each with pages that lead to ever more; other hosts are the sandbox's."""
    text = f"<p>{LINE * 4}</p>" * lines

    def answer(asked: str) -> Told | None:
        host, _, path = asked.partition("/")
        if not host.endswith(".example.com"):
            return None
        if not path.startswith("p") and path:
            return Told(404, b"", HTML)
        read[host] += 1
        number = int(path[1:] or 0) if path else 0
        links = "".join(f'<a href="/p{4 * number + below}">Page</a> ' for below in range(1, 5))
        return Told(200, f"<html><body><main>{text}{links}</main></body></html>".encode(), HTML)

    return answer


async def compare(folder: Path, size: Besides, commands: Commands) -> Compared:
    """Measure by turns; every crawl is cancelled at the end."""
    upstream, read = Upstream(), Counter[str]()
    upstream.script = site(size.lines, read)
    async with open_upstream(upstream) as egress:
        place = Place(folder, commands, ENVIRON)
        place.configure(
            upstreams={"egress": egress},
            limits={"requests_per_minute": 1_000_000, "concurrent_requests": 1_000},
            log={"access": False},
        )
        keys = [_new_key(place) for _ in range(size.crawls)]
        with open_fleet(commands) as fleet:
            node = fleet.start(place.config, ENVIRON)
            url = (await node.listening())["url"]
            async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, verify=False) as client:
                return await _by_turns(client, keys, size, read)


def _new_key(place: Place) -> str:
    account = place.told("account", "create", "--name", "storm", "--plan", "enterprise", "--credits", "1000000")["id"]
    key: str = place.told("key", "create", "--account", account)["key"]
    return key


async def _by_turns(client: httpx.AsyncClient, keys: Sequence[str], size: Besides, read: Counter[str]) -> Compared:
    jobs, compared = dict[str, str](), Compared()
    for place, key in enumerate(keys):
        body = {"url": f"https://s{place}.example.com/", "limit": 10_000}
        begun = await client.post("/v1/web/crawl", headers={"x-api-key": key}, json=body)
        assert begun.status_code == 202, begun.text
        jobs[key] = f"/v1/web/jobs/{begun.json()['data']['job_id']}"
    await _misses(client, keys[0], size, [], Counter())  # what is loaded at the first call is nobody's
    for turn in range(size.turns):
        crawls = turn % 2 == 0
        for key, path in jobs.items():
            status = {"status": "running" if crawls else "paused"}
            changed = await client.patch(path, headers={"x-api-key": key}, json=status)
            assert changed.status_code == 200, changed.text
        await trio.sleep(SETTLE_S)
        before = read.total()
        await _misses(client, keys[0], size, compared.with_ms if crawls else compared.without_ms, compared.failed)
        compared.pages += read.total() - before if crawls else 0
    for key, path in jobs.items():
        await client.delete(path, headers={"x-api-key": key})
    return compared


async def _misses(
    client: httpx.AsyncClient, key: str, size: Besides, times_ms: list[float], failed: Counter[int]
) -> None:
    """Send misses at an even pace, whatever the answers take."""

    async def miss(number: int) -> None:
        began = trio.current_time()
        answer = await client.get(MISS.format(number), headers={"x-api-key": key, "cache-control": "no-cache"})
        times_ms.append(1_000 * (trio.current_time() - began))
        if answer.status_code != 200 or answer.json()["credits_used"] != 1:
            failed[answer.status_code] += 1

    async with trio.open_nursery() as nursery:
        for number in range(size.misses):
            nursery.start_soon(miss, number)
            await trio.sleep(size.every_s)
