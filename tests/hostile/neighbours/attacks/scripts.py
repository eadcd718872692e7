"""Pages that block the browser: slow but honest (item 6), endless, and with a memory-hungry script (item 8)."""

from __future__ import annotations

from functools import partial

from tests.hostile.neighbours.attacks.attack import Attack
from tests.hostile.neighbours.hostile import Hostile
from tests.hostile.neighbours.neighbour import scrape


async def _show(page: str, wait_for: str, hostile: Hostile, _lane: int) -> None:
    await hostile.call(scrape(page, f"h{next(hostile.numbers)}", wait_for=wait_for))


SLOW = Attack(partial(_show, "small", "3000"), 8)
ENDLESS = Attack(partial(_show, "endless", "1"), 8)
HOGS = Attack(partial(_show, "hog", "1000"), 4)
