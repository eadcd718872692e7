"""Expensive pages and selectors: the CPU time of each is limited, and its sender is refused or charged.

The node is a separate process, its pages come over loopback, and the CPU time is measured on its worker processes.
Before these limits, each page took a worker's 30 seconds and was refunded; selectors of a few letters took hours.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import trio

from tests.fakes.upstream_server import reply
from tests.hostile.bombs import open_bomber
from tests.processes.place import Place
from upstreams.web.reading.selectors import STEPS_MAX
from upstreams.workers.process import CPU_S

pytestmark = pytest.mark.critical
HOST = "site.example.org"
NOWHERE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
TEXT = "<p>A sentence that is long enough to be the text of an article, and then some more of it.</p>" * 5
HIDDEN = "<div " + " ".join(f'a{n}=">"' for n in range(100_000)) + ">"
"""An element with 100,000 attributes, whose cost a count of angle brackets does not reveal."""
PAGES = {
    "attributes": "<div " + " ".join(f"a{n}=1" for n in range(100_000)) + ">",
    "rows": "<table>" + "<tr><td>x" * 20_000,
    "links inside of each other": "<a href=x>" * 100_000,
    "plain-links": "".join(f'<a href="/p/{n}">link {n}</a>\n' for n in range(50_000)),
    "links of a list": "<ul>" + "".join(f"<li><a href=/p/{n}>link {n}</a>" for n in range(50_000)),
    "headings": "".join(f"<h2>head {n}</h2>text" for n in range(50_000)),
    "spans": "<span>x</span>" * 100_000,
    "titles": "<title>T</title>" * 100_000,
    "scripts and styles": "<script>1</script><style>a</style>t" * 60_000,
    "items": "<ul>" + "<li>x" * 100_000,
    "cells": "<table><tr>" + "<td>x" * 200_000,
    "elements": "<br>" * 1_000_000,
}


@dataclass(slots=True)
class Scene:
    """A node, and the targets that it has requested from its pages' host."""

    client: httpx.AsyncClient
    url: str
    key: str
    pid: int
    asked: list[str]

    async def scrape(self, page: str, **values: str) -> httpx.Response:
        """Return the node's answer for a page."""
        more = "".join(f"&{name}={quote(value)}" for name, value in values.items())
        address = quote(f"https://{HOST}/{quote(page)}", safe="")
        target = f"{self.url}/v1/web/scrape?url={address}&max_age=0{more}"
        return await self.client.get(target, headers={"x-api-key": self.key})

    def workers_cpu_s(self) -> float:
        """Return the CPU time of the node's child processes so far, including ended ones."""
        stats = [_stat(place) for place in Path("/proc").glob("[0-9]*")]
        ticks = sum(sum(own) for _, parent, own, _ in stats if parent == self.pid)
        ticks += sum(sum(ended) for pid, _, _, ended in stats if pid == self.pid)
        return ticks / os.sysconf("SC_CLK_TCK")


def _stat(place: Path) -> tuple[int, int, tuple[int, int], tuple[int, int]]:
    """Return the ids of a process and its parent, its CPU time, and the CPU time of its ended children."""
    try:
        words = (place / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # the process has ended
        return 0, 0, (0, 0), (0, 0)
    return int(place.name), int(words[1]), (int(words[11]), int(words[12])), (int(words[13]), int(words[14]))


@asynccontextmanager
async def open_scene(place: Place, pages: dict[str, str]) -> AsyncIterator[Scene]:
    """Check the ledger when the block ends."""
    bodies = {quote(name): f"<html><body>{TEXT}{body}</body></html>".encode() for name, body in pages.items()}
    asked: list[str] = []

    def choose(target: str) -> bytes:
        asked.append(target)
        name = target.rpartition("/")[2]
        return reply(bodies[name], "Content-Type: text/html") if name in bodies else NOWHERE

    with trio.fail_after(500):
        async with open_bomber(choose) as upstream:
            place.configure(upstreams={"egress": upstream.url, "defaults": {"retries": 0, "timeout_s": 60}})
            _, made = place.new_key(balance=1_000)
            async with httpx.AsyncClient(timeout=120, verify=False) as client:
                with place.serve() as node:
                    yield Scene(client, node.url, made["key"], node.popen.pid, asked)
        assert place.json_of("ledger", "verify")["ok"] is True


def reason_of(answer: httpx.Response) -> Any:
    return answer.json()["error"]["details"]["reason"]


async def test_hostile_pages_are_bounded_and_charged(place: Place) -> None:
    async with open_scene(place, PAGES) as scene:
        costs = {}
        for name in PAGES:
            before_s = scene.workers_cpu_s()
            answer = await scene.scrape(name, formats="markdown,links")
            costs[name] = scene.workers_cpu_s() - before_s
            assert answer.json()["credits_used"] == 1, (name, answer.text[:500])
            assert answer.status_code == 200 or reason_of(answer) == "page_too_costly", (name, answer.text[:500])
            if name == "plain-links":
                assert len(answer.json()["data"]["page"]["links"]) == 10_000
        assert max(costs.values()) < CPU_S + 4.0, costs  # plus the start of another process
        assert sum(costs.values()) < len(costs) * CPU_S, costs


async def test_page_that_exceeds_its_cpu_time_is_charged_once_and_remembered(place: Place) -> None:
    async with open_scene(place, {"hidden": HIDDEN}) as scene:
        first = await scene.scrape("hidden")
        assert (first.status_code, reason_of(first), first.json()["credits_used"]) == (404, "page_too_costly", 1)
        again = first
        while again.json()["credits_used"]:  # on a busy machine, its time limit may end before its CPU limit
            asked, before_s = len(scene.asked), scene.workers_cpu_s()
            again = await scene.scrape("hidden")
            assert (again.status_code, reason_of(again)) == (404, "page_too_costly")
        assert len(scene.asked) == asked, "the page was not fetched"
        assert scene.workers_cpu_s() - before_s < 1.0
        other = await scene.scrape("hidden", formats="raw_html", exclude_tags="nav")
        assert other.json()["credits_used"] == 1, "the verdict applies to this request, not to others for the same page"


async def test_expensive_selectors_are_bounded_and_excessive_ones_rejected_for_free(place: Place) -> None:
    chain = " ~ ".join(["p"] * 20)
    nth = "p" + ":nth-last-of-type(2n+1)" * 15
    async with open_scene(place, {"plain": "<p>x</p>" * 5_000}) as scene:
        for selectors in (chain, nth, f"{chain},{nth}"):
            before_s = scene.workers_cpu_s()
            answer = await scene.scrape("plain", exclude_tags=selectors)
            assert (answer.status_code, answer.json()["credits_used"]) == (200, 1), answer.text[:300]
            assert scene.workers_cpu_s() - before_s < CPU_S
        asked = len(scene.asked)
        for name in ("include_tags", "exclude_tags"):
            for dear in (" ~ ".join(["p"] * (STEPS_MAX + 1)), ",".join([chain] * 6), "p:nth-last-of-type(x)"):
                refused = await scene.scrape("plain", **{name: dear})
                details = refused.json()["error"]["details"]
                assert (refused.status_code, details["param"], details["reason"]) == (400, name, "invalid_param")
                assert refused.json()["credits_used"] == 0
        assert len(scene.asked) == asked
