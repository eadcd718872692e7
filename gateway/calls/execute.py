"""The billed call: the one place where upstreams and billing meet (architecture 1, decisions 5 and 6).

Cache, then the charge, then the upstream, then the charge's close. Whatever happens in between, the charge is closed:
in full after a success, refunded after a failure or a cancellation; what a crash leaves open, recovery refunds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from functools import partial

import trio

from billing.accounts.balances import Balances
from billing.charges.batch_rows import Charge, ChargeRequest
from billing.charges.charges import Charges, close_request
from gateway.calls.idempotency import Begin, ClaimEnd, Claims
from gateway.calls.planning import Quote, begin, dismiss, price, used_by, walk_quote, walk_within
from gateway.calls.request import CallFailed, CallRequest, CallResult, above_max, binding, charge_request
from gateway.calls.shaping import Shaped, explained, shape, share_out
from gateway.http import envelope
from gateway.http.errors import refusal_of
from limits.idempotency import Claim, StoredReply
from storage.errors import StorageError
from upstreams.cache.response_cache import Cache
from upstreams.cache.shared_cache import CacheTurn, SharedCache
from upstreams.cache.single_flight import Flights
from upstreams.fetching.aside import LONG_BYTES
from upstreams.fetching.fetch import Plan, fetch
from upstreams.fetching.walk import Walk, Walked
from upstreams.model.cursors import CursorSigner
from upstreams.model.errors import UpstreamFailed
from upstreams.model.params import Args, State
from upstreams.model.steps import Fetched

SETTLE_S = 5.0

_Miss = Callable[[CallRequest, Plan | Walk, float], Awaitable[CallResult]]


class BilledCalls:
    """Makes billed calls. `now` gives Unix seconds, `clock` is Trio's; `timeout_s` bounds the upstream's part.

    While the node is `stopping`, walks end at their next page. `shared` is what many nodes have over their `cache`s.
    """

    def __init__(
        self,
        charges: Charges,
        balances: Balances,
        claims: Claims,
        *,
        cache: Cache,
        signer: CursorSigner,
        now: Callable[[], float],
        timeout_s: float,
        base_url: str,
        stopping: Callable[[], bool],
        clock: Callable[[], float],
        shared: SharedCache | None = None,
    ) -> None:
        self._charges = charges
        self._balances = balances
        self.claims = claims
        self.cache = cache
        self.shared = shared
        self.timeout_s = timeout_s
        self._signer = signer
        self._now = now
        self._base_url = base_url
        self._stopping = stopping
        self._clock = clock
        self.flights = Flights[CallResult](lambda outcome: outcome.whole)
        # Chosen once, so that a node of its own pays nothing for what many nodes have between them.
        self._miss: _Miss = self._lead if shared is None else self._take_turn
        self._put = cache.put if shared is None else shared.put

    async def would_hit(self, ask: CallRequest) -> bool:
        """Whether the cache would answer."""
        await trio.lowlevel.checkpoint()
        if ask.refresh:
            return False
        return self.cache.holds(ask.cache_key) if self.shared is None else await self.shared.holds(ask.cache_key)

    def quote(self, ask: CallRequest) -> Quote:
        """What `call` would reserve; everything that it refuses for free is refused here too.

        Raises:
            InvalidArgument, InvalidCursor: the values cannot be used.
        """
        planned = begin(ask.listing, self._args(ask))
        dismiss(planned)
        return price(planned, ask.cost_credits, ask.credits_max)

    async def call(self, ask: CallRequest) -> CallResult:
        """One answer, billed once or not at all.

        Raises:
            InvalidArgument, InvalidCursor: the values cannot be used; nothing was charged.
            InsufficientCredits, KeyBudgetReached, KeyUnusable, StorageError: nothing was charged.
            CallFailed: the upstream failed; what was charged is refunded as far as the store could.
        """
        if not ask.refresh and (stored := self.cache.get(ask.cache_key)) is not None:
            balance = self._balances.nowait(ask.key.account_id)
            if balance is not None and ask.claim is None:  # nearly always, and it waits for nothing
                return CallResult(stored, 0, balance, cached=True)
            return await self._hit(ask, stored)
        planned = begin(ask.listing, self._args(ask))
        arrived = self._clock()
        if ask.claim is not None:  # it may not wait for another's call: a second one under its key is told so at once
            return await self._miss(ask, planned, arrived)
        flight, outcome = (ask.cache_key, ask.refresh), None
        try:
            if flight in self.flights and (hit := await self._follow(ask, flight, arrived)) is not None:
                return hit
            self.flights.begin(flight)
            try:
                outcome = await self._miss(ask, planned, arrived)
            finally:
                self.flights.end(flight, outcome)
        except trio.TooSlowError as exc:  # of another's call, here or on another node
            slug = ask.listing.site.platform.slug
            raise UpstreamFailed(slug, f"no answer within {self.timeout_s:g} s", passing=True) from exc
        return outcome

    async def _follow(self, ask: CallRequest, flight: Hashable, arrived: float) -> CallResult | None:
        """Follow an identical call that is under way and settle as a cache hit (decisions 8); None: lead the next."""
        outcome = await self.flights.follow(flight, arrived + self.timeout_s)
        if outcome is None:
            return None
        hit = await self._hit(ask, outcome.fragment)
        hit.upstream_s = self._clock() - arrived
        return hit

    async def _take_turn(self, ask: CallRequest, planned: Plan | Walk, arrived: float) -> CallResult:
        """Lead the call for all nodes, or settle as a cache hit with what another one found (decisions 8)."""
        assert self.shared is not None, "a node of its own leads at once"
        if ask.refresh:
            return await self._lead(ask, planned, arrived)
        async with self.shared.turn(ask.cache_key, arrived + self.timeout_s, waits=ask.claim is None) as turn:
            if turn.found is None:
                # What would have been a hit when the price was looked at may be gone by now.
                if (
                    refusal := above_max(ask, price(planned, ask.cost_credits, ask.credits_max).credits_least)
                ) is not None:
                    raise refusal
                return await self._lead(ask, planned, arrived, turn)
            hit = await self._hit(ask, turn.found)
            hit.upstream_s = turn.waited_s
            return hit

    async def _lead(
        self, ask: CallRequest, planned: Plan | Walk, arrived: float, turn: CacheTurn | None = None
    ) -> CallResult:
        """Charge, ask the upstream, store the answer, close the charge."""
        request = charge_request(ask, walk_quote(planned, ask.cost_credits, ask.credits_max))
        charge = await (self._charges.take(request) if ask.claim is None else self._claim(ask.claim, request))
        if isinstance(charge, StoredReply):
            return await self._replay(ask, charge)
        started, deadline_at = self._clock(), arrived + self.timeout_s
        try:
            if isinstance(planned, Plan):
                fetched = await fetch(planned, deadline_at)
            else:
                fetched = await walk_within(
                    planned, charge.credits, ask.cost_credits, deadline_at=deadline_at, go_on=partial(self._go_on, ask)
                )
            if fetched.body_bytes <= LONG_BYTES:
                shaped, used, stored = self._encode(ask, charge, fetched)
            else:
                encode, site = partial(self._encode, ask, charge, fetched), ask.listing.site
                shaped, used, stored = await site.aside.run(encode, deadline_at, source=site.platform.slug)
        except Exception as exc:
            kept = self._kept_refusal(ask, exc)
            used, balance = await self._close(ask, charge, used=0, kept=kept)  # noqa: ASYNC120 - it shields itself
            raise CallFailed(used, balance, self._clock() - started) from exc
        except BaseException:  # cancelled: nobody is told, but nothing stays charged or claimed
            with trio.move_on_after(SETTLE_S, shield=True):
                await self._close(ask, charge, used=0)
            raise
        if shaped.cacheable:
            ttl_s = ask.listing.endpoint.cache_ttl_s
            if turn is None:
                self._put(ask.cache_key, stored, ttl_s)
            else:
                turn.keep(stored, ttl_s)
        charge_s = started - arrived
        if used == charge.credits and ask.claim is None:  # nobody has to wait for its closing
            self._charges.settle_nowait(charge)
            return CallResult(stored, used, charge.balance_after, fetched.took_s, charge_s, whole=fetched.whole)
        closing = self._clock()
        used, balance = await self._settle(ask, charge, used, stored)
        close_s = self._clock() - closing
        return CallResult(stored, used, balance, fetched.took_s, charge_s, close_s, whole=fetched.whole)

    def _encode(self, ask: CallRequest, charge: Charge, fetched: Fetched) -> tuple[Shaped, int, bytes]:
        """The shaped answer, how much of the charge it cost, and its encoded fragment."""
        result = explained(fetched, "; next_cursor goes on")
        shaped = shape(ask.listing.endpoint.archetype, result, partial(self._seal, ask))
        used = _used(ask, charge, fetched, shaped)
        if "legs" in shaped.data:
            share_out(shaped.data["legs"], used)
        slug = ask.listing.site.platform.slug
        return shaped, used, envelope.fragment(slug, ask.listing.path, shaped.data, shaped.pagination)

    async def _go_on(self, ask: CallRequest, walked: Walked) -> bool:
        is_wanted = ask.go_on is None or await ask.go_on(walked)
        return is_wanted and not self._stopping()

    async def _hit(self, ask: CallRequest, stored: bytes) -> CallResult:
        """A cached answer; under an idempotency key it becomes that key's outcome."""
        if ask.claim is not None:
            begun = await self.claims.begin(
                Begin(ask.claim, None, StoredReply(200, stored.decode(), ask.request_id, cached=True))
            )
            if isinstance(begun, StoredReply):
                return await self._replay(ask, begun)
        return CallResult(stored, 0, await balance_of(self._balances, ask.key.account_id), cached=True)

    async def _replay(self, ask: CallRequest, kept: StoredReply) -> CallResult:
        assert kept.text is not None, "an outcome without its text is refused, not replayed"
        balance = self._balances.nowait(ask.key.account_id)
        if balance is None:
            balance = await balance_of(self._balances, ask.key.account_id)
        return CallResult(kept.text.encode(), 0, balance, replayed=kept)

    async def _claim(self, claim: Claim, request: ChargeRequest) -> Charge | StoredReply:
        """Take the charge, and claim the idempotency key in the same transaction."""
        begun = await self.claims.begin(Begin(claim, request))
        assert begun is not None, "only a cache hit begins without a charge"
        return begun

    def _kept_refusal(self, ask: CallRequest, exc: Exception) -> StoredReply | None:
        """The outcome that a failure leaves under its key; one that is worth a retry leaves none."""
        refused = refusal_of(exc)
        if ask.claim is None or refused.code.retryable:
            return None
        text = envelope.error_fragment(refused, self._base_url).decode()
        return StoredReply(refused.code.status, text, ask.request_id)

    async def _settle(self, ask: CallRequest, charge: Charge, used: int, stored: bytes) -> tuple[int, int | None]:
        """Keep what was used of the charge, and wait for it: what it cost, and the balance after it.

        A claimed one is waited for so that a retry finds its outcome, a refund since the answer names the balance.
        """
        kept = None if ask.claim is None else StoredReply(200, stored.decode(), ask.request_id)
        return await self._close(ask, charge, used=used, kept=kept)

    async def _close(
        self, ask: CallRequest, charge: Charge, *, used: int, kept: StoredReply | None = None
    ) -> tuple[int, int | None]:
        """Refund what was not used; when the store does not confirm it in time, the charge stands until recovery."""
        with trio.move_on_after(SETTLE_S, shield=True):
            try:
                if ask.claim is None:
                    closed = await self._charges.close(charge, used=used)
                else:
                    closed = await self.claims.end(ClaimEnd(ask.claim, close_request(charge, used=used), kept))
            except StorageError:
                return charge.credits, None
            return closed.credits_used, closed.balance_after
        return charge.credits, None

    def _args(self, ask: CallRequest) -> Args:
        token = ask.values.get("cursor")
        state = self._signer.open(binding(ask), str(token)) if token is not None else None
        return Args(ask.values, state, ask.listing.site.credentials, self._now())

    def _seal(self, ask: CallRequest, state: State) -> str:
        return self._signer.seal(binding(ask), state)


async def balance_of(balances: Balances, account_id: str) -> int | None:
    """The account's balance, or None while the store is away."""
    known = balances.nowait(account_id)
    if known is not None:
        return known
    try:
        return await balances.read(account_id)
    except StorageError:
        return None


def _used(ask: CallRequest, charge: Charge, fetched: Fetched, shaped: Shaped) -> int:
    """What of the charge an answer cost: a walk its pages; a composite half when less than half came of it."""
    used = used_by(ask.listing, fetched, credits_held=charge.credits, cost_credits=ask.cost_credits)
    if shaped.coverage < 0.5:
        return used - used // 2 if shaped.coverage else 0
    return used
