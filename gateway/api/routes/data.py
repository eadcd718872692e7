"""Data endpoints: `GET /v1/{platform}/{resource}`, billed (spec 4.1)."""

from __future__ import annotations

from dataclasses import replace
from sys import getsizeof
from typing import Final

import orjson
import trio

from billing.ledger.free_usage import FreeUsage
from gateway.api.projection import USUAL, Projection, cut, negotiated, projection_of, written
from gateway.api.responses import Replies
from gateway.calls.execute import BilledCalls
from gateway.calls.idempotency import idempotency_key
from gateway.calls.planning import above_max
from gateway.calls.request import CallRequest, CallResult, cache_key, claim_of
from gateway.calls.shaping import leg_record
from gateway.http import envelope
from gateway.http.errors import InvalidParam, Refused
from gateway.http.params import declared_by
from gateway.http.request import Caller, Reply, Request, names, query_of
from gateway.http.routing import Route
from gateway.http.sse import EventStream
from upstreams.catalog import Listing
from upstreams.fetching.plan import Walked
from upstreams.fetching.site import Site
from upstreams.model.archetypes import Record
from upstreams.model.params import Value
from upstreams.model.steps import Fetched, Leg, Page, Part

READINGS_BYTES_MAX: Final = 16_000_000
"""Maximum number of bytes of the parsed queries that all endpoints cache, including every object in them."""
_QUERY_BYTES_MAX: Final = 300
"""Longer queries are not cached."""
_READING_BYTES: Final = 336
"""The size of a cached query in bytes, without its texts and values: four objects and a dictionary entry."""
_PATH_BYTES: Final = 300
"""The largest size of a name in `fields`, in bytes: a dictionary, its text and an entry in the parent dictionary."""
Reading = tuple[dict[str, Value], bytes, Projection | None, bool]
"""The values of a query, its cache key, the requested projection, and whether all callers get the same response."""
_PRICED = frozenset(("dry_run", "max_credits", "max_age", "fresh"))


class Readings:
    """The recently parsed queries of all endpoints, limited by their total size in bytes.

    The queries form two generations. When the recent generation reaches half of the limit, it replaces the older
    generation, which is dropped. An older query that is used again moves to the recent generation, so queries in use
    stay, and a hit needs only one lookup.
    """

    def __init__(self, bytes_max: int = READINGS_BYTES_MAX) -> None:
        self._generation_bytes_max = bytes_max // 2
        self._recent_bytes = 0
        self._endpoints: list[EndpointReadings] = []

    def of_endpoint(self) -> EndpointReadings:
        """Create and return the storage for the queries of one endpoint."""
        self._endpoints.append(endpoint := EndpointReadings(self))
        return endpoint

    def make_room(self, size: int) -> None:
        """Count `size` more bytes of recent queries, and start a new generation if half of the limit is reached."""
        self._recent_bytes += size
        if self._recent_bytes > self._generation_bytes_max:
            self._recent_bytes = size
            for endpoint in self._endpoints:
                endpoint.older, endpoint.recent = endpoint.recent, {}


class EndpointReadings:
    """The cached queries of one endpoint."""

    __slots__ = ("_all", "older", "recent")

    def __init__(self, every: Readings) -> None:
        self._all = every
        self.recent: dict[bytes, Reading] = {}
        self.older: dict[bytes, Reading] = {}

    def keep(self, query_string: bytes, reading: Reading) -> None:
        """Cache a query, unless it is too long."""
        if len(query_string) <= _QUERY_BYTES_MAX:
            self._all.make_room(_size_of(query_string, reading))
            self.recent[query_string] = reading


def _size_of(query_string: bytes, reading: Reading) -> int:
    """Return the largest number of bytes that a cached query can use."""
    values, key, part, _ = reading
    size = _READING_BYTES + len(query_string) + len(key) + getsizeof(values) + sum(map(getsizeof, values.values()))
    if part is not None:
        paths = str(values.get("fields", ""))
        size += _PATH_BYTES * (1 + paths.count(",") + paths.count(".")) + 4 * len(paths)
    return size


class DataEndpoint:
    """Serves one endpoint of the catalog."""

    def __init__(
        self,
        listing: Listing,
        *,
        cost_credits: int,
        calls: BilledCalls,
        replies: Replies,
        usage: FreeUsage,
        readings: Readings,
    ) -> None:
        self._listing = listing
        self._cost_credits = cost_credits
        self._calls = calls
        self._replies = replies
        self._count_hit = usage.hit
        usage.declare(listing.path, listing.site.platform.slug)
        self._rules = declared_by(listing.endpoint)
        self._is_list = listing.endpoint.archetype.many
        # Clients repeat the same few hundred queries constantly. The gain was measured (`docs/performance.md`).
        self._readings = readings.of_endpoint()

    @property
    def route(self) -> Route:
        """Return the routing table entry of this endpoint."""
        return Route(self._listing.path, self.answer, is_listed=self._listing.available)

    async def answer(self, request: Request, caller: Caller) -> Reply:
        """Check the parameters, then make the billed call."""
        query_string = request.query_string
        values, key, part, is_plain = self._readings.recent.get(query_string) or self._read(query_string)
        if not self._listing.available:
            raise unavailable()
        refresh = names(request.headers.get(b"cache-control"), b"no-cache")
        call = CallRequest(caller.key, self._listing, self._cost_credits, values, key, request.id, request.owe, refresh)
        idempotency = idempotency_key(request.headers.get(b"idempotency-key"))
        if not is_plain:
            call.refresh = call.refresh or self._wants_fresh(call)
            if "max_credits" in values:
                call.credits_max = int(values["max_credits"])
                await self._check_max_credits(call)
            if values.get("dry_run"):
                return await self._dry_run(request, caller, call)
        accept = request.headers.get(b"accept")
        if accept is not None and accept not in USUAL and self._is_list:
            part = negotiated(request, accept, part, named="format" in values)
        if idempotency is not None:
            refuse_stream(request)
            call.claim = claim_of(call, idempotency)
        is_streamed = False
        if request.stream is not None and self._listing.endpoint.streams and request.method == "GET":
            is_streamed, progress = True, _Progress(request.stream, self._listing.site)
            call.wants_more, call.on_leg = progress.page, progress.leg
        result = await self._calls.call(call)
        if result.cached:
            self._count_hit((caller.key.account_id, caller.key.id, self._listing.path))
        reply = self._replies.data(request, result) if part is None else await self._part(request, result, part)
        return replace(reply, streamed=True) if is_streamed else reply

    def _read(self, query_string: bytes) -> Reading:
        """Parse a query, and cache the result for later requests with the same query."""
        reading = self._readings.older.get(query_string)
        if reading is None:
            values = self._rules.read(query_of(query_string))
            part = projection_of(self._listing.endpoint.archetype, values)
            reading = values, cache_key(self._listing, values), part, _PRICED.isdisjoint(values)
        self._readings.keep(query_string, reading)
        return reading

    async def _part(self, request: Request, result: CallResult, part: Projection) -> Reply:
        """Return the requested part of a response in the requested format. A replayed error stays unchanged."""
        if result.replayed is not None and result.replayed.status >= 400:
            return self._replies.data(request, result)
        if part.form != "json":
            reply = self._replies.data(request, result)
            return await written(reply, self._listing.endpoint.archetype, result.fragment, part)
        assert part.tree is not None, "a projection selects fields or another format"
        return self._replies.data(request, replace(result, fragment=await cut(result.fragment, part.tree)))

    def _wants_fresh(self, call: CallRequest) -> bool:
        """Return whether the parameters request a fresh response, or a response younger than the cached one."""
        if "max_age" in call.values:
            return not self._calls.is_young(call, int(call.values["max_age"]) / 1_000)
        return bool(call.values.get("fresh"))

    async def _check_max_credits(self, call: CallRequest) -> None:
        """Refuse a call that would reserve more than `max_credits` allows (decisions 6).

        A cache hit is free and always passes.
        """
        refusal = above_max(call, self._calls.quote(call))
        if refusal is not None and not await self._calls.would_hit(call):
            raise refusal

    async def _dry_run(self, request: Request, caller: Caller, call: CallRequest) -> Reply:
        quote = self._calls.quote(call)
        hit = await self._calls.would_hit(call)
        data = {"estimated_credits": 0 if hit else quote.credits_least, "would_hit_cache": hit}
        if quote.credits > quote.credits_least and not hit:  # A call with several pages reserves more while it runs.
            data["reserved_credits"] = quote.credits
        if self._listing.endpoint.preview is not None:
            data |= self._listing.endpoint.preview(call.values)
        if "limit" in call.values:  # The effective value, capped at the endpoint's maximum.
            data["limit"] = int(call.values["limit"])
        stored = envelope.fragment(self._listing.site.platform.slug, self._listing.path, data)
        return await self._replies.free(request, caller, stored)


def unavailable() -> Refused:
    """Return a 503 without `Retry-After`, because a credential is missing and waiting does not help."""
    return Refused("SERVICE_UNAVAILABLE", "This endpoint needs a credential that the operator has not configured.")


def refuse_stream(request: Request) -> None:
    """Refuse an event stream with an idempotency key, because streams cannot be replayed (spec 7.2)."""
    if request.stream is not None:
        raise InvalidParam(
            "Idempotency-Key",
            "cannot be combined with Accept: text/event-stream",
            suggestion="Send only one of the two headers.",
            reason="conflicting_params",
        )


class _Progress:
    """Sends the events of one call, one at a time, even if several legs finish at the same time."""

    def __init__(self, stream: EventStream, site: Site) -> None:
        self._stream = stream
        self._site = site
        self._turn = trio.Lock()

    async def page(self, walked: Walked) -> bool:
        """Send the `page` event; return whether the client is still connected and wants more pages."""
        return await self._publish("page", walked._asdict())

    async def leg(self, leg: Leg, part: Part) -> None:
        """Send the `leg` event with the leg's own data. The call completes even if the client disconnects."""
        await self._publish("leg", {"leg": leg_record(leg), "data": self._data(leg, part)})

    async def _publish(self, name: str, data: Record) -> bool:
        async with self._turn:
            return await self._stream.publish(name, orjson.dumps(data))

    def _data(self, leg: Leg, part: Part) -> Record | None:
        """Return the `data` that the leg's endpoint would return on its own, or None if the leg has no result."""
        if not isinstance(leg.answer, Fetched):
            return None
        archetype, result = self._site.offering(part)[1].archetype, leg.answer.result
        if isinstance(result, Page):
            return {"items": archetype.rows(result.records, [])}
        return archetype.wrap(result.record, [])
