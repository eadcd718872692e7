"""The parts of composites share the cache and the flights of direct calls: nobody asks an upstream twice for the same.

A part that the cache has, or that somebody else's call brings just now, costs nothing and has the source `cache`. One
key has at most as many parts under way at a time as it may have requests.
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
from upstreams.fetching.planned import Plan
from upstreams.model.cursors import CursorSigner
from upstreams.model.errors import UpstreamFailed
from upstreams.model.params import Args
from upstreams.model.steps import CACHE, Fetched, Page, Single

AT_ONCE_MAX: Final = 50
"""Parts of one key that are under way at a time (spec 8)."""


class SharedParts(NamedTuple):
    """The cache and the flights that parts share with direct calls."""

    cache: Cache
    put: Callable[[bytes, bytes, float], None]
    flights: Flights[CallResult]
    signer: CursorSigner
    gates: WeakValueDictionary[str, trio.CapacityLimiter]

    def of_key(self, key_id: str, *, refresh: bool) -> KeyParts:
        """The reader of one request's parts; with `refresh` they do not come from the cache, but go there."""
        gate = self.gates.get(key_id)
        if gate is None:
            gate = self.gates[key_id] = trio.CapacityLimiter(AT_ONCE_MAX)
        return KeyParts(self, gate, refresh)


class KeyParts(NamedTuple):
    """As `PartReader`, for one request."""

    shared: SharedParts
    gate: trio.CapacityLimiter
    refresh: bool

    async def read(self, planned: Plan, args: Args, deadline_at: float) -> Fetched:
        """The part's answer: stored, of a call that is under way, or its own."""
        if planned.endpoint.archetype.has_legs:  # its parts come here by themselves
            return await fetch(planned, deadline_at)
        cache, flights = self.shared.cache, self.shared.flights
        key = self._key(planned, args)
        stored = None if self.refresh else cache.get(key)
        if stored is not None:
            return self._from(planned, args, stored)
        flight, result = (key, self.refresh), None
        if flight in flights and (found := await self._follow(flight, planned, deadline_at)) is not None:
            return self._from(planned, args, found.fragment)
        flights.begin(flight)
        try:
            async with self.gate:
                fetched = await fetch(planned, deadline_at)
            result = await self._keep(planned, args, key, fetched, deadline_at)
        finally:
            flights.end(flight, result)
        return fetched

    async def _follow(self, flight: tuple[bytes, bool], planned: Plan, deadline_at: float) -> CallResult | None:
        try:
            return await self.shared.flights.follow(flight, deadline_at)
        except trio.TooSlowError as exc:
            slug = planned.site.platform.slug
            raise UpstreamFailed(slug, "an identical call has not answered in time", passing=True) from exc

    def _key(self, planned: Plan, args: Args) -> bytes:
        """The key of a direct call with the same values; of a walked list a page has one of its own."""
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
        """Store the answer as a direct call would; None where it is not to be stored."""
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
        if isinstance(fetched.result, Single) and _is_nothing(fetched.result):
            return None
        listing, seal = _listing(planned), partial(self.shared.signer.seal, self._binding(planned, args))
        shaped = shape(planned.endpoint.archetype, fetched.result, seal)
        if not shaped.cacheable:
            return None
        return envelope.fragment(planned.site.platform.slug, listing.path, shaped.data, shaped.pagination)

    def _from(self, planned: Plan, args: Args, stored: bytes) -> Fetched:
        """The answer that a stored one tells."""
        planned.dismiss()
        told, archetype = orjson.loads(b"{%b}" % stored), planned.endpoint.archetype
        data = told["data"]
        if not archetype.many:
            record = data[archetype.key] if archetype.key else {k: data[k] for k in data if k != "_warnings"}
            return Fetched(Single(record), source=CACHE)
        rows = [row[archetype.key] for row in data["items"]] if archetype.key else data["items"]
        token = told["pagination"]["next_cursor"]
        following = None if token is None else self.shared.signer.open(self._binding(planned, args), token)
        return Fetched(Page(rows, following, data.get("total")), source=CACHE)


def _listing(planned: Plan) -> Listing:
    slug, endpoint = planned.site.platform.slug, planned.endpoint
    id_ = f"{slug}/{endpoint.resource}"
    return Listing(id_, f"/v1/{id_}", planned.site, endpoint, available=True)


def _is_nothing(result: Single) -> bool:
    """Whether a record came without anything to know it by: then a direct call is a 404."""
    return "id" in result.record and result.record["id"] is None and not result.record.get("text")
