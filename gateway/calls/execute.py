"""The billed call: the one place where upstreams and billing meet (architecture 1, decisions 5 and 6).

A request and a monitor's run take the same steps: plan, reserve, call, shape, close. A request looks into the cache
first, and `BilledCalls` reserves and closes for it. A run never looks there, and reserves and closes in its own
transactions (`scheduler.monitors.runs`). Whatever happens after the reservation, the charge is closed: by the rules of
`billing.charges.refunds` after an answer, refunded after a failure or a cancellation; recovery refunds what a crash
leaves open.
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
from gateway.calls.parts import KeyParts, SharedParts
from gateway.calls.planning import Quote, above_max, quote
from gateway.calls.request import CallFailed, CallRequest, CallResult, binding
from gateway.calls.reservations import SETTLE_S, Reservations, charge_request
from gateway.calls.shaping import REQUEST, Shaped, shape_call
from gateway.http import envelope
from gateway.runtime import Runtime
from limits.idempotency import StoredReply
from storage.errors import StoreUnavailable
from upstreams.cache.response_cache import Cache
from upstreams.cache.shared_cache import CacheTurn, SharedCache
from upstreams.cache.single_flight import Flights
from upstreams.catalog import Listing
from upstreams.fetching.aside import LONG_BYTES
from upstreams.fetching.planned import GoOn, OnLeg, PartReader, Planned
from upstreams.fetching.walk import begin
from upstreams.model.cursors import CursorSigner
from upstreams.model.errors import UpstreamFailed
from upstreams.model.params import Args, State
from upstreams.model.steps import Fetched

_Miss = Callable[[CallRequest, Planned, float], Awaitable[CallResult]]


def plan_call(listing: Listing, args: Args, *, keeps: bool = False) -> Planned:
    """Run an endpoint's read up to its first call, for a request or a run; `keeps` the bodies of its calls.

    Raises:
        InvalidArgument, InvalidCursor: no call could answer it; free, since nothing was charged.
    """
    return begin(listing.site, listing.endpoint, args, keeps=keeps)


def make_call(
    planned: Planned,
    credits_held: int,
    cost_credits: int,
    deadline_at: float,
    *,
    stopping: Callable[[], bool],
    go_on: GoOn | None = None,
    parts: PartReader | None = None,
    on_leg: OnLeg | None = None,
) -> Awaitable[Fetched]:
    """Call the upstream for as many pages as the credits held are for, by `deadline_at` on Trio's clock.

    Raises:
        UpstreamError, LimitError: nothing usable came.
    """
    pages_max = pages_held(credits_held, cost_credits, planned.reach.pages_max)
    return planned.run(pages_max, deadline_at, go_on=go_on, stopping=stopping, parts=parts, on_leg=on_leg)


async def _refuse(why: str, _request: CallRequest, planned: Planned, _arrived: float) -> CallResult:
    await trio.lowlevel.checkpoint()
    planned.dismiss()
    raise StoreUnavailable(why)


class BilledCalls:
    """Makes billed calls; `timeout_s` bounds the upstream's part.

    While the node is stopping, walks end at their next page. `shared` is what many nodes have over their `cache`s.
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
        shared: SharedCache | None = None,
    ) -> None:
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
        # Chosen once, so that a node of its own pays nothing for the state that many nodes share.
        self._charged: _Miss = self._lead if shared is None else self._take_turn
        self._miss: _Miss = self._charged
        self.refusal: str | None = None
        """Says why nothing that costs is begun now; None: it is."""
        self._lookup = Lookup(balances, claims, cache, shared)
        put = cache.put if shared is None else shared.put
        self.parts = SharedParts(cache, put, self.flights, signer, WeakValueDictionary())
        self.would_hit = self._lookup.would_hit

    def change(self, *, timeout_s: float) -> None:
        """Bound the calls that begin from now on."""
        self.timeout_s = timeout_s

    def refuse_new(self, why: str | None) -> None:
        """Refuse every call that would be charged from now on, as where the store is away; None: take them again."""
        self._miss = self._charged if why is None else partial(_refuse, why)
        self.refusal = why

    def is_young(self, request: CallRequest, age_s_max: float) -> bool:
        """Whether an answer from the cache, if there is one, is no older; every one is where it is kept no longer."""
        older_s = request.listing.endpoint.cache_ttl_s - age_s_max
        return older_s <= 0 or self.cache.holds(request.cache_key, for_s=older_s)

    def quote(self, request: CallRequest) -> Quote:
        """The reservation that `call` would make; everything that it refuses for free is refused here too.

        Raises:
            InvalidArgument, InvalidCursor: the values cannot be used.
            UpstreamError, LimitError: what is known already answers it so.
        """
        planned = self._plan(request)
        planned.dismiss()
        return quote(planned.reach, request.cost_credits, request.credits_max)

    async def call(self, request: CallRequest) -> CallResult:
        """One answer, billed once or not at all: from the cache, from an identical call, or from the upstream.

        Raises:
            InvalidArgument, InvalidCursor: the values cannot be used; nothing was charged.
            UpstreamError, LimitError: what is known already answers it so; nothing was charged.
            InsufficientCredits, KeyBudgetReached, KeyUnusable, StorageError: nothing was charged.
            WorkersBusy: too much waits to be read already; nothing was charged.
            CallFailed: the upstream failed; what was charged is refunded as far as the store could.
        """
        if not request.refresh and (stored := self.cache.get(request.cache_key)) is not None:
            balance = self.balances.nowait(request.key.account_id)
            if balance is not None and request.claim is None:  # nearly always, and it waits for nothing
                return CallResult(stored, 0, balance, cached=True)
            return await self._lookup.hit(request, stored)
        planned = self._plan(request)
        arrived = self.clock()
        if request.claim is not None:  # it may not wait for another's call: a second one under its key is told at once
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
        except trio.TooSlowError as exc:  # of another's call, here or on another node
            slug = request.listing.site.platform.slug
            raise UpstreamFailed(slug, f"no answer within {self.timeout_s:g} s", passing=True) from exc
        return result

    def _plan(self, request: CallRequest) -> Planned:
        planned = plan_call(request.listing, self._args(request))
        if planned.refusal is not None:
            raise planned.refusal
        return planned

    async def _follow(self, request: CallRequest, flight: Hashable, arrived: float) -> CallResult | None:
        """Follow an identical call that is under way and settle as a cache hit (decisions 8); None: lead the next."""
        result = await self.flights.follow(flight, arrived + self.timeout_s)
        if result is None:
            return None
        hit = await self._lookup.hit(request, result.fragment if result.stored is None else result.stored)
        hit.upstream_s = self.clock() - arrived
        return hit

    async def _take_turn(self, request: CallRequest, planned: Planned, arrived: float) -> CallResult:
        """Lead the call for all nodes, or settle as a cache hit with another one's answer (decisions 8)."""
        assert self.shared is not None, "a node of its own leads at once"
        if request.refresh:
            return await self._lead(request, planned, arrived)
        waits = request.claim is None
        async with self.shared.turn(request.cache_key, arrived + self.timeout_s, waits=waits) as turn:
            if turn.found is None:
                # What would have been a hit when the price was looked at may be gone by now.
                quoted = quote(planned.reach, request.cost_credits, request.credits_max)
                if (refusal := above_max(request, quoted)) is not None:
                    raise refusal
                return await self._lead(request, planned, arrived, turn)
            hit = await self._lookup.hit(request, turn.found)
            hit.upstream_s = turn.waited_s
            return hit

    async def _lead(
        self, request: CallRequest, planned: Planned, arrived: float, turn: CacheTurn | None = None
    ) -> CallResult:
        """Reserve, call, shape, store the answer, close the charge."""
        if request.listing.endpoint.by_workers:
            request.listing.site.workers.check_room(request.key.account_id)
        quoted = quote(planned.reach, request.cost_credits, request.credits_max)
        charge = await self.reservations.reserve(charge_request(request, quoted), request.claim)
        if isinstance(charge, StoredReply):
            return await self._lookup.replay(request, charge)
        started, deadline_at = self.clock(), arrived + self.timeout_s
        try:
            fetched = await make_call(
                planned,
                charge.credits,
                request.cost_credits,
                deadline_at,
                go_on=request.go_on,
                stopping=self._stopping,
                parts=self._parts_of(request),
                on_leg=request.on_leg,
            )
            if fetched.body_bytes <= LONG_BYTES:
                shaped, used, fragment, stored = self._encode(request, charge, fetched)
            else:
                encode, site = partial(self._encode, request, charge, fetched), request.listing.site
                shaped, used, fragment, stored = await site.aside.run(
                    encode, deadline_at, source=site.platform.slug, account_id=request.key.account_id
                )
        except Exception as exc:
            reply = self.reservations.refusal_to_store(request.claim, exc)
            closing = self.reservations.close(request.claim, charge, NOTHING_USED, reply)
            used, balance = await closing  # noqa: ASYNC120 - it shields itself
            raise CallFailed(used, balance, self.clock() - started) from exc
        except BaseException:  # cancelled: nobody gets an answer, and nothing stays charged or claimed
            with trio.move_on_after(SETTLE_S, shield=True):
                await self.reservations.close(request.claim, charge, NOTHING_USED)
            raise
        if shaped.cacheable:
            self._lookup.store(request, stored, turn)
        result = CallResult(fragment, used, charge.balance_after, fetched.took_s, started - arrived)
        result.whole, result.stored = fetched.whole, stored
        if used == charge.credits and request.claim is None:  # nobody has to wait for its closing
            request.owe(charge)
            return result
        return await self._settle(request, charge, result)

    def _parts_of(self, request: CallRequest) -> KeyParts | None:
        """The reader of a composite's parts; None for an endpoint that has none."""
        if not request.listing.endpoint.archetype.has_legs:
            return None
        return self.parts.of_key(request.key.id, refresh=request.refresh)

    def _encode(self, request: CallRequest, charge: Charge, fetched: Fetched) -> tuple[Shaped, int, bytes, bytes]:
        """The shaped answer, how much it used of the charge, and its encoded fragment, as it is and as it is stored."""
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
        """Close the charge with what the result used, and wait for it: the result as the ledger then has it.

        A claimed one is waited for so that a retry finds its reply, a refund since the answer names the balance.
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
