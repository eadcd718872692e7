"""One call of an endpoint as values: the request, what its answers are stored under, and the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import orjson

from billing.charges.batch_rows import Charge
from billing.keys.cache import Key
from gateway.calls.idempotency import fingerprint
from limits.idempotency import Claim, StoredReply
from upstreams.catalog import Listing
from upstreams.fetching.planned import GoOn, OnLeg
from upstreams.model.params import Value

FINGERPRINTS_MAX = 200
_NOT_BINDING = frozenset(("cursor", "max_credits", "dry_run", "fields", "format", "max_age", "timeout", "fresh"))
_HOW_CALLED = frozenset(("max_credits", "max_age", "timeout", "fresh"))
"""No part of an answer's key in the cache, but they tell one call from another."""


@dataclass(slots=True)
class CallRequest:
    """One call of an endpoint: whose key asks for what, under which request id. Only its maker changes it.

    It and its result are read some sixty times a call, and a named tuple's fields cost 40 ns more to read than a slot.
    """

    key: Key
    listing: Listing
    cost_credits: int
    """The price of the call, or of each page of a walk."""
    values: Mapping[str, Value]
    cache_key: bytes
    """The cache stores its answer under this (`cache_key`)."""
    request_id: str
    owe: Callable[[Charge], None]
    """Takes the charge of an answer that used all of it: whoever sends the answer settles it then, and not before. A
    node that dies in between has its recovery refund what nobody was sent."""
    refresh: bool = False
    """True: do not answer from the cache, but store what comes (`Cache-Control: no-cache`)."""
    claim: Claim | None = None
    """The claim of its `Idempotency-Key`."""
    credits_max: int | None = None
    """The most that the caller lets it cost."""
    go_on: GoOn | None = None
    """Called after each page of a walk; False ends it there."""
    on_leg: OnLeg | None = None
    """Called as each leg of a composite settles."""


@dataclass(slots=True)
class CallResult:
    """The encoded fragment of the envelope that a call gave, what it cost, and where its time went."""

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
    """An earlier request's reply under the same idempotency key; then the fragment is its own."""
    stored: bytes | None = None
    """The fragment of a fresh answer as the cache gives it; None: the fragment is such a one."""
    whole: bool = True
    """False: a walk that its own circumstances cut short; followers with the same request want more."""


class CallFailed(Exception):
    """A call failed after its charge; the cause is in `__cause__`, the money as it stands in the fields."""

    def __init__(self, credits_used: int, balance: int | None, upstream_s: float) -> None:
        super().__init__("the billed call failed")
        self.credits_used = credits_used
        self.balance = balance
        self.upstream_s = upstream_s


def binding(request: CallRequest) -> bytes:
    """The endpoint and its canonical parameters: a cursor belongs to them, and the cache's key begins with them."""
    return _binding(request.listing, request.values)


def _binding(listing: Listing, values: Mapping[str, Value]) -> bytes:
    bound = values
    if not _NOT_BINDING.isdisjoint(values):
        bound = {name: value for name, value in values.items() if name not in _NOT_BINDING}
    return listing.id.encode() + b"?" + orjson.dumps(bound, option=orjson.OPT_SORT_KEYS)


def cache_key(listing: Listing, values: Mapping[str, Value]) -> bytes:
    """The cache's key of an answer: the binding, and the cursor if there is one."""
    cursor, bound = values.get("cursor"), _binding(listing, values)
    return bound if cursor is None else b"%b#%b" % (bound, str(cursor).encode())


def page_key(key: bytes) -> bytes:
    """The cache's key of one page of a list that is walked for direct calls."""
    return b"page " + key


def claim_of(request: CallRequest, key: str) -> Claim:
    """The claim of an idempotency key: the account's, for this endpoint with these parameters and no body."""
    values, bound = request.values, request.cache_key
    if not _HOW_CALLED.isdisjoint(values):
        how = {name: values[name] for name in _HOW_CALLED & values.keys()}
        bound = b"%b&%b" % (bound, orjson.dumps(how, option=orjson.OPT_SORT_KEYS))
    place, digest = _fingerprinted(request.listing.path, bound)
    return Claim(request.key.account_id, key, place, digest, request.request_id)


@lru_cache(FINGERPRINTS_MAX)
def _fingerprinted(path: str, key: bytes) -> tuple[str, str]:
    """The place and the fingerprint of a request, which come again with every replay and every cache hit."""
    place = f"GET {path}"
    return place, fingerprint(place.encode(), key, b"")
