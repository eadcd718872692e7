"""Publishes open circuits as hints to other nodes, which then open theirs for the remaining time.

A hint is a key on the server that lasts as long as the circuit is open, and a message with the circuit's name. The
remaining time is read from the server, so the nodes' clocks do not matter. A hint never closes a circuit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from limits.breaker import Breaker
from storage.errors import StateUnavailable
from storage.state import RECHECK, State

CIRCUITS = b"sluice:circuits"


class CircuitHints:
    """The breakers of this node, keyed by a name that is the same on all nodes."""

    def __init__(self, state: State, breakers: Mapping[str, Breaker]) -> None:
        self._state = state
        self._breakers = breakers

    def publish(self, name: str, for_s: float) -> None:
        """Publish that this node's circuit is open for `for_s` seconds, without waiting for the server."""
        key = _key(name)
        self._state.call_nowait(b"SET", key, b"open", b"PX", b"%d" % (for_s * 1000))
        self._state.publish(CIRCUITS, name.encode())

    async def listen(self) -> None:
        """Publish circuits that open here and apply hints from elsewhere, until cancelled."""
        for name, breaker in self._breakers.items():
            breaker.on_open = partial(self.publish, name)
        async with self._state.subscribe(CIRCUITS) as messages:
            async for message in messages:
                names = list(self._breakers) if message == RECHECK else [message.decode()]
                for name in names:
                    if name in self._breakers:
                        await self._apply_remaining(name)

    async def _apply_remaining(self, name: str) -> None:
        """Open the circuit for as long as its hint lasts."""
        try:
            left_ms = await self._state.call(b"PTTL", _key(name))
        except StateUnavailable:
            return  # after the next connect, all hints are read again
        if isinstance(left_ms, int) and left_ms > 0:
            self._breakers[name].apply_hint(left_ms / 1000)


def _key(name: str) -> bytes:
    return b"sluice:{circuit:%b}" % name.encode()
