"""Discover runs that run until they are stopped: their search always has more pages of stories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from urllib.parse import parse_qs

import httpx
import orjson

from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.storm.beside.compare import BackgroundJobs
from tests.storm.discover.run import RUNS

HOST: Final = "hn.algolia.com"
KEYWORDS: Final = [f"word{number}" for number in range(20)]
EACH: Final = 12
"""The runs of an account. All runs are in progress, and 100 of them use all the concurrent steps that a node allows."""
PAGES: Final = 20
"""Pages of a leg."""
PAGE_ROWS: Final = 50
POOL: Final = 8_000
"""The number of stories from which pages are selected. A run may have more rows than this, so no run becomes full."""
TAKES_S: Final = 0.2
"""The time for a page of a search, similar to a fast platform."""


def discover_runs(count: int) -> BackgroundJobs:
    """Return this many runs over Hacker News, each of 20 keywords and 400 pages."""
    read = Counter[str]()
    return BackgroundJobs(-(-count // EACH), partial(_begin, count), partial(_page, read), read)


def _page(read: Counter[str], asked: str) -> ScriptedAnswer | None:
    """Return a page of the search; everything else comes from the sandbox."""
    place, _, query = asked.partition("?")
    if not place.startswith(f"{HOST}/") or "query" not in query:
        return None
    sent = {name: one[0] for name, one in parse_qs(query).items()}
    page, word = int(sent.get("page", "0")), int(sent["query"].removeprefix("word"))
    read[sent["query"]] += 1
    first = (word * 397 + page * PAGE_ROWS) % POOL
    hits = [_story(number % POOL) for number in range(first, first + PAGE_ROWS)]
    body = {"hits": hits, "nbHits": PAGES * PAGE_ROWS, "page": page, "nbPages": PAGES}
    return ScriptedAnswer(200, orjson.dumps(body), delay_s=TAKES_S)


def _story(number: int) -> Mapping[str, object]:
    return {
        "objectID": str(number),
        "story_id": number,
        "title": f"The story number {number} of a long list",
        "author": f"user{number % 7}",
        "points": number,
        "created_at": "2026-11-01T12:00:00Z",
        "created_at_i": 1_793_534_400,
        "_tags": ["story", f"story_{number}"],
    }


async def _begin(count: int, client: httpx.AsyncClient, keys: Sequence[str]) -> dict[str, str]:
    body = {
        "keywords": KEYWORDS,
        "platforms": ["hackernews"],
        "max_credits": 10_000,
        "max_rows": 10_000,
        "background": True,
    }
    runs = {}
    for number in range(count):
        key = keys[number // EACH]
        begun = await client.post(RUNS, headers={"x-api-key": key}, json=body)
        assert begun.status_code == 202, begun.text
        runs[f"{RUNS}/{begun.json()['data']['run_id']}"] = key
    return runs
