"""The four timeouts of httpx, implemented by one cancel scope whose deadline moves with each phase of a call."""

import math
from collections.abc import Mapping
from typing import Literal

import httpx
import trio

Phase = Literal["pool", "connect", "write", "read"]

_TIMEOUTS: dict[Phase, type[httpx.TimeoutException]] = {
    "pool": httpx.PoolTimeout,
    "connect": httpx.ConnectTimeout,
    "write": httpx.WriteTimeout,
    "read": httpx.ReadTimeout,
}


class PhaseDeadline:
    """Limits each phase separately; a phase without a value in `timeouts_s` is limited only by the caller's deadline.

    The transport moves the deadline while a call runs inside `scope`.
    """

    __slots__ = ("_phase", "_timeouts_s", "scope")

    def __init__(self, timeouts_s: Mapping[str, float | None]) -> None:
        self._timeouts_s = timeouts_s
        self._phase: Phase = "pool"
        self.scope = trio.CancelScope()

    def enter(self, phase: Phase) -> None:
        """Start a phase, or restart it, because each wait for bytes has the full timeout."""
        self._phase = phase
        timeout_s = self._timeouts_s.get(phase)
        self.scope.deadline = trio.current_time() + (math.inf if timeout_s is None else timeout_s)

    def raise_if_over(self) -> None:
        """Raise the httpx timeout of the phase that took too long, if any. Call it after the scope."""
        if self.scope.cancelled_caught:
            raise _TIMEOUTS[self._phase](f"the {self._phase} phase took too long")
