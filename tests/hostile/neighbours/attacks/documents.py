"""Documents that take long to read: hostile pages and PDFs (item 5), and heavy but honest ones (items 6 and 7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from tests.hostile.neighbours.attacks.attack import Attack
from tests.hostile.neighbours.hostile import Hostile
from tests.hostile.neighbours.neighbour import scrape

LANES = 5
HEAVY_LANES = 12
HOSTILE_PAGES = ("attributes", "rows", "anchors", "links", "pdf")
DENSE_FIRST = 40


async def read(hostile: Hostile, page: str, host: str) -> None:
    """Read a page, never from the cache."""
    more = {"pdf_parse": "true"} if page == "pdf" else {"formats": "markdown,links"}
    await hostile.call(scrape(page, host, max_age="0", **more))


async def _one(page: str, hostile: Hostile, _lane: int) -> None:
    await read(hostile, page, f"h{next(hostile.numbers)}")


async def mixed_fresh(hostile: Hostile, lane: int) -> None:
    await read(hostile, HOSTILE_PAGES[lane % len(HOSTILE_PAGES)], f"h{next(hostile.numbers)}")


async def mixed_same(hostile: Hostile, lane: int) -> None:
    page = HOSTILE_PAGES[lane % len(HOSTILE_PAGES)]
    await read(hostile, page, f"same-{page}")


async def one_expensive(hostile: Hostile, _lane: int) -> None:
    """Read short pages that cost much a byte, then long ones, which are expected to take minutes by their length."""
    number = next(hostile.numbers)
    await read(hostile, "dense" if number < DENSE_FIRST else "huge", f"h{number}")


def reading(page: str, lanes: int = LANES) -> Attack:
    """Read this page at fresh addresses."""
    step: Callable[[Hostile, int], Awaitable[None]] = partial(_one, page)
    return Attack(step, lanes)


MIXED_FRESH = Attack(mixed_fresh, LANES)
MIXED_SAME = Attack(mixed_same, LANES)
HEAVY = reading("heavy", HEAVY_LANES)
ONE_EXPENSIVE = Attack(one_expensive, 1)
