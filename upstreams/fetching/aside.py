"""Parses long answers in a thread, one at a time, so that other requests continue in the meantime.

A thread cannot be cancelled, so each step is limited in advance: the bytes of an answer, its values, the rows of a
list. The thread is shared fairly between accounts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from limits.fair_turns import FairTurns, TurnStatistics
from upstreams.model.errors import UpstreamFailed
from upstreams.model.steps import Accepts, Form
from upstreams.transport.threads import run_in_thread

T = TypeVar("T")

LONG_BYTES = 128 * 1024
"""Longer answers are parsed in a thread. They are rare, and a thread costs more than parsing a shorter answer."""


LONG_FORM_BYTES = 8 * 1024
"""The same limit for bodies that are not JSON, which take up to thirty times as long to parse."""
BODY_BYTES_END = 2**40
"""A limit that no body reaches."""


def long_bytes(accepts: Accepts) -> int:
    """Return the maximum length of a body to parse on the event loop; practically unlimited for an unparsed body."""
    if not isinstance(accepts, Form):
        return LONG_BYTES
    return LONG_FORM_BYTES if accepts.follows else BODY_BYTES_END


class Aside:
    """The single thread in which a node parses long answers."""

    def __init__(self) -> None:
        self._turns = FairTurns(1)
        self._thread = trio.CapacityLimiter(1)

    async def run(self, work: Callable[[], T], deadline_at: float, *, source: str, account_id: str) -> T:
        """Run `work` when it is the account's turn, and return its result.

        `work` must be pure, and is never interrupted.

        Raises:
            UpstreamFailed: The account's turn did not come by `deadline_at` on Trio's clock.
        """
        with trio.move_on_at(deadline_at):
            async with self._turns.turn(account_id):
                return await run_in_thread(work, self._thread)
        raise UpstreamFailed(source, "no time left to parse the response", passing=True, blame="node")

    def statistics(self) -> TurnStatistics:
        """Return the current statistics."""
        return self._turns.statistics()
