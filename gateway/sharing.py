"""What the nodes of one service tell each other beside their limits: answers, and circuits that opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from gateway.sites import breakers_of
from limits.shared_hints import CircuitHints
from storage.state import State
from upstreams.cache import Cache
from upstreams.shared_cache import SharedCache, open_shared_cache
from upstreams.site import Site

ROUND_TRIP_S = 2.0
"""Answers are long: they have a link of their own, so that no admission waits behind one, and more time."""


@asynccontextmanager
async def open_sharing(state: State | None, cache: Cache, sites: Sequence[Site]) -> AsyncIterator[SharedCache | None]:
    """The cache that this node shares over `state`, while its sites' circuits are shared too.

    None where the state is this node's own memory. The link is not that of the admissions; see `ROUND_TRIP_S`.
    """
    if state is None:
        yield None
        return
    async with open_shared_cache(cache, state) as shared, trio.open_nursery() as nursery:
        nursery.start_soon(CircuitHints(state, breakers_of(sites)).listen)
        yield shared
        nursery.cancel_scope.cancel()
