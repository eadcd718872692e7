"""The recipe of a monitor: an endpoint with its parameters, priced and called as the API does, never from the cache."""

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
    """There is no such recipe, it cannot be called now, or its parameters are not those of its endpoint."""


class GatheringFailed(Exception):
    """Nothing usable came; `legs` tell which source failed, and how. The text is for the monitor's owner.

    `used_credits` is the price of a page that was too costly; all other failures are free.
    """

    def __init__(self, problem: str, legs: Sequence[Mapping[str, Any]], used_credits: int = 0) -> None:
        super().__init__(problem)
        self.legs = legs
        self.used_credits = used_credits

    @property
    def code(self) -> str:
        """The `reason` of the refusal that caused it, else the code of the first leg that failed."""
        if isinstance(self.__cause__, NotFound) and self.__cause__.reason:
            return self.__cause__.reason
        return next((str(leg["error"]) for leg in self.legs if leg.get("error")), "UPSTREAM_ERROR")


@dataclass(frozen=True, slots=True)
class Recipe:
    """An endpoint with parameters that it takes; the credits are its own, without the one for scheduling.

    They differ where page after page is read: the least that it is begun with, and the most it may use. `is_walked`: so
    is a list that its endpoint gives one page of at a time.
    """

    path: str
    values: Mapping[str, Value]
    archetype: Archetype
    platform: str
    credits_least: int
    credits_most: int
    is_walked: bool = False
    never: frozenset[str] = frozenset()
    """The fields of its records that are never filled (`Endpoint.unfilled`)."""
    is_most_usual: bool = False
    """Whether a call usually costs the most."""

    @property
    def credits_expected(self) -> int:
        """The credits that a call usually costs: for a list, those of full pages."""
        return self.credits_most if self.is_most_usual else self.credits_least


@dataclass(frozen=True, slots=True)
class Gathered:
    """The result of a call, also as JSON, which sources gave it, and how much of all.

    `data` is that of the envelope or, where it was wanted, the source's own body. `rows` are those of a list.
    `warnings` say what is missing of it, and why.

    `coverage` is the share of legs that came, `used_credits` what the call cost before that is looked at: what the legs
    say they cost adds up to that share of it. `whole` is false where it ended before it had to, or a page of it failed.
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
    """Where a list's next page begins; None on the last."""


class Recipes(Protocol):
    """Reads and calls recipes."""

    def read(self, recipe: str, params: object, *, rows: int | None = None) -> Recipe:
        """A recipe as it was sent, such as `github/profile` with `{"handle": "octocat"}`.

        A list is asked for as many `rows`, as far as its endpoint goes, unless the parameters say how many.

        Raises:
            RecipeInvalid: it cannot be used; nothing was called.
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
        """Call it, within the credits that are held for it, and within `timeout_s` from when its turn has come.

        With `as_sent` its result is its source's own body, but for a composite. With a `cursor` it is a later page of
        a list. It waits for turns as the account does.

        Raises:
            GatheringFailed: nothing usable came.
        """
        ...


class RecipePage(NamedTuple):
    """One page of a list: its records, and the state of the next one; None: it is the last."""

    records: Sequence[Record]
    next: State | None


class RecipePages(Protocol):
    """Reads lists page by page, also those that their endpoints walk."""

    def page_price(self, recipe: str) -> int:
        """The credits that a page of a list costs, whoever it is of."""
        ...

    async def page(self, recipe: Recipe, state: State | None, *, timeout_s: float, account_id: str = "") -> RecipePage:
        """One page of a recipe's list, the first one without a `state`, within `timeout_s` from when its turn has come.

        It waits for turns as the account does.

        Raises:
            GatheringFailed: it did not come.
        """
        ...
