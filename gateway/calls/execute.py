"""Billed calls: the only code that uses both upstreams and billing (architecture 1, decisions 5 and 6).

A request and a monitor run share the same steps: plan, reserve, call, shape, settle. For a request, `BilledCalls` first
looks in the cache, then reserves and settles. A run does not use the cache, and reserves and settles in its own
transactions (`scheduler.monitors.runs`). After a reservation, the charge is always closed. After a response or a
failure, the rules of `billing.charges.refunds` apply; after a cancellation, all credits are refunded. Recovery refunds
charges that a crash leaves open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from weakref import WeakValueDictionary

import trio

from billing.accounts.balances import Balances
from billing.charges.batch_rows import Charge
from billing.charges.charges import Charges
from billing.charges.refunds import NOTHING_USED, pages_held
from gateway.calls.idempotency import Claims
from gateway.calls.lookup import Lookup
from gateway.calls.parts import KeyPartReader, PartReaders
from gateway.calls.planning import Quote, above_max, quote
from gateway.calls.pricing import used_by_error
from gateway.calls.request import CallFailed, CallRequest, CallResult, binding
from gateway.calls.reservations import SETTLE_S, Reservations, charge_request
from gateway.calls.shaping import REQUEST, Shaped, shape_call
from gateway.http import envelope
from gateway.runtime import Runtime
from limits.idempotency import StoredReply
from storage.disk_watch import DiskWatch
from storage.errors import StoreUnavailable
from upstreams.cache.response_cache import Cache
from upstreams.cache.shared_cache import CacheTurn, SharedCache
from upstreams.cache.single_flight import Flights
from upstreams.fetching.aside import LONG_BYTES
from upstreams.fetching.plan import Conduct, Plan, prepare
from upstreams.fetching.walk import run_plan
from upstreams.model.cursors import CursorSigner
from upstreams.model.errors import UpstreamFailed
from upstreams.model.params import Args, State
from upstreams.model.steps import Fetched

_Miss = Callable[[CallRequest, Plan, float], Awaitable[CallResult]]


class BilledCalls:
    """Makes billed calls. `timeout_s` limits the time spent upstream.

    While the node is stopping, walks end at their next page. While `disk` has too little space, calls are refused.
    `shared` is the cache that several nodes share.
    """

    def __init__(
        self,
        charges: Charges,
        balances: Balances,
        claims: Claims,
        *,
        cache: Cache,
        signer: CursorSigner,
        runtime: Runtime,
        timeout_s: float,
        base_url: str,
        disk: DiskWatch,
        shared: SharedCache | None = None,
    ) -> None:
        self._disk = disk
        self.reservations = Reservations(charges, claims, base_url)
        self.balances = balances
        self.claims = claims
        self.cache = cache
        self.shared = shared
        self.timeout_s = timeout_s
        self._signer = signer
        self.now = runtime.now
        self._stopping = runtime.stopping.is_set
        self.clock = runtime.clock
        self.flights = Flights[CallResult](lambda result: result.whole)
        # Chosen once, at the start, so that a single node has no overhead for shared state.
        self._charged: _Miss = self._lead if shared is None else self._take_turn
        self._lookup = Lookup(balances, claims, cache, shared)
        put = cache.put if shared is None else shared.put
        self.parts = PartReaders(cache, put, self.flights, signer, WeakValueDictionary())
        self.would_hit = self._lookup.would_hit

    def change(self, *, timeout_s: float) -> None:
        """Change the timeout of calls that start from now on."""
        self.timeout_s = timeout_s

    @property
    def refusal(self) -> str | None:
        """Why no billed call may start now. None if calls are allowed."""
        return self._disk.refusal

    def is_young(self, request: CallRequest, age_s_max: float) -> bool:
        """Return whether a cached response is at most this old. Always true if the cache drops it by that age."""
        older_s = request.listing.endpoint.cache_ttl_s - age_s_max
        return older_s <= 0 or self.cache.holds(request.cache_key, for_s=older_s)

    def quote(self, request: CallRequest) -> Quote:
        """Return the reservation that `call` would make. Raises the same errors as `call` does before charging.

        Raises:
            InvalidArgument, InvalidCursor: the values cannot be used.
            UpstreamError, LimitError: the outcome is already known.
        """
        planned = self._plan(request)
        planned.dismiss()
        return quote(planned.reach, request.cost_credits, request.credits_max)

    async def call(self, request: CallRequest) -> CallResult:
        """Return a response from the cache, an identical call or the upstream, billed at most once.

        Raises:
            InvalidArgument, InvalidCursor: the values cannot be used; nothing was charged.
            UpstreamError, LimitError: the outcome is already known; nothing was charged.
            InsufficientCredits, KeyBudgetReached, KeyUnusable, StorageError: nothing was charged.
            WorkersBusy: too many pages are waiting to be read; nothing was charged.
            CallFailed: the upstream failed; the charge is refunded, except for the price of a page that was too costly.
        """
        if not request.refresh and (stored := self.cache.get(request.cache_key)) is not None:
            balance = self.balances.nowait(request.key.account_id)
            # The common case: the balance is in memory, so there is no wait.
            if balance is not None and request.claim is None:
                return CallResult(stored, 0, balance, cached=True)
            return await self._lookup.hit(request, stored)
        planned = self._plan(request)
        arrived = self.clock()
        # A claimed request never waits for another call, because a second request with its key is rejected immediately.
        if request.claim is not None:
            return await self._miss(request, planned, arrived)
        flight, result = (request.cache_key, request.refresh), None
        try:
            if flight in self.flights and (hit := await self._follow(request, flight, arrived)) is not None:
                return hit
            self.flights.begin(flight)
            try:
                result = await self._miss(request, planned, arrived)
            finally:
                self.flights.end(flight, result)
        except trio.TooSlowError as exc:  # Raised by the wait for another request's call, on any node.
            slug = request.listing.site.platform.slug
            raise UpstreamFailed(slug, f"no response within {self.timeout_s:g} s", passing=True) from exc
        return result

    def _plan(self, request: CallRequest) -> Plan:
        planned = prepare(request.listing.site, request.listing.endpoint, self._args(request))
        if planned.refusal is not None:
            raise planned.refusal
        return planned

    async def _follow(self, request: CallRequest, flight: Hashable, arrived: float) -> CallResult | None:
        """Wait for an identical call in progress, and settle as a cache hit (decisions 8).

        Return None if a new call is needed.
        """
        result = await self.flights.follow(flight, arrived + self.timeout_s)
        if result is None:
            return None
        hit = await self._lookup.hit(request, result.fragment if result.stored is None else result.stored)
        hit.upstream_s = self.clock() - arrived
        return hit

    def _miss(self, request: CallRequest, planned: Plan, arrived: float) -> Awaitable[CallResult]:
        """Make the call. Raises StoreUnavailable if the disk is full."""
        if (why := self._disk.refusal) is not None:
            planned.dismiss()
            raise StoreUnavailable(why)
        return self._charged(request, planned, arrived)

    async def _take_turn(self, request: CallRequest, planned: Plan, arrived: float) -> CallResult:
        """Make the call on behalf of all nodes, or settle as a cache hit with another call's response (decisions 8)."""
        assert self.shared is not None, "a single node takes no turns"
        if request.refresh:
            return await self._lead(request, planned, arrived)
        waits = request.claim is None
        async with self.shared.turn(request.cache_key, arrived + self.timeout_s, waits=waits) as turn:
            if turn.found is None:
                # The cache entry that was there when the call was priced may have expired.
                quoted = quote(planned.reach, request.cost_credits, request.credits_max)
                if (refusal := above_max(request, quoted)) is not None:
                    raise refusal
                return await self._lead(request, planned, arrived, turn)
            hit = await self._lookup.hit(request, turn.found)
            hit.upstream_s = turn.waited_s
            return hit

    async def _lead(
        self, request: CallRequest, planned: Plan, arrived: float, turn: CacheTurn | None = None
    ) -> CallResult:
        """Reserve, call, shape, store the response, and settle the charge."""
        if request.listing.endpoint.by_workers:
            request.listing.site.workers.check_room(request.key.account_id)
        quoted = quote(planned.reach, request.cost_credits, request.credits_max)
        charge = await self.reservations.reserve(charge_request(request, quoted), request.claim)
        if isinstance(charge, StoredReply):
            return await self._lookup.replay(request, charge)
        started, deadline_at = self.clock(), arrived + self.timeout_s
        try:
            pages_max = pages_held(charge.credits, request.cost_credits, planned.reach.pages_max)
            conduct = Conduct(pages_max, request.wants_more, self._stopping, self._parts_of(request), request.on_leg)
            fetched = await run_plan(planned, conduct, deadline_at)
            if fetched.body_bytes <= LONG_BYTES:
                shaped, used, fragment, stored = self._encode(request, charge, fetched)
            else:
                encode, site = partial(self._encode, request, charge, fetched), request.listing.site
                shaped, used, fragment, stored = await site.aside.run(
                    encode, deadline_at, source=site.platform.slug, account_id=request.key.account_id
                )
        except Exception as exc:
            reply = self.reservations.refusal_to_store(request.claim, exc)
            used = used_by_error(exc, request.listing.endpoint, planned, charge.credits)
            closing = self.reservations.close(request.claim, charge, used, reply)
            used, balance = await closing  # noqa: ASYNC120 - it shields itself
            raise CallFailed(used, balance, self.clock() - started) from exc
        except BaseException:  # Cancelled: no response is sent, so refund the charge and release the claim.
            with trio.move_on_after(SETTLE_S, shield=True):
                await self.reservations.close(request.claim, charge, NOTHING_USED)
            raise
        if shaped.cacheable:
            self._lookup.store(request, stored, turn)
        result = CallResult(fragment, used, charge.balance_after, fetched.took_s, started - arrived)
        result.whole, result.stored = fetched.whole, stored
        # There is nothing to refund and no claim to finish, so the response need not wait for the settlement.
        if used == charge.credits and request.claim is None:
            request.owe(charge)
            return result
        return await self._settle(request, charge, result)

    def _parts_of(self, request: CallRequest) -> KeyPartReader | None:
        """Return the reader of a composite's parts; None for other endpoints."""
        if not request.listing.endpoint.archetype.has_legs:
            return None
        return self.parts.of_key(request.key.id, refresh=request.refresh)

    def _encode(self, request: CallRequest, charge: Charge, fetched: Fetched) -> tuple[Shaped, int, bytes, bytes]:
        """Return the shaped response, the credits used, and its encoded fragment, both as sent and as cached."""
        listing = request.listing
        shaped, used = shape_call(
            listing,
            fetched,
            charge.credits,
            request.cost_credits,
            seal=partial(self._seal, request),
            terms=REQUEST,
        )
        fragment = envelope.fragment(listing.site.platform.slug, listing.path, shaped.data, shaped.pagination)
        return shaped, used, fragment, listing.endpoint.archetype.as_stored(fragment)

    async def _settle(self, request: CallRequest, charge: Charge, result: CallResult) -> CallResult:
        """Settle the charge with the credits used, and return the result as recorded in the ledger.

        A claimed call waits for the settlement, so that a retry finds the reply. A refund also waits, because the
        response contains the balance.
        """
        reply = None if request.claim is None else StoredReply(200, result.fragment.decode(), request.request_id)
        closing = self.clock()
        result.credits_used, result.balance = await self.reservations.close(
            request.claim, charge, result.credits_used, reply
        )
        result.close_s = self.clock() - closing
        return result

    def _args(self, request: CallRequest) -> Args:
        token = request.values.get("cursor")
        state = self._signer.open(binding(request), str(token)) if token is not None else None
        return Args(request.values, state, request.listing.site.credentials, self.now(), request.key.account_id)

    def _seal(self, request: CallRequest, state: State) -> str:
        return self._signer.seal(binding(request), state)
