"""The plan of a run: its legs, the pages and accounts that come next, and the most that all of it may cost. Pure.

A page of a leg is a step named `12.3`, the third page of the twelfth leg. In the accounts view each account of which
too little is known is read by a step named `@mastodon row_...`, by the row that it is. Steps come in waves: the first
pages of all legs, then the accounts that they found and their second pages, and so on, so that what ranks first comes
first whatever the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson
import trio

from scheduler.jobs.discover.spec import DiscoverSpec
from scheduler.jobs.records import Wave
from scheduler.packing import unpacked

PAGES_MAX: Final = 20
"""Pages of a leg."""


class LegPage(NamedTuple):
    """A page of a leg."""

    leg: int
    page: int

    @property
    def name(self) -> str:
        """The name of its step."""
        return f"{self.leg}.{self.page}"


class AccountRead(NamedTuple):
    """The read of the account that a row is."""

    platform: str
    row_id: str

    @property
    def name(self) -> str:
        """The name of its step."""
        return f"@{self.platform} {self.row_id}"


def first_steps(spec: DiscoverSpec) -> list[str]:
    """The names of the first wave: the first page of each leg."""
    return [LegPage(number, 1).name for number in range(1, spec.legs + 1)]


def read_step(name: str) -> LegPage | AccountRead:
    """The step of a name."""
    if name.startswith("@"):
        platform, _, row_id = name[1:].partition(" ")
        return AccountRead(platform, row_id)
    leg, _, page = name.partition(".")
    return LegPage(int(leg), int(page))


class SearchWave(Wave):
    """The steps that come next in a run: accounts before pages, both in the order in which they were found."""

    def __init__(self) -> None:
        super().__init__()
        self._known = set[str]()

    def note(self, name: str) -> None:
        """Note a step that the run has."""
        self._known.add(name)

    async def add(self, found: Sequence[bytes]) -> None:
        """Add the steps that some others found, as they are stored."""
        await trio.lowlevel.checkpoint()
        for some in found:
            for name in orjson.loads(unpacked(some)):
                if name not in self._known:
                    self._known.add(name)
                    self.names.append(name)
        self.names.sort(key=lambda name: not name.startswith("@"))


def price_of(spec: DiscoverSpec, step: LegPage | AccountRead) -> int:
    """The price of a step."""
    if isinstance(step, AccountRead):
        return spec.profiles[step.platform].price_credits
    return spec.leg(step.leg)[1].price_credits


def most_credits(spec: DiscoverSpec) -> int:
    """The most that a run may cost, if every leg has all its pages and every row is an account to read."""
    pages = sum(one.price_credits for one in spec.searches) * len(spec.keywords) * PAGES_MAX
    return pages + spec.max_rows * max((one.price_credits for one in spec.profiles.values()), default=0)


def least_credits(spec: DiscoverSpec) -> int:
    """The price of its cheapest page: with less it cannot begin, or go on."""
    return min(one.price_credits for one in spec.searches)
