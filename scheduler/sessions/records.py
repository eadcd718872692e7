"""Sessions in stored form, and the price of their time (decisions 21)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from billing.charges.refunds import used_by_failure

if TYPE_CHECKING:
    from upstreams.web.browser.actions import Action
    from upstreams.web.browser.page import PageIds

SessionStatus = Literal["opening", "open", "closed"]
HOUR_CREDITS: Final = 20
LEAST_CREDITS: Final = 5
TTL_S_MAX: Final = 3_600
OUR_FAULT: Final = frozenset({"node_lost", "node_stopped", "browser_lost", "failed"})
"""Reasons that waive the minimum price: only the open time is charged, rounded down."""
TOO_COSTLY: Final = "page_too_costly"
"""The reason if a page exceeded its time or memory limit, possibly before it was open."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One session. `node` is the node that opened it, and `target_id` identifies its page in that node's browser."""

    id: str
    account_id: str
    key_id: str
    url: str
    mobile: int
    status: SessionStatus
    closed_because: str | None
    charges: str
    """The requests that reserved its credits, as JSON. Each has its credits and its key."""
    held_credits: int
    used_credits: int
    ttl_s: int
    idle_s: int | None
    """The session ends after this many seconds without an action."""
    context_id: str | None
    target_id: str | None
    node: str
    lease_until: float
    created_at: float
    opened_at: float | None
    active_at: float
    closed_at: float | None

    @property
    def is_over(self) -> bool:
        """Whether the session has ended."""
        return self.status == "closed"

    @property
    def expires_at(self) -> float:
        """The time at which the session ends if no action extends it."""
        until = self.created_at + self.ttl_s
        return until if self.idle_s is None else min(until, self.active_at + self.idle_s)


class SessionPages(Protocol):
    """The part of the browser that sessions use."""

    def open(self, url: str, *, mobile: bool) -> AbstractAsyncContextManager[PageIds]:
        """Keep a page open while the block runs.

        Raises `UpstreamError` or `LimitError`, even if the page is lost only later.
        """
        ...

    async def run(self, target_id: str, actions: Sequence[Action], *, account_id: str) -> dict[str, Any]:
        """Run actions in an account's page. Return their results and the page's URL.

        Raises `UpstreamError` if the page is gone.
        """
        ...


def price_of(seconds: float) -> int:
    """Return the price, in credits, of a session that was open for `seconds`."""
    return max(LEAST_CREDITS, math.ceil(HOUR_CREDITS * seconds / 3_600))


def used_by(session: SessionRecord, ended_at: float, because: str) -> int:
    """Return the credits used by a session that ends for the reason `because`, at most the reserved ones."""
    if session.opened_at is None:
        return used_by_failure(session.held_credits, LEAST_CREDITS, is_costly=because == TOO_COSTLY)
    seconds = max(0.0, min(ended_at, session.created_at + session.ttl_s) - session.opened_at)
    used = math.floor(HOUR_CREDITS * seconds / 3_600) if because in OUR_FAULT else price_of(seconds)
    return min(used, session.held_credits)
