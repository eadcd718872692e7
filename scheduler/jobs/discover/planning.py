"""The plan of a run: its legs, the pages and accounts that come next, and its maximum cost. Pure functions.

The name of a step has one of three forms:

- `12.3` reads the third page of the twelfth leg.
- `12.3+1` adds rows of that page that were left over after the page had filled its share of `max_rows`. This step is
  free, and runs after the other steps of its wave.
- `@mastodon row_...` reads an account that has too few details, in the accounts view.

Steps run in waves: the first pages of all legs, then the accounts that they found and their second pages, and so on. In
each wave the legs take turns over keywords and platforms, so that a small budget or a small `max_rows` is shared among
all of them, and the best rows come first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import lcm
from typing import Final, NamedTuple

import orjson
import trio

from scheduler.jobs.discover.spec import DiscoverSpec
from scheduler.jobs.records import Wave
from scheduler.packing import unpacked

PAGES_MAX: Final = 20
"""The maximum number of pages of a leg."""


class LegPage(NamedTuple):
    """A page of a leg."""

    leg: int
    page: int

    @property
    def name(self) -> str:
        """The name of the step."""
        return f"{self.leg}.{self.page}"


class PageRest(NamedTuple):
    """The rows of a page that wait for their leg's next turn."""

    leg: int
    page: int
    turn: int

    @property
    def name(self) -> str:
        """The name of the step."""
        return f"{self.leg}.{self.page}+{self.turn}"


class AccountRead(NamedTuple):
    """The read of a row's account."""

    platform: str
    row_id: str

    @property
    def name(self) -> str:
        """The name of the step."""
        return f"@{self.platform} {self.row_id}"


def first_steps(spec: DiscoverSpec) -> list[str]:
    """Return the names of the first wave's steps: the first page of each leg, in turns."""
    return [LegPage(number, 1).name for number in legs_in_turn(spec)]


def legs_in_turn(spec: DiscoverSpec) -> list[int]:
    """Return the numbers of all legs, each once, so that every prefix is balanced over keywords and searches.

    The order follows the diagonals of a table of keywords and searches. With the keywords a, b, c and the searches 1, 2
    the order is a1, b2, c1, a2, b1, c2. The first search of each platform comes before the second search of any
    platform.
    """
    count, size = len(spec.keywords), len(spec.searches)
    seen = Counter[str]()
    places = list[tuple[int, int]]()
    for place, search in enumerate(spec.searches):
        places.append((seen[search.platform], place))
        seen[search.platform] += 1
    order = [place for _, place in sorted(places)]
    cycle = lcm(count, size)  # after this many turns the diagonal is back at its start, so shift it by one
    return [turn % count * size + order[(turn + turn // cycle) % size] + 1 for turn in range(count * size)]


def read_step(name: str) -> LegPage | PageRest | AccountRead:
    """Return the step with this name."""
    if name.startswith("@"):
        platform, _, row_id = name[1:].partition(" ")
        return AccountRead(platform, row_id)
    leg, _, page = name.partition(".")
    page, _, turn = page.partition("+")
    return PageRest(int(leg), int(page), int(turn)) if turn else LegPage(int(leg), int(page))


class SearchWave(Wave):
    """The next steps of a run: accounts before pages.

    Pages keep the order of the legs. The first account of each page comes before the second account of any page.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known = set[str]()
        self._turns = dict[str, tuple[bool, int]]()

    def note(self, name: str) -> None:
        """Record a step that the run already has."""
        self._known.add(name)

    async def add(self, found: Sequence[bytes]) -> None:
        """Add the steps that other steps found, given in stored form."""
        await trio.lowlevel.checkpoint()
        for some in found:
            for turn, name in enumerate(orjson.loads(unpacked(some))):
                if name not in self._known:
                    self._known.add(name)
                    self.names.append(name)
                    self._turns[name] = (False, turn) if name.startswith("@") else (True, 0)
        self.names.sort(key=self._turns.__getitem__)


def price_of(spec: DiscoverSpec, step: LegPage | PageRest | AccountRead) -> int:
    """Return the maximum price of a step."""
    if isinstance(step, PageRest):
        return 0
    if isinstance(step, AccountRead):
        return spec.profiles[step.platform].price_credits
    return spec.leg(step.leg)[1].price_credits


def share_of_rows(rows_left: int, steps_left: int) -> int:
    """Return how many new rows a step may add: an equal share of the remaining rows for each remaining step."""
    return max(1, rows_left // max(1, steps_left))


def most_credits(spec: DiscoverSpec) -> int:
    """Return the maximum cost of a run, as if every leg had all its pages and every row were an account to read."""
    pages = sum(one.price_credits for one in spec.searches) * len(spec.keywords) * PAGES_MAX
    return pages + spec.max_rows * max((one.price_credits for one in spec.profiles.values()), default=0)


def least_credits(spec: DiscoverSpec) -> int:
    """Return the price of the cheapest page. With fewer credits a run can neither start nor continue."""
    return min(one.price_credits for one in spec.searches)
