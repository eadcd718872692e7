"""Free reads of large stored results (item 10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from tests.hostile.neighbours.attacks.attack import Attack
from tests.hostile.neighbours.hostile import Hostile

LANES = 4
PREPARED_S = 240.0


async def store_results(page: str, pages: int, hostile: Hostile) -> str:
    """Run a batch that reads large pages, which compress well. Return its id once it has ended."""
    urls = [f"https://stored.example.com/{page}/{at}" for at in range(pages)]
    job = await hostile.read("web/batch-scrape", "POST", {"urls": urls, "formats": ["markdown"]})
    with trio.fail_after(PREPARED_S):
        while (job := await hostile.read(f"web/jobs/{job['job_id']}"))["finished_at"] is None:  # noqa: ASYNC110 - the node's
            await trio.sleep(0.2)
    assert job["status"] == "completed", job
    return str(job["job_id"])


async def store_rows(hostile: Hostile) -> str:
    """Start a discover run that finds 200 compressible rows of 120 KB. Return its id once it has ended."""
    body = {"keywords": ["words"], "platforms": ["hackernews"], "max_credits": 20, "max_rows": 200, "background": True}
    run = await hostile.read("prism/discover/runs", "POST", body)
    with trio.fail_after(PREPARED_S):
        while run["finished_at"] is None:
            await trio.sleep(0.2)
            run = await hostile.read(f"prism/discover/runs/{run['run_id']}")
    assert run["counts"]["rows_kept"] >= 200, run
    return str(run["run_id"])


async def _changes(hostile: Hostile, _lane: int) -> None:
    await hostile.call(f"prism/discover/runs/{hostile.state}?changes_since=0")


async def _results(rest: str, hostile: Hostile, _lane: int) -> None:
    await hostile.call(f"web/jobs/{hostile.state}/{rest}")


def _reading(rest: str, page: str, pages: int) -> Attack:
    step: Callable[[Hostile, int], Awaitable[None]] = partial(_results, rest)
    return Attack(step, LANES, partial(store_results, page, pages))


RESULTS = _reading("results?limit=100", "text", 100)
FEWER_RESULTS = _reading("results?limit=100", "text", 24)
CHANGES = Attack(_changes, LANES, store_rows)
LINES = _reading("results.jsonl", "text", 100)
