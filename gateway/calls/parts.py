"""Parts of composites: they share the cache and the calls in progress with direct calls, so no call is duplicated.

A part from the cache, or from another request's call in progress, is free and has the source `cache`. A key may have as
many concurrent parts as concurrent requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import orjson
import trio

from gateway.calls.request import CallResult, cache_key, page_key
from gateway.calls.shaping import shape
from gateway.http import envelope
from upstreams.cache.response_cache import Cache
from upstreams.cache.single_flight import Flights
from upstreams.catalog import Listing
from upstreams.fetching.aside import LONG_BYTES
from upstreams.fetching.fetch import fetch
from upstreams.fetching.plan import Conduct, Plan
from upstreams.model.cursors import CursorSigner
from upstreams.model.errors import UpstreamFailed
from upstreams.model.params import Args
from upstreams.model.steps import CACHE, Fetched, Page, Single

AT_ONCE_MAX: Final = 50
"""Maximum number of concurrent parts of one key (spec 8)."""


class PartReaders(NamedTuple):
    """The cache and the calls in progress ("flights") that parts share with direct calls."""

    cache: Cache
    put: Callable[[bytes, bytes, float], None]
    flights: Flights[CallResult]
    signer: CursorSigner
    gates: WeakValueDictionary[str, trio.CapacityLimiter]

    def of_key(self, key_id: str, *, refresh: bool) -> KeyPartReader:
        """Return the reader of one request's parts. With `refresh`, the cache is written but not read."""
        gate = self.gates.get(key_id)
        if gate is None:
            gate = self.gates[key_id] = trio.CapacityLimiter(AT_ONCE_MAX)
        return KeyPartReader(self, gate, refresh)


class KeyPartReader(NamedTuple):
    """A `PartReader` for one request."""

    shared: PartReaders
    gate: trio.CapacityLimiter
    refresh: bool

    async def read(self, plan: Plan, args: Args, deadline_at: float, conduct: Conduct) -> Fetched:
        """Return the response of a part: cached, from a call in progress, or from its own call."""
        if plan.endpoint.archetype.has_legs:  # a composite, whose parts call this method again
            return await fetch(plan, deadline_at, conduct)
        cache, flights = self.shared.cache, self.shared.flights
        key = self._key(plan, args)
        stored = None if self.refresh else cache.get(key)
        if stored is not None:
            return self._from(plan, args, stored)
        flight, result = (key, self.refresh), None
        if flight in flights and (found := await self._follow(flight, plan, deadline_at)) is not None:
            return self._from(plan, args, found.fragment)
        flights.begin(flight)
        try:
            async with self.gate:
                fetched = await fetch(plan, deadline_at, conduct)
            result = await self._keep(plan, args, key, fetched, deadline_at)
        finally:
            flights.end(flight, result)
        return fetched

    async def _follow(self, flight: tuple[bytes, bool], planned: Plan, deadline_at: float) -> CallResult | None:
        try:
            return await self.shared.flights.follow(flight, deadline_at)
        except trio.TooSlowError as exc:
            slug = planned.site.platform.slug
            raise UpstreamFailed(slug, "an identical call has not finished in time", passing=True) from exc

    def _key(self, planned: Plan, args: Args) -> bytes:
        """Return the cache key of a direct call with the same values. Each page of a list has a separate key."""
        listing = _listing(planned)
        values = {**args.values}
        if args.cursor is not None:
            values["cursor"] = self.shared.signer.seal(self._binding(planned, args), args.cursor)
        key = cache_key(listing, values)
        return key if planned.endpoint.collect is None else page_key(key)

    def _binding(self, planned: Plan, args: Args) -> bytes:
        return cache_key(_listing(planned), args.values)

    async def _keep(
        self, planned: Plan, args: Args, key: bytes, fetched: Fetched, deadline_at: float
    ) -> CallResult | None:
        """Store the response as a direct call would; return None if it must not be stored."""
        encode = partial(self._encoded, planned, args, fetched)
        if fetched.body_bytes <= LONG_BYTES:
            stored = encode()
        else:
            slug = planned.site.platform.slug
            stored = await planned.site.aside.run(encode, deadline_at, source=slug, account_id=args.account_id)
        if stored is None:
            return None
        self.shared.put(key, stored, planned.endpoint.cache_ttl_s)
        return CallResult(stored, 0, None)

    def _encoded(self, planned: Plan, args: Args, fetched: Fetched) -> bytes | None:
        if isinstance(fetched.result, Single) and planned.endpoint.archetype.is_empty(fetched.result.record):
            return None
        listing, seal = _listing(planned), partial(self.shared.signer.seal, self._binding(planned, args))
        shaped = shape(planned.endpoint.archetype, fetched.result, seal)
        if not shaped.cacheable:
            return None
        return envelope.fragment(planned.site.platform.slug, listing.path, shaped.data, shaped.pagination)

    def _from(self, planned: Plan, args: Args, stored: bytes) -> Fetched:
        """Rebuild a response from its stored form."""
        planned.dismiss()
        envelope_parts, archetype = orjson.loads(b"{%b}" % stored), planned.endpoint.archetype
        data = envelope_parts["data"]
        if not archetype.many:
            record = data[archetype.key] if archetype.key else {k: data[k] for k in data if k != "_warnings"}
            return Fetched(Single(record), source=CACHE)
        rows = [row[archetype.key] for row in data["items"]] if archetype.key else data["items"]
        token = envelope_parts["pagination"]["next_cursor"]
        following = None if token is None else self.shared.signer.open(self._binding(planned, args), token)
        return Fetched(Page(rows, following, data.get("total")), source=CACHE)


def _listing(planned: Plan) -> Listing:
    slug, endpoint = planned.site.platform.slug, planned.endpoint
    id_ = f"{slug}/{endpoint.resource}"
    return Listing(id_, f"/v1/{id_}", planned.site, endpoint, available=True)
