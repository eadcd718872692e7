"""`python -m tests.storm.reading`: 100 concurrent pages of 2 MB, and `/v1/status` meanwhile, which must not wait.

A refused client (503 with Retry-After) retries until each page has arrived or the time is over.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import trio

from tests.fakes.timed_node import open_timed_node
from tests.fakes.upstream_server import Peer, open_upstream_server, reply

STATUS_MS_MAX: Final = 100.0
EVERY_S: Final = 0.05
RUN_S: Final = 600.0
KEYS: Final = 4
"""The number of requests of a key that run concurrently."""


@dataclass(slots=True)
class Report:
    """The answers by status, and the milliseconds that `/v1/status` took at the same time.

    `unsaid` counts refusals that have no Retry-After, or that were charged.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    unsaid: int = 0
    waited_ms: list[float] = field(default_factory=list)

    @property
    def worst_ms(self) -> float:
        """Return the 99th percentile of the waits."""
        return sorted(self.waited_ms)[int(len(self.waited_ms) * 0.99)]


def page_of(size: int) -> bytes:
    """Return a page of this length with paragraphs and links."""
    line = b"<p>Some words of a page that has many of them, and a <a href='/x'>link</a> to another.</p>"
    return b"<html><body><main>" + line * (size // len(line)) + b"</main></body></html>"


async def storm(folder: Path, pages: int, size: int) -> Report:
    """Request all pages concurrently, and the status repeatedly until they have arrived."""
    report, page = Report(), reply(page_of(size), "Content-Type: text/html")

    async def serve(peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.send(reply(status="404 Not Found") if b"robots.txt" in request else page)

    async with open_upstream_server(serve) as upstream:
        opening = open_timed_node(folder, egress=upstream.url, limits={"requests_per_minute": 1_000_000})
        async with opening as node, httpx.AsyncClient(timeout=RUN_S, verify=False) as client:
            account = node.opened.account
            keys = [(await node.call(node.opened.new_key, account))[0] for _ in range(KEYS)]

            async def read(place: int) -> None:
                url = f"{node.opened.url}/v1/web/scrape?url=https://h{place}.example.org/"
                while True:
                    answer = await client.get(url, headers={"x-api-key": keys[place % KEYS]})
                    report.statuses[answer.status_code] += 1
                    if answer.status_code != 503:
                        return
                    told = answer.headers.get("retry-after", "")
                    report.unsaid += not told or answer.json()["credits_used"] != 0
                    await trio.sleep(float(told or 1))

            async def watch() -> None:
                while True:
                    began = trio.current_time()
                    await client.get(f"{node.opened.url}/v1/status")
                    report.waited_ms.append(1_000 * (trio.current_time() - began))
                    await trio.sleep(EVERY_S)

            with trio.move_on_after(RUN_S):
                async with trio.open_nursery() as outer:
                    outer.start_soon(watch)
                    async with trio.open_nursery() as inner:
                        for place in range(pages):
                            inner.start_soon(read, place)
                    outer.cancel_scope.cancel()
    return report


def main() -> int:
    """Run the storm, and print the verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.reading", description=__doc__)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=2_000_000, dest="size")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = trio.run(partial(storm, Path(folder), chosen.pages, chosen.size))
    came, others = report.statuses[200], set(report.statuses) - {200, 503}
    print(f"{came} of {chosen.pages} pages arrived; answers by status: {dict(report.statuses)}", end="; ")
    print(f"/v1/status p99 {report.worst_ms:.1f} ms")
    flaws = [
        f"{chosen.pages - came} pages did not come in {RUN_S:.0f} s" if came < chosen.pages else "",
        f"answers of status {sorted(others)}" if others else "",
        f"{report.unsaid} were not told when to come back, or paid" if report.unsaid else "",
        f"the status took above {STATUS_MS_MAX:.0f} ms" if report.worst_ms >= STATUS_MS_MAX else "",
    ]
    print("; ".join(filter(None, flaws)) or "every page arrived, and the loop was never blocked")
    return 1 if any(flaws) else 0


if __name__ == "__main__":
    sys.exit(main())
