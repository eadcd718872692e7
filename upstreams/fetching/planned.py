"""Reads that stand at their first call: how many pages they may take, how they are run, and who is told of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import trio

from limits.errors import LimitError
from upstreams.fetching.bodies import KeptBodies
from upstreams.fetching.site import Site
from upstreams.model.endpoint import Endpoint
from upstreams.model.errors import UpstreamError
from upstreams.model.params import Args
from upstreams.model.steps import Fetched, Leg, Part, Round, Steps, Wanted


class Reach(NamedTuple):
    """How far a read may go: the pages that it needs when all come full, and the most that it may take."""

    pages_needed: int
    pages_max: int


ONE_PAGE = Reach(1, 1)
"""The reach of a plain read."""


class Walked(NamedTuple):
    """How far a walk has come: its pages and items so far."""

    pages: int
    items: int
    limit: int


GoOn = Callable[[Walked], Awaitable[bool]]
"""Called after each page; False ends the walk there."""


def never() -> bool:
    """Return False: nothing stops."""
    return False


OnLeg = Callable[[Leg, Part], Awaitable[None]]
"""Called as each part of a composite settles."""


class PartReader(Protocol):
    """Reads the parts of composites where that is more than a fetch: from a cache, or with others who want the same."""

    def read(self, planned: Plan, args: Args, deadline_at: float) -> Awaitable[Fetched]:
        """As `fetch`; `args` are the part's own, as they were before its plan."""
        ...


class Conduct(NamedTuple):
    """How a composite is run: its pages at most, and who is told of its progress."""

    pages_max: int = 0
    go_on: GoOn | None = None
    stopping: Callable[[], bool] = never
    parts: PartReader | None = None
    """None: each part is fetched."""
    on_leg: OnLeg | None = None

    @property
    def of_parts(self) -> Conduct:
        """How its parts are run, of which nobody is told but it."""
        return self._replace(go_on=None, on_leg=None)

    async def pages_left(self, done: Round, deadline_at: float) -> int:
        """The pages that a composite's walk may still take: none where nobody wants more, or the time is over."""
        is_wanted = self.go_on is None or await self.go_on(Walked(done.pages, done.items, done.limit))
        if not is_wanted or self.stopping() or trio.current_time() >= deadline_at:
            return 0
        return max(0, (self.pages_max or _PAGES_MAX) - done.pages)


_PAGES_MAX: Final = 200
"""Pages of a walk that is a part of another composite."""
ALONE: Final = Conduct()
"""A read that tells nobody of its parts and shares them with nobody."""


@dataclass(slots=True)
class Plan:
    """A read that stands at its first call. Nobody changes it once it was begun."""

    site: Site
    endpoint: Endpoint
    args: Args
    rung_index: int
    steps: Steps
    first: Wanted
    kept: KeptBodies | None = None
    """Keeps the bodies of its calls; None: nobody wants them."""
    conduct: Conduct = ALONE
    refusal: UpstreamError | LimitError | None = None
    """The error that is known without any call; to run it raises this one. None: it calls."""

    @property
    def reach(self) -> Reach:
        """The pages that it may take: one; where it has a price of its own, the credits."""
        price = self.endpoint.price
        return ONE_PAGE if price is None else Reach(*price.span(self.args.values))

    def dismiss(self) -> None:
        """End it without a call."""
        self.steps.close()


class Planned(Protocol):
    """A read that stands at its first call: its arguments are good, nothing was sent yet.

    `Fetched.pages_used` of what `run` returns says how many pages it is billed for.
    """

    @property
    def reach(self) -> Reach:
        """The pages that it may take."""
        ...

    @property
    def refusal(self) -> UpstreamError | LimitError | None:
        """The error that `run` raises without any call, as where a page is known to be forbidden; None: it calls."""
        ...

    @property
    def limit(self) -> int | None:
        """The rows that a walk collects; None for a plain read."""
        ...

    def run(
        self,
        pages_max: int,
        deadline_at: float,
        *,
        go_on: GoOn | None = None,
        stopping: Callable[[], bool] = never,
        parts: PartReader | None = None,
        on_leg: OnLeg | None = None,
    ) -> Awaitable[Fetched]:
        """Read up to `pages_max` pages by `deadline_at` on Trio's clock; no more than begun while `stopping`.

        `parts` reads the parts of a composite, and `on_leg` is told of each.

        Raises:
            UpstreamError, LimitError: nothing usable came.
        """
        ...

    def dismiss(self) -> None:
        """End a read that was begun only to see whether it could be."""
        ...
