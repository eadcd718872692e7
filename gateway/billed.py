"""The billed call: the one place where upstreams and billing meet (architecture 1, decisions 5 and 6).

Cache, then the charge, then the upstream, then the charge's close. Whatever happens in between, the charge is closed:
in full after a success, refunded after a failure or a cancellation; what a crash leaves open, recovery refunds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import orjson
import trio

from billing.balances import Balances
from billing.books import Charge, ChargeRequest
from billing.charges import Charges, close_request
from billing.key_cache import Key
from gateway import envelope
from gateway.claims import Begin, Claims, End, fingerprint
from gateway.errors import refusal_of
from gateway.shape import Shaped, shape
from limits.idempotency import Claim, Kept
from storage.errors import StorageError
from upstreams.cache import Cache
from upstreams.catalog import Listing
from upstreams.cursors import CursorSigner
from upstreams.endpoint import Args, Fetched, State, Value
from upstreams.errors import UpstreamFailed
from upstreams.fetch import Plan, fetch, plan
from upstreams.flights import Flights

SETTLE_S = 5.0


class Ask(NamedTuple):
    """One call of an endpoint: who asks, for what, under which request id."""

    key: Key
    listing: Listing
    cost_credits: int
    values: dict[str, Value]
    request_id: str
    refresh: bool = False
    """True: do not answer from the cache, but store what comes (`Cache-Control: no-cache`)."""
    claim: Claim | None = None
    """What an `Idempotency-Key` claims for this request."""


class Outcome(NamedTuple):
    """What a call gave: the encoded fragment of the envelope, and what it cost."""

    fragment: bytes
    credits_used: int
    balance: int | None
    cached: bool
    upstream_s: float = 0.0
    replayed: Kept | None = None
    """An earlier request's outcome under the same idempotency key; then the fragment is its own."""


class CallFailed(Exception):
    """A call failed after its charge; the cause is in `__cause__`, the money as it stands in the fields."""

    def __init__(self, credits_used: int, balance: int | None, upstream_s: float) -> None:
        super().__init__("the billed call failed")
        self.credits_used = credits_used
        self.balance = balance
        self.upstream_s = upstream_s


class BilledCalls:
    """Makes billed calls. `now` gives Unix seconds; `timeout_s` bounds the upstream's part of a call."""

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
    ) -> None:
        self._charges = charges
        self._balances = balances
        self._claims = claims
        self.cache = cache
        self.timeout_s = timeout_s
        self._signer = signer
        self._now = now
        self._base_url = base_url
        self.flights = Flights[Outcome]()

    def would_hit(self, ask: Ask) -> bool:
        """Whether the cache would answer."""
        return not ask.refresh and self.cache.holds(_cache_key(ask))

    def check(self, ask: Ask) -> None:
        """Everything that `call` refuses for free, without calling.

        Raises:
            InvalidArgument, InvalidCursor: the values cannot be used.
        """
        plan(ask.listing.site, ask.listing.endpoint, self._args(ask)).steps.close()

    async def call(self, ask: Ask) -> Outcome:
        """One answer, billed once or not at all.

        Raises:
            InvalidArgument, InvalidCursor: the values cannot be used; nothing was charged.
            InsufficientCredits, KeyBudgetReached, KeyUnusable, StorageError: nothing was charged.
            CallFailed: the upstream failed; what was charged is refunded as far as the store could.
        """
        key = _cache_key(ask)
        if not ask.refresh and (stored := self.cache.get(key)) is not None:
            return await self._hit(ask, stored)
        planned = plan(ask.listing.site, ask.listing.endpoint, self._args(ask))
        lead = partial(self._lead, ask, planned, key)
        if ask.claim is not None:  # it may not wait for another's call: a second one under its key is told so at once
            return await lead()
        return await self._fly(ask, key, lead)

    async def _fly(self, ask: Ask, key: bytes, lead: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Lead the call, or follow an identical one that is under way and settle as a cache hit (decisions 8)."""
        arrived = trio.current_time()
        try:
            outcome, is_followed = await self.flights.join((key, ask.refresh), arrived + self.timeout_s, lead)
        except trio.TooSlowError as exc:
            slug = ask.listing.site.platform.slug
            raise UpstreamFailed(slug, f"no answer within {self.timeout_s:g} s", passing=True) from exc
        if not is_followed:
            return outcome
        hit = await self._hit(ask, outcome.fragment)
        return hit._replace(upstream_s=trio.current_time() - arrived)

    async def _lead(self, ask: Ask, planned: Plan, key: bytes) -> Outcome:
        """Charge, ask the upstream, store the answer, close the charge."""
        charge = await self._take(ask)
        if isinstance(charge, Kept):
            return await self._replay(ask, charge)
        started = trio.current_time()
        try:
            fetched = await fetch(planned, started + self.timeout_s)
            shaped = self._shape(ask, fetched)
            stored = envelope.fragment(ask.listing.site.platform.slug, ask.listing.path, shaped.data, shaped.pagination)
        except Exception as exc:
            kept = self._kept_refusal(ask, exc)
            used, balance = await self._close(ask, charge, used=0, kept=kept)  # noqa: ASYNC120 - it shields itself
            raise CallFailed(used, balance, trio.current_time() - started) from exc
        except BaseException:  # cancelled: nobody is told, but nothing stays charged or claimed
            with trio.move_on_after(SETTLE_S, shield=True):
                await self._close(ask, charge, used=0)
            raise
        if shaped.cacheable:
            self.cache.put(key, stored, ask.listing.endpoint.cache_ttl_s)
        used, balance = await self._settle(ask, charge, shaped.coverage, stored)
        return Outcome(stored, used, balance, cached=False, upstream_s=fetched.took_s)

    async def _hit(self, ask: Ask, stored: bytes) -> Outcome:
        """A cached answer; under an idempotency key it becomes that key's outcome."""
        if ask.claim is not None:
            begun = await self._claims.begin(
                Begin(ask.claim, None, Kept(200, stored.decode(), ask.request_id, cached=True))
            )
            if isinstance(begun, Kept):
                return await self._replay(ask, begun)
        return Outcome(stored, 0, await balance_of(self._balances, ask.key.account_id), cached=True)

    async def _replay(self, ask: Ask, kept: Kept) -> Outcome:
        assert kept.text is not None, "an outcome without its text is refused, not replayed"
        balance = await balance_of(self._balances, ask.key.account_id)
        return Outcome(kept.text.encode(), 0, balance, cached=False, replayed=kept)

    async def _take(self, ask: Ask) -> Charge | Kept:
        """Take the charge, and claim the idempotency key in the same transaction."""
        if ask.claim is None:
            return await self._charges.take(_charge_request(ask))
        begun = await self._claims.begin(Begin(ask.claim, _charge_request(ask)))
        assert begun is not None, "only a cache hit begins without a charge"
        return begun

    def _kept_refusal(self, ask: Ask, exc: Exception) -> Kept | None:
        """The outcome that a failure leaves under its key; one that is worth a retry leaves none."""
        refused = refusal_of(exc)
        if ask.claim is None or refused.code.retryable:
            return None
        text = envelope.error_fragment(refused, self._base_url).decode()
        return Kept(refused.code.status, text, ask.request_id)

    async def _settle(self, ask: Ask, charge: Charge, coverage: float, stored: bytes) -> tuple[int, int | None]:
        """Keep the charge; of a composite half when less than half came, none when nothing did.

        A plain charge is closed without waiting. A claimed one is waited for, so that a retry finds its outcome.
        """
        used = charge.credits
        if coverage < 0.5:
            used = charge.credits - charge.credits // 2 if coverage else 0
        elif ask.claim is None:
            self._charges.settle_nowait(charge)
            return charge.credits, charge.balance_after
        kept = None if ask.claim is None else Kept(200, stored.decode(), ask.request_id)
        return await self._close(ask, charge, used=used, kept=kept)

    async def _close(self, ask: Ask, charge: Charge, *, used: int, kept: Kept | None = None) -> tuple[int, int | None]:
        """Refund what was not used; when the store does not confirm it in time, the charge stands until recovery."""
        with trio.move_on_after(SETTLE_S, shield=True):
            try:
                if ask.claim is None:
                    closed = await self._charges.close(charge, used=used)
                else:
                    closed = await self._claims.end(End(ask.claim, close_request(charge, used=used), kept))
            except StorageError:
                return charge.credits, None
            return closed.credits_used, closed.balance_after
        return charge.credits, None

    def _args(self, ask: Ask) -> Args:
        token = ask.values.get("cursor")
        state = self._signer.open(_binding(ask), str(token)) if token is not None else None
        return Args(ask.values, state, ask.listing.site.credentials, self._now())

    def _shape(self, ask: Ask, fetched: Fetched) -> Shaped:
        def seal(state: State) -> str:
            return self._signer.seal(_binding(ask), state)

        return shape(ask.listing.endpoint.archetype, fetched.result, seal)


async def balance_of(balances: Balances, account_id: str) -> int | None:
    """The account's balance, or None while the store is away."""
    known = balances.nowait(account_id)
    if known is not None:
        return known
    try:
        return await balances.read(account_id)
    except StorageError:
        return None


_NOT_BINDING = frozenset(("cursor", "max_credits", "dry_run"))


def _binding(ask: Ask) -> bytes:
    """The endpoint and its canonical parameters: what a cursor belongs to, and what the cache's key begins with."""
    values = {name: value for name, value in ask.values.items() if name not in _NOT_BINDING}
    return ask.listing.id.encode() + b"?" + orjson.dumps(values, option=orjson.OPT_SORT_KEYS)


def _cache_key(ask: Ask) -> bytes:
    cursor = ask.values.get("cursor")
    return _binding(ask) if cursor is None else b"%b#%b" % (_binding(ask), str(cursor).encode())


def claim_of(ask: Ask, key: str) -> Claim:
    """What an idempotency key claims: the account's, for this endpoint with these parameters and no body."""
    place = f"GET {ask.listing.path}"
    return Claim(ask.key.account_id, key, place, fingerprint(place.encode(), _cache_key(ask), b""), ask.request_id)


def _charge_request(ask: Ask) -> ChargeRequest:
    return ChargeRequest(
        request_id=ask.request_id,
        account_id=ask.key.account_id,
        key_id=ask.key.id,
        credits=ask.cost_credits,
        platform=ask.listing.site.platform.slug,
        endpoint=ask.listing.path,
    )
