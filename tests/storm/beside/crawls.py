"""Crawls that run until they are stopped: the pages of each site always lead to more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import httpx

from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.storm.beside.compare import BackgroundJobs
from tests.storm.crawls.run import HTML
from upstreams.workers.pool import PROCESSES_MAX

LINE = "A line of a page that is read beside calls which have nothing to do with it. "
DOMAIN = ".example.com"
MISS_S = 0.02
"""The upstream's time for a miss, similar to a fast platform."""


def crawls(count: int, *, lines: int = 200) -> BackgroundJobs:
    """Return this many crawls, one per account; their pages have this many lines."""
    read = Counter[str]()
    text = f"<p>{LINE * 4}</p>" * lines

    def answer(asked: str) -> ScriptedAnswer | None:
        host, _, path = asked.partition("/")
        if not host.endswith(DOMAIN):
            return None
        if not path.startswith("p") and path:
            return ScriptedAnswer(404, b"", HTML)
        read[host] += 1
        number = int(path[1:] or 0) if path else 0
        links = "".join(f'<a href="/p{4 * number + below}">Page</a> ' for below in range(1, 5))
        return ScriptedAnswer(200, f"<html><body><main>{text}{links}</main></body></html>".encode(), HTML)

    return BackgroundJobs(count, _begin, answer, read, miss_s=MISS_S, workers=PROCESSES_MAX)


async def _begin(client: httpx.AsyncClient, keys: Sequence[str]) -> dict[str, str]:
    jobs = {}
    for number, key in enumerate(keys):
        body = {"url": f"https://s{number}{DOMAIN}/", "limit": 10_000}
        begun = await client.post("/v1/web/crawl", headers={"x-api-key": key}, json=body)
        assert begun.status_code == 202, begun.text
        jobs[f"/v1/web/jobs/{begun.json()['data']['job_id']}"] = key
    return jobs
