"""Data endpoints: `GET /v1/{platform}/{resource}`, billed (spec 4.1)."""

from __future__ import annotations

from dataclasses import replace

from billing.ledger.free_usage import FreeUsage
from gateway.api.parsed_queries import ParsedQueries
from gateway.api.progress import Progress
from gateway.api.projection import USUAL, Projection, cut, negotiated, written
from gateway.api.responses import Replies
from gateway.calls.execute import BilledCalls
from gateway.calls.idempotency import idempotency_key
from gateway.calls.request import CallRequest, CallResult, claim_of
from gateway.calls.terms import apply_terms, estimate
from gateway.http import envelope
from gateway.http.errors import InvalidParam, Refused
from gateway.http.request import Caller, Reply, Request, names
from gateway.http.routing import Route
from upstreams.catalog import Listing


class DataEndpoint:
    """Serves one endpoint of the catalog: reads the request, makes the billed call, and writes the response."""

    def __init__(
        self,
        listing: Listing,
        *,
        cost_credits: int,
        calls: BilledCalls,
        replies: Replies,
        usage: FreeUsage,
        queries: ParsedQueries,
    ) -> None:
        self._listing = listing
        self._cost_credits = cost_credits
        self._calls = calls
        self._replies = replies
        self._count_hit = usage.hit
        usage.declare(listing.path, listing.site.platform.slug)
        self.queries = queries.of_endpoint(listing)

    @property
    def route(self) -> Route:
        """Return the routing table entry of this endpoint."""
        return Route(self._listing.path, self.answer, is_listed=self._listing.available)

    async def answer(self, request: Request, caller: Caller) -> Reply:
        """Check the parameters, then make the billed call."""
        query_string = request.query_string
        values, key, part, is_plain = self.queries.recent.get(query_string) or self.queries.parse(query_string)
        if not self._listing.available:
            raise unavailable()
        refresh = names(request.headers.get(b"cache-control"), b"no-cache")
        call = CallRequest(caller.key, self._listing, self._cost_credits, values, key, request.id, request.owe, refresh)
        idempotency = idempotency_key(request.headers.get(b"idempotency-key"))
        if not is_plain:
            await apply_terms(self._calls, call)
            if values.get("dry_run"):
                slug, data = self._listing.site.platform.slug, await estimate(self._calls, call)
                return await self._replies.free(request, caller, envelope.fragment(slug, self._listing.path, data))
        if idempotency is not None:
            refuse_stream(request)
            call.claim = claim_of(call, idempotency)
        is_streamed = False
        if request.stream is not None and self._listing.endpoint.streams and request.method == "GET":
            is_streamed, progress = True, Progress(request.stream, self._listing.site)
            call.wants_more, call.on_leg = progress.page, progress.leg
        accept = request.headers.get(b"accept")
        if accept is not None and accept not in USUAL and self._listing.endpoint.archetype.many:
            part = negotiated(request, accept, part, named="format" in values)
        result = await self._calls.call(call)
        if result.cached:
            self._count_hit((caller.key.account_id, caller.key.id, self._listing.path))
        reply = self._replies.data(request, result) if part is None else await self._part(request, result, part)
        return replace(reply, streamed=True) if is_streamed else reply

    async def _part(self, request: Request, result: CallResult, part: Projection) -> Reply:
        """Return the requested part of a response in the requested format. A replayed error stays unchanged."""
        if result.replayed is not None and result.replayed.status >= 400:
            return self._replies.data(request, result)
        if part.form != "json":
            reply = self._replies.data(request, result)
            return await written(reply, self._listing.endpoint.archetype, result.fragment, part)
        assert part.tree is not None, "a projection selects fields or another format"
        return self._replies.data(request, replace(result, fragment=await cut(result.fragment, part.tree)))


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
