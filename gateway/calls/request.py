"""One call of an endpoint as values: who asks for what, what it may cost, what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import orjson

from billing.charges.batch_rows import ChargeRequest
from billing.keys.cache import Key
from gateway.calls.idempotency import fingerprint
from gateway.calls.planning import Quote
from gateway.http.errors import Refused
from limits.idempotency import Claim, StoredReply
from upstreams.catalog import Listing
from upstreams.fetching.walk import GoOn
from upstreams.model.params import Value

ASKED_MAX = 200
_NOT_BINDING = frozenset(("cursor", "max_credits", "dry_run"))


@dataclass(slots=True)
class CallRequest:
    """One call of an endpoint: who asks, for what, under which request id. Only who makes it changes it.

    It and its outcome are read some sixty times a call, and a named tuple's fields cost 40 ns more to read than a slot.
    """

    key: Key
    listing: Listing
    cost_credits: int
    """The price of the call, or of each page of a walk."""
    values: Mapping[str, Value]
    cache_key: bytes
    """What answers of this kind are stored under (`cache_key`)."""
    request_id: str
    refresh: bool = False
    """True: do not answer from the cache, but store what comes (`Cache-Control: no-cache`)."""
    claim: Claim | None = None
    """What an `Idempotency-Key` claims for this request."""
    credits_max: int | None = None
    """The most that the caller lets it cost."""
    go_on: GoOn | None = None
    """Told of each page of a walk; False ends it there."""


@dataclass(slots=True)
class CallResult:
    """What a call gave: the encoded fragment of the envelope, what it cost, and where its time went."""

    fragment: bytes
    credits_used: int
    balance: int | None
    upstream_s: float = 0.0
    charge_s: float = 0.0
    """Seconds until its charge was committed."""
    close_s: float = 0.0
    """Seconds until its charge was closed, where that was waited for."""
    cached: bool = False
    replayed: StoredReply | None = None
    """An earlier request's outcome under the same idempotency key; then the fragment is its own."""
    whole: bool = True
    """False: a walk that its own circumstances cut short; others who ask for the same want more."""


class CallFailed(Exception):
    """A call failed after its charge; the cause is in `__cause__`, the money as it stands in the fields."""

    def __init__(self, credits_used: int, balance: int | None, upstream_s: float) -> None:
        super().__init__("the billed call failed")
        self.credits_used = credits_used
        self.balance = balance
        self.upstream_s = upstream_s


def binding(ask: CallRequest) -> bytes:
    """The endpoint and its canonical parameters: what a cursor belongs to, and what the cache's key begins with."""
    return _binding(ask.listing, ask.values)


def _binding(listing: Listing, values: Mapping[str, Value]) -> bytes:
    bound = values
    if not _NOT_BINDING.isdisjoint(values):
        bound = {name: value for name, value in values.items() if name not in _NOT_BINDING}
    return listing.id.encode() + b"?" + orjson.dumps(bound, option=orjson.OPT_SORT_KEYS)


def cache_key(listing: Listing, values: Mapping[str, Value]) -> bytes:
    """What answers of one kind are stored under: the binding, and the cursor if there is one."""
    cursor, bound = values.get("cursor"), _binding(listing, values)
    return bound if cursor is None else b"%b#%b" % (bound, str(cursor).encode())


def claim_of(ask: CallRequest, key: str) -> Claim:
    """What an idempotency key claims: the account's, for this endpoint with these parameters and no body."""
    place, asked = _asked(ask.listing.path, ask.cache_key)
    return Claim(ask.key.account_id, key, place, asked, ask.request_id)


@lru_cache(ASKED_MAX)
def _asked(path: str, key: bytes) -> tuple[str, str]:
    """The place and the fingerprint of a request, which come again with every replay and every cache hit."""
    place = f"GET {path}"
    return place, fingerprint(place.encode(), key, b"")


def above_max(ask: CallRequest, credits_least: int) -> Refused | None:
    """The refusal of what would reserve more than the caller allows (decisions 6), if it would."""
    if ask.credits_max is None or credits_least <= ask.credits_max:
        return None
    return Refused(
        "INSUFFICIENT_CREDITS",
        f"This request would reserve {credits_least} credits, above max_credits.",
        details={"reason": "above_max_credits", "credits_required": credits_least},
    )


def charge_request(ask: CallRequest, quote: Quote | None) -> ChargeRequest:
    """The charge to take; without a quote the call's one price."""
    key, listing = ask.key, ask.listing
    return ChargeRequest(
        ask.request_id,
        key.account_id,
        key.id,
        ask.cost_credits if quote is None else quote.credits,
        listing.site.platform.slug,
        listing.path,
        None if quote is None else quote.credits_least,
    )
