"""Documents that take long to read: hostile pages and PDFs (item 5), and large honest ones (items 6 and 7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from tests.hostile.neighbours.attacks.attack import Attack
from tests.hostile.neighbours.hostile import Hostile
from tests.hostile.neighbours.neighbour import scrape

LANES = 5
HEAVY_LANES = 12
LEAVES_S = 1.0
HOSTILE_PAGES = ("attributes", "rows", "anchors", "links", "pdf")
DENSE_FIRST = 8
DENSE_BETWEEN = 2


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


async def leave_early(hostile: Hostile, _lane: int) -> None:
    """Disconnect while the node reads a long page."""
    await hostile.call(scrape("heavy", f"h{next(hostile.numbers)}"), leaves_s=LEAVES_S)


async def mislead(hostile: Hostile) -> None:
    """Read short pages with a high cost per byte, which make the node expect minutes for a long page."""
    for _ in range(DENSE_FIRST):
        await hostile.read(scrape("dense", f"h{next(hostile.numbers)}"))


async def one_expensive(hostile: Hostile, _lane: int) -> None:
    """Read a long page, and then again short ones with a high cost per byte."""
    await read(hostile, "huge", f"h{next(hostile.numbers)}")
    for _ in range(DENSE_BETWEEN):
        await read(hostile, "dense", f"h{next(hostile.numbers)}")


def reading(page: str, lanes: int = LANES) -> Attack:
    """Read this page at new addresses."""
    step: Callable[[Hostile, int], Awaitable[None]] = partial(_one, page)
    return Attack(step, lanes)


MIXED_FRESH = Attack(mixed_fresh, LANES)
MIXED_SAME = Attack(mixed_same, LANES)
HEAVY = reading("heavy", HEAVY_LANES)
HANG_UPS = Attack(leave_early, HEAVY_LANES)
ONE_EXPENSIVE = Attack(one_expensive, 1, mislead)
