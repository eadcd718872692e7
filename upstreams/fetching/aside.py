"""Long answers are read and shaped in a thread, one at a time, so that all other requests go on meanwhile.

A thread cannot be ended, so each step is bounded before it begins: the bytes of an answer, its values, the rows of a
list. Accounts have fair turns.
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
"""An answer with more is long: nearly none is, and a thread costs more than reading a shorter one takes."""


LONG_FORM_BYTES = 8 * 1024
"""The same for a body that is not JSON: reading its values takes up to thirty times as long."""
BODY_BYTES_END = 2**40
"""No body is so long."""


def long_bytes(accepts: Accepts) -> int:
    """Return the most bytes of a body that the loop itself reads; any number if the read takes it as it came."""
    if accepts.__class__ is not Form:
        return LONG_BYTES
    return LONG_FORM_BYTES if accepts.follows else BODY_BYTES_END


class Aside:
    """The one thread at a time in which a node reads what is long."""

    def __init__(self) -> None:
        self._turns = FairTurns(1)
        self._thread = trio.CapacityLimiter(1)

    async def run(self, work: Callable[[], T], deadline_at: float, *, source: str, account_id: str) -> T:
        """Return the result of `work`, once its account has a turn; it is pure, and not interrupted.

        Raises:
            UpstreamFailed: its turn has not come by `deadline_at` on Trio's clock.
        """
        with trio.move_on_at(deadline_at):
            async with self._turns.turn(account_id):
                return await run_in_thread(work, self._thread)
        raise UpstreamFailed(source, "there was no time left to read its answer", passing=True, blame="node")

    def statistics(self) -> TurnStatistics:
        """Return the record of this moment."""
        return self._turns.statistics()
