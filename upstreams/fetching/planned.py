"""Reads that have run up to their first call: their page limits, how to run them, and progress callbacks."""

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
    """The size of a read: the pages that it needs if all are full, and the maximum number of pages."""

    pages_needed: int
    pages_max: int


ONE_PAGE = Reach(1, 1)
"""The size of a read of one page."""


class Walked(NamedTuple):
    """The progress of a walk: its pages and items so far."""

    pages: int
    items: int
    limit: int


WantsMore = Callable[[Walked], Awaitable[bool]]
"""Called after each page of a walk. If the result is False, the walk ends."""


def never() -> bool:
    """Return False, so that a walk is never stopped."""
    return False


OnLeg = Callable[[Leg, Part], Awaitable[None]]
"""Called when a part of a composite is finished."""


class PartReader(Protocol):
    """Reads the parts of composites in a way other than `fetch`: from a cache, or shared with concurrent requests."""

    def read(self, planned: Plan, args: Args, deadline_at: float) -> Awaitable[Fetched]:
        """See `fetch`; `args` are the part's own arguments before planning."""
        ...


class Conduct(NamedTuple):
    """How a composite is run: its page limit, and its callbacks."""

    pages_max: int = 0
    wants_more: WantsMore | None = None
    stopping: Callable[[], bool] = never
    parts: PartReader | None = None
    """If None, each part is read by `fetch`."""
    on_leg: OnLeg | None = None

    @property
    def of_parts(self) -> Conduct:
        """The same settings for the parts, without `wants_more` and `on_leg`."""
        return self._replace(wants_more=None, on_leg=None)

    async def pages_left(self, done: Round, deadline_at: float) -> int:
        """Return how many more pages a composite's walk may read; 0 if it should stop or is out of time."""
        is_wanted = self.wants_more is None or await self.wants_more(Walked(done.pages, done.items, done.limit))
        if not is_wanted or self.stopping() or trio.current_time() >= deadline_at:
            return 0
        return max(0, (self.pages_max or _PAGES_MAX) - done.pages)


_PAGES_MAX: Final = 200
"""Maximum pages of a walk that is a part of another composite."""
ALONE: Final = Conduct()
"""The settings of a read without callbacks, whose parts are not shared."""


@dataclass(slots=True)
class Plan:
    """A read that has run up to its first call. Never modify it after it has started."""

    site: Site
    endpoint: Endpoint
    args: Args
    rung_index: int
    steps: Steps
    first: Wanted
    kept: KeptBodies | None = None
    """Records the bodies of the calls, or None if the caller did not request them."""
    conduct: Conduct = ALONE
    refusal: UpstreamError | LimitError | None = None
    """An error that is known without any call, or None. Raised when the plan runs."""

    @property
    def reach(self) -> Reach:
        """The size of the read: one page, or an amount in credits if the endpoint has its own price."""
        price = self.endpoint.price
        return ONE_PAGE if price is None else Reach(*price.span(self.args.values))

    def dismiss(self) -> None:
        """Close the read without sending any request."""
        self.steps.close()


class Planned(Protocol):
    """A read that has run up to its first call: its arguments are valid, and no request was sent yet.

    `Fetched.pages_used` in the result of `run` is the number of pages to bill.
    """

    @property
    def reach(self) -> Reach:
        """The number of pages that the read needs and may use."""
        ...

    @property
    def refusal(self) -> UpstreamError | LimitError | None:
        """An error that `run` raises without any call; None if there is none.

        An example is a page that is known to be forbidden.
        """
        ...

    @property
    def limit(self) -> int | None:
        """The number of rows that a walk collects; None for a read of a single page."""
        ...

    def run(
        self,
        pages_max: int,
        deadline_at: float,
        *,
        wants_more: WantsMore | None = None,
        stopping: Callable[[], bool] = never,
        parts: PartReader | None = None,
        on_leg: OnLeg | None = None,
    ) -> Awaitable[Fetched]:
        """Read up to `pages_max` pages by `deadline_at` on Trio's clock.

        No further page is started once `stopping` returns true.

        `parts` reads the parts of a composite, and `on_leg` is called for each of them.

        Raises:
            UpstreamError, LimitError: The read has no usable result.
        """
        ...

    def dismiss(self) -> None:
        """Close a read that was planned only to check its arguments."""
        ...
