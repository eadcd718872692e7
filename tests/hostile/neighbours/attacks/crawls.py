"""Crawls whose planning is expensive: fifty wildcard patterns, and 2,000 long links per page (item 9)."""

from __future__ import annotations

import trio

from tests.hostile.neighbours.attacks.attack import Attack
from tests.hostile.neighbours.hostile import Hostile

LANES = 8
PAGES = 13
PATTERNS = 50
STARS = (90, 90, 90, 10, 4, 1)
"""How many wildcards the patterns have, in turn.

If the node refuses many, the largest accepted number is among them.
"""
POLL_S = 1.0


def patterns_of(stars: int) -> list[str]:
    """Return patterns that match no URL. On a path of many `a`s, a matcher notices this only at the end."""
    return [f"/{'*a' * stars}*z{at}" for at in range(PATTERNS)]


async def crawl(hostile: Hostile, lane: int) -> None:
    """Start a crawl whenever the previous one has ended."""
    number = next(hostile.numbers)
    body = {
        "url": f"https://h{number}.example.com/hub/{number}/",
        "limit": PAGES,
        "allow_backward_links": True,
        "exclude_paths": patterns_of(STARS[number % len(STARS)]),
    }
    answer = await hostile.call("web/crawl", "POST", body)
    if answer is None or answer.status_code != 202:
        return
    job_id = answer.json()["data"]["job_id"]
    while (job := await hostile.read(f"web/jobs/{job_id}")) is None or job["finished_at"] is None:  # noqa: ASYNC110 - the node's
        await trio.sleep(POLL_S)
    hostile.tally.credits_used += job["credits"]["used"]


CRAWLS = Attack(crawl, LANES)
