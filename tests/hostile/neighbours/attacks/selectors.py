"""Expensive CSS selectors for a harmless page (item 4)."""

from __future__ import annotations

from urllib.parse import quote

import orjson

from tests.hostile.neighbours.attacks.attack import Attack
from tests.hostile.neighbours.hostile import Hostile
from tests.hostile.neighbours.neighbour import scrape

LANES = 5
LENGTHS = (20, 20, 20, 12, 6, 4)
"""How many combinators the selectors have, in turn.

If the node refuses twenty, the largest accepted number is among them.
"""


def siblings_of(length: int) -> str:
    """Return a chain of sibling combinators, which compare each paragraph with all later ones."""
    return "~".join(["p"] * (length + 1))


def last_of_type(length: int) -> str:
    """Return a chain of positions counted from the end. Matching each one examines all siblings."""
    return "p" + "".join(f":nth-last-of-type({at + 2}n+1)" for at in range(length))


def _selectors(number: int) -> str:
    length = LENGTHS[number % len(LENGTHS)]
    return last_of_type(length) if number % 2 else siblings_of(length)


async def exclude_siblings(hostile: Hostile, _lane: int) -> None:
    number = next(hostile.numbers)
    await hostile.call(scrape("siblings", f"h{number}", exclude_tags=siblings_of(LENGTHS[number % len(LENGTHS)])))


async def exclude_last_of_type(hostile: Hostile, _lane: int) -> None:
    number = next(hostile.numbers)
    await hostile.call(scrape("siblings", f"h{number}", exclude_tags=last_of_type(LENGTHS[number % len(LENGTHS)])))


async def include(hostile: Hostile, _lane: int) -> None:
    number = next(hostile.numbers)
    await hostile.call(scrape("siblings", f"h{number}", include_tags=_selectors(number)))


async def extract(hostile: Hostile, _lane: int) -> None:
    number = next(hostile.numbers)
    schema = quote(orjson.dumps({"found": [_selectors(number)]}))
    await hostile.call(f"web/extract?url=https%3A%2F%2Fh{number}.example.com%2Fsiblings%2F&schema={schema}")


EXCLUDE_SIBLINGS = Attack(exclude_siblings, LANES)
EXCLUDE_LAST_OF_TYPE = Attack(exclude_last_of_type, LANES)
INCLUDE = Attack(include, LANES)
EXTRACT = Attack(extract, LANES)
