"""The interface that a plain read and a walk share: how many pages either may take, and how it is run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from upstreams.model.steps import Fetched

if TYPE_CHECKING:
    from upstreams.fetching.parts import OnLeg, PartReader


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


class Planned(Protocol):
    """A read that stands at its first call: its arguments are good, nothing was sent yet.

    `Fetched.pages_used` of what `run` returns says how many pages it is billed for.
    """

    @property
    def reach(self) -> Reach:
        """The pages that it may take."""
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
