"""Sessions as they are stored, and what their time costs (decisions 21)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

if TYPE_CHECKING:
    from upstreams.web.browser.actions import Action
    from upstreams.web.browser.page import PageIds

SessionStatus = Literal["opening", "open", "closed"]
HOUR_CREDITS: Final = 20
LEAST_CREDITS: Final = 5
TTL_S_MAX: Final = 3_600
OUR_FAULT: Final = frozenset({"node_lost", "node_stopped", "browser_lost", "failed"})
"""Ends that nobody pays the least price for: the time that there was is all that counts, and a part of it nothing."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One session. It is open, or was, at `node`, whose browser has its page under `target_id`."""

    id: str
    account_id: str
    key_id: str
    url: str
    mobile: int
    status: SessionStatus
    closed_because: str | None
    charges: str
    """The requests under which its credits are reserved, each with the credits and its key, as JSON."""
    held_credits: int
    used_credits: int
    ttl_s: int
    idle_s: int | None
    """The seconds without an action after which it ends."""
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
        """Whether nothing more happens in it."""
        return self.status == "closed"

    @property
    def expires_at(self) -> float:
        """The instant at which its time is up, if nothing is done in it before that."""
        until = self.created_at + self.ttl_s
        return until if self.idle_s is None else min(until, self.active_at + self.idle_s)


class SessionPages(Protocol):
    """The browser, as sessions use it."""

    def open(self, url: str, *, mobile: bool) -> AbstractAsyncContextManager[PageIds]:
        """A page that is open as long as the block. Raises `UpstreamError` and `LimitError`, also when it is lost."""
        ...

    async def run(self, target_id: str, actions: Sequence[Action], *, account_id: str) -> dict[str, Any]:
        """The results of actions in an account's page, and where it is then. Raises `UpstreamError`: it is gone."""
        ...


def price_of(seconds: float) -> int:
    """The credits that so long a session costs."""
    return max(LEAST_CREDITS, math.ceil(HOUR_CREDITS * seconds / 3_600))


def used_by(session: SessionRecord, ended_at: float, because: str) -> int:
    """The credits that a session has used which ends now, for this reason; never more than are held for it."""
    if session.opened_at is None:
        return 0
    seconds = max(0.0, min(ended_at, session.created_at + session.ttl_s) - session.opened_at)
    used = math.floor(HOUR_CREDITS * seconds / 3_600) if because in OUR_FAULT else price_of(seconds)
    return min(used, session.held_credits)
