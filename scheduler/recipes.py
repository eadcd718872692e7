"""The recipe of a monitor: an endpoint with parameters, priced and called as in the API, but never from the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scheduler.errors import MonitorInvalid
from upstreams.model.errors import NotFound

if TYPE_CHECKING:
    from upstreams.model.archetypes import Archetype, Record
    from upstreams.model.params import State, Value


class RecipeInvalid(MonitorInvalid):
    """The recipe does not exist, cannot be called now, or has parameters that its endpoint does not accept."""


class GatheringFailed(Exception):
    """A call returned no usable data. `legs` contains the error of each source. The text is for the monitor's owner.

    `used_credits` is the price of a page that was too costly; all other failures are free.
    """

    def __init__(self, problem: str, legs: Sequence[Mapping[str, Any]], used_credits: int = 0) -> None:
        super().__init__(problem)
        self.legs = legs
        self.used_credits = used_credits

    @property
    def code(self) -> str:
        """The `reason` of the error that caused the failure, or else the code of the first failed leg."""
        if isinstance(self.__cause__, NotFound) and self.__cause__.reason:
            return self.__cause__.reason
        return next((str(leg["error"]) for leg in self.legs if leg.get("error")), "UPSTREAM_ERROR")


@dataclass(frozen=True, slots=True)
class Recipe:
    """An endpoint with valid parameters. The credits are its own price, without the scheduling credit.

    `credits_least` and `credits_most` differ if several pages are read: a call needs `credits_least` to start, and uses
    at most `credits_most`. `is_walked` means that several pages are read for one list.
    """

    path: str
    values: Mapping[str, Value]
    archetype: Archetype
    platform: str
    credits_least: int
    credits_most: int
    is_walked: bool = False
    never: frozenset[str] = frozenset()
    """The record fields that are never filled (`Endpoint.unfilled`)."""
    is_most_usual: bool = False
    """Whether a call usually costs the maximum."""

    @property
    def credits_expected(self) -> int:
        """The credits that a call usually costs. For a list, this is the price of full pages."""
        return self.credits_most if self.is_most_usual else self.credits_least


@dataclass(frozen=True, slots=True)
class Gathered:
    """The result of a call, also as JSON, with its sources and its coverage.

    `data` is the envelope's `data` or, if requested, the source's own body. `rows` is the number of rows of a list.
    `warnings` describe missing parts and the reasons. `coverage` is the share of legs that returned data.
    `used_credits` is the cost before `coverage` is applied; the costs of the legs add up to `used_credits` times
    `coverage`. `whole` is False if the call ended early, or a page failed.
    """

    data: Any
    body: bytes
    legs: Sequence[Mapping[str, Any]]
    coverage: float
    whole: bool
    used_credits: int
    warnings: Sequence[str] = ()
    rows: int | None = None
    next: State | None = None
    """The start of a list's next page. None on the last page."""


class Recipes(Protocol):
    """Reads and calls recipes."""

    def read(self, recipe: str, params: object, *, rows: int | None = None) -> Recipe:
        """Validate a recipe as it was sent, such as `github/profile` with `{"handle": "octocat"}`.

        For a list, `rows` is the number of rows to request, within the endpoint's limits, unless the parameters set a
        number.

        Raises:
            RecipeInvalid: the recipe cannot be used; nothing was called.
        """
        ...

    async def gather(
        self,
        recipe: Recipe,
        credits_held: int,
        *,
        timeout_s: float,
        account_id: str = "",
        as_sent: bool = False,
        cursor: State | None = None,
    ) -> Gathered:
        """Call a recipe within its reserved credits, and within `timeout_s` from the start of its turn.

        With `as_sent`, the result is the source's own body, except for a composite. With a `cursor`, it is a later page
        of a list. The call waits in the account's queue for its turn.

        Raises:
            GatheringFailed: the call returned no usable data.
        """
        ...


class RecipePage(NamedTuple):
    """One page of a list: its records, and the state of the next page, or None on the last page."""

    records: Sequence[Record]
    next: State | None


class RecipePages(Protocol):
    """Reads lists page by page, including those that their endpoints read as several pages."""

    def page_price(self, recipe: str) -> int:
        """Return the price of a page of a list, which is the same for every account."""
        ...

    async def page(self, recipe: Recipe, state: State | None, *, timeout_s: float, account_id: str = "") -> RecipePage:
        """Return one page of a recipe's list. Without `state`, return the first page.

        The read waits in the account's queue for its turn, and is then limited to `timeout_s`.

        Raises:
            GatheringFailed: the page could not be read.
        """
        ...
