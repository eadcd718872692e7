"""Long answers in JSON, which a node reads in one thread at a time (item 6)."""

from __future__ import annotations

from tests.hostile.neighbours.attacks.attack import Attack
from tests.hostile.neighbours.hostile import Hostile


async def long_list(hostile: Hostile, _lane: int) -> None:
    await hostile.call(f"github/profile/repos?handle=hostile{next(hostile.numbers)}")


LONG_LISTS = Attack(long_list, 8)
