"""Crawls of pages with thousands of long links and a hundred patterns do not slow down another account's reads.

The node runs in a separate process, and the site uses raw sockets on loopback. Only the last few links of a page match
the patterns, so every wave examines all of them. Before worker processes did the planning, a reader thread of the store
did it, and another account's read took up to half a second.
"""

from __future__ import annotations

from functools import partial

import httpx
import pytest
import trio

from tests.fakes.scripted_upstream import ScriptedAnswer, Upstream, open_upstream
from tests.hostile.test_long_reads import Reads, ask_on
from tests.processes.place import Place, Served

HOST = "site.example.com"
CRAWLS = 8
PAGES = 6
LINKS = 1_950
"""The number of links per page that no pattern accepts; fewer than a crawl examines."""
PATTERNS = [f"/x/*a*b*c*d*e*{n}*/f*g*" for n in range(50)]
SHARE_S = 0.2
"""The maximum CPU seconds of the node while the other account's read waits. An earlier version used up to 0.5."""
_LONG = "abcde/" * 50


def site(asked: str) -> ScriptedAnswer:
    """Return a page of links; the last ones lead to further such pages."""
    name = asked.removeprefix(f"{HOST}/").strip("/").replace("/", "-") or "home"
    links = "".join(f'<a href="/x/{name}/{n}/{_LONG}">a</a>' for n in range(LINKS))
    more = "".join(f'<a href="/good/{name}-{n}/">b</a>' for n in range(3))
    text = "<p>A text that is long enough to be the text of a page, and says little.</p>"
    html = f"<html><title>{name}</title><body><main>{text}{links}{more}</main></body></html>"
    return ScriptedAnswer(200, html.encode(), {"content-type": "text/html"})


async def crawl(client: httpx.AsyncClient, node: Served, key: str) -> dict[str, int]:
    """Begin a crawl and wait for its end. Return its progress."""
    headers = {"x-api-key": key}
    body = {
        "url": f"https://{HOST}/",
        "limit": PAGES,
        "include_paths": [*PATTERNS[:49], "/good/*"],
        "exclude_paths": PATTERNS,
        "formats": ["links"],
    }
    begun = await client.post(f"{node.url}/v1/web/crawl", headers=headers, json=body)
    assert begun.status_code == 202, begun.text
    while True:
        job = (await client.get(begun.json()["data"]["links"]["job"], headers=headers)).json()["data"]
        if job["finished_at"] is not None:
            assert job["status"] == "completed", job
            progress: dict[str, int] = job["progress"]
            return progress
        await trio.sleep(0.2)


@pytest.mark.critical
async def test_crawls_with_many_long_links_hardly_delay_another_account(place: Place) -> None:
    upstream, meanwhile = Upstream(), Reads()
    upstream.script = site
    with trio.fail_after(400):
        async with open_upstream(upstream) as address, httpx.AsyncClient(timeout=120, verify=False) as client:
            place.configure(
                upstreams={"egress": address}, limits={"requests_per_minute": 100_000}, log={"access": False}
            )
            _, its = place.new_key(balance=1_000)
            _, other = place.new_key()
            with place.serve() as node:
                async with trio.open_nursery() as reading:
                    reading.start_soon(ask_on, client, node, other["key"], meanwhile)
                    async with trio.open_nursery() as crawling:
                        for _ in range(CRAWLS):
                            crawling.start_soon(partial(check, client, node, its["key"]))
                    reading.cancel_scope.cancel()
                assert node.events("job_failed") == []
    assert set(meanwhile.statuses) == {200}
    assert max(meanwhile.cpu_s) < SHARE_S, meanwhile
    print(f"p95 {meanwhile.p95_s:.3f} s, {meanwhile.cpu_p95_s:.2f} s of CPU, most {max(meanwhile.cpu_s):.2f} s of CPU")


async def check(client: httpx.AsyncClient, node: Served, key: str) -> None:
    progress = await crawl(client, node, key)
    assert progress["done"] == PAGES
