"""A call to an endpoint as plain values: the request, its cache key, and the result."""

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
from upstreams.fetching.plan import OnLeg, WantsMore
from upstreams.model.params import Value

FINGERPRINTS_MAX = 200
_NOT_BINDING = frozenset(("cursor", "max_credits", "dry_run", "fields", "format", "max_age", "timeout", "fresh"))
_CALL_OPTIONS = frozenset(("max_credits", "max_age", "timeout", "fresh"))
"""Parameters that are part of a call's fingerprint but not of its cache key."""


@dataclass(slots=True)
class CallRequest:
    """One call to an endpoint: the API key, the values and the request id. Only its creator modifies it.

    A call and its result are read about sixty times. The class has slots, because reading a field of a named tuple
    takes 40 ns longer.
    """

    key: Key
    listing: Listing
    cost_credits: int
    """The price of the call, or the price per page of a walk."""
    values: Mapping[str, Value]
    cache_key: bytes
    """The key of the call's response in the cache (`cache_key`)."""
    request_id: str
    owe: Callable[[Charge], None]
    """Receives a charge that the call used in full. The charge is settled after the response has been sent.

    If the node dies in between, recovery refunds the charge, because the response was not sent.
    """
    refresh: bool = False
    """Whether to skip the cache lookup, but still store the response in the cache (`Cache-Control: no-cache`)."""
    claim: Claim | None = None
    """The claim of its `Idempotency-Key`."""
    credits_max: int | None = None
    """The maximum cost that the caller allows."""
    wants_more: WantsMore | None = None
    """Called after each page of a walk. Returning False ends the walk."""
    on_leg: OnLeg | None = None
    """Called when a leg of a composite has finished."""


@dataclass(slots=True)
class CallResult:
    """The encoded envelope fragment of a call, its cost and its timing."""

    fragment: bytes
    credits_used: int
    balance: int | None
    upstream_s: float = 0.0
    charge_s: float = 0.0
    """Seconds until the charge was committed."""
    close_s: float = 0.0
    """Seconds until the charge was settled, if the call waited for the settlement."""
    cached: bool = False
    replayed: StoredReply | None = None
    """The earlier reply of the same idempotency key, if this is a replay. The fragment is from that reply."""
    stored: bytes | None = None
    """The form in which a fresh response's fragment is cached; None if the fragment already has that form."""
    whole: bool = True
    """False if the walk stopped early because of this request, so that identical requests cannot share its response."""


class CallFailed(Exception):
    """A call failed after it was charged. `__cause__` is the reason. The fields are the resulting cost and balance."""

    def __init__(self, credits_used: int, balance: int | None, upstream_s: float) -> None:
        super().__init__("the billed call failed")
        self.credits_used = credits_used
        self.balance = balance
        self.upstream_s = upstream_s


def binding(request: CallRequest) -> bytes:
    """Return the endpoint and its canonical parameters. Cursors are bound to them, and cache keys start with them."""
    return _binding(request.listing, request.values)


def _binding(listing: Listing, values: Mapping[str, Value]) -> bytes:
    bound = values
    if not _NOT_BINDING.isdisjoint(values):
        bound = {name: value for name, value in values.items() if name not in _NOT_BINDING}
    return listing.id.encode() + b"?" + orjson.dumps(bound, option=orjson.OPT_SORT_KEYS)


def cache_key(listing: Listing, values: Mapping[str, Value]) -> bytes:
    """Return the cache key of a response: the binding, and the cursor if there is one."""
    cursor, bound = values.get("cursor"), _binding(listing, values)
    return bound if cursor is None else b"%b#%b" % (bound, str(cursor).encode())


def page_key(key: bytes) -> bytes:
    """Return the cache key of one page of a list that direct calls walk."""
    return b"page " + key


def claim_of(request: CallRequest, key: str) -> Claim:
    """Return the claim of an idempotency key, bound to the account, the endpoint and its parameters, without a body."""
    values, bound = request.values, request.cache_key
    if not _CALL_OPTIONS.isdisjoint(values):
        how = {name: values[name] for name in _CALL_OPTIONS & values.keys()}
        bound = b"%b&%b" % (bound, orjson.dumps(how, option=orjson.OPT_SORT_KEYS))
    place, digest = _fingerprinted(request.listing.path, bound)
    return Claim(request.key.account_id, key, place, digest, request.request_id)


@lru_cache(FINGERPRINTS_MAX)
def _fingerprinted(path: str, key: bytes) -> tuple[str, str]:
    """Return the method, path and fingerprint of a request. Cached, because replays and cache hits repeat them."""
    place = f"GET {path}"
    return place, fingerprint(place.encode(), key, b"")
