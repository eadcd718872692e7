"""What the nodes of one service tell each other beside their limits: answers, and circuits that opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from gateway.sites import breakers_of
from limits.shared_hints import CircuitHints
from upstreams.cache import Cache
from upstreams.shared_cache import SharedCache, open_shared_cache
from upstreams.site import Site

MEMORY = "memory:"
ROUND_TRIP_S = 2.0
"""Answers are long: they have a link of their own, so that no admission waits behind one, and more time."""


@asynccontextmanager
async def open_sharing(url: str, cache: Cache, sites: Sequence[Site]) -> AsyncIterator[SharedCache | None]:
    """The cache that this node shares over the state at `url`, while its sites' circuits are shared too.

    None where the state is this node's own memory.

    Raises:
        StoreUnusable: the address cannot be read.
    """
    if url == MEMORY:
        yield None
        return
    from storage.redis import open_redis  # noqa: PLC0415 - only who asks for it pays for the driver's import

    async with (
        open_redis(url, round_trip_s=ROUND_TRIP_S) as state,
        open_shared_cache(cache, state) as shared,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(CircuitHints(state, breakers_of(sites)).listen)
        yield shared
        nursery.cancel_scope.cancel()
