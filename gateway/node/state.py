"""Opens the state at `state.url`, and the gate that uses it. The state is shared with other nodes, or in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import trio

from gateway.config.settings import MEMORY, LimitSettings
from limits.gate import Gate, Leases, MemoryGate
from limits.shared_gate import DEFAULT_SPANS, GateSpans, open_shared_gate
from limits.window import Window
from storage.state import State
from storage.supervision import Keep


class OpenState(Protocol):
    """Opens the shared state at a URL, over a separate link. Yields None if the state is not shared."""

    def __call__(
        self, url: str, *, round_trip_s: float | None = None, keep: Keep
    ) -> AbstractAsyncContextManager[State | None]:
        """Open the link.

        The link is dropped if a round trip takes longer than `round_trip_s` (None: the limit for admissions).

        `keep` runs the tasks of the link.
        """
        ...


@asynccontextmanager
async def open_state(url: str, *, round_trip_s: float | None = None, keep: Keep) -> AsyncIterator[State | None]:
    """Open the shared state at `url`, or None for `memory:` (see `OpenState`).

    Raises:
        StoreUnusable: the address is invalid.
    """
    if url == MEMORY:
        yield None
        return
    from storage.redis.link import ROUND_TRIP_S  # noqa: PLC0415 - see above
    from storage.redis.state import open_redis  # noqa: PLC0415 - only nodes that share their state need the driver

    async with open_redis(url, round_trip_s=round_trip_s or ROUND_TRIP_S, keep=keep) as state:
        yield state


@asynccontextmanager
async def open_gate(
    state: State | None, limits: LimitSettings, spans: GateSpans = DEFAULT_SPANS, *, keep: Keep
) -> AsyncIterator[Gate]:
    """Open the gate of this node, in its own memory or on the shared state."""
    requests, concurrent = limits.requests_per_minute, limits.concurrent_requests
    if state is None:
        # The clock's own method, because `trio.current_time` costs three times as much.
        clock = trio.lowlevel.current_clock().current_time
        yield MemoryGate(Window(requests, spans.window_s), Leases(concurrent), clock)
        return
    async with open_shared_gate(state, requests=requests, concurrent=concurrent, spans=spans, keep=keep) as gate:
        yield gate
