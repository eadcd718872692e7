"""Who may pass: the key, then the window, then the lease; a refusal changes no counter (spec 5, 8; decisions 5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from billing.key_cache import Key
from billing.keys import Keys
from gateway.errors import Refused
from gateway.logs import KEY_SHAPE
from gateway.request import ESCAPE, Caller, Headers, Request
from limits.concurrency import Leases
from limits.errors import ConcurrencyReached, RateLimited
from limits.waits import WindowState
from limits.window import Window

_KEY_NAMES = frozenset(("x-api-key", "x_api_key", "api_key", "apikey", "api-key"))


class Admission:
    """Guards the way in. `now` is a monotonic clock in seconds."""

    def __init__(
        self, keys: Keys, *, window: Window, leases: Leases, key_prefix: str, now: Callable[[], float]
    ) -> None:
        self._keys = keys
        self.window = window
        self.leases = leases
        self._key_prefix = key_prefix
        self._key_start = key_prefix.encode()
        self._now = now
        self.counts = {"admitted": 0, "rate_limited": 0, "concurrency_limited": 0}
        """How requests with a good key went, since the start."""

    def refuse_key_in_query(self, request: Request) -> None:
        """A key in an address is in every log on the way by now, so it must be revoked (spec 5.1)."""
        raw = request.query_string
        if ESCAPE not in raw and raw.find(self._key_start) < 0 and raw.lower().find(b"key") < 0:
            return  # nearly always, and without reading the query
        for name, value in request.query:
            looks_like_key = self._key_prefix in value and KEY_SHAPE.search(value) is not None
            if looks_like_key or (value and name.lower() in _KEY_NAMES):
                raise Refused(
                    "INVALID_REQUEST" if request.headers.get(b"x-api-key") else "MISSING_API_KEY",
                    "An API key must never stand in an address: send it in the x-api-key header. "
                    "Revoke this key, since addresses are logged on their way, and create another.",
                    details={"reason": "key_in_query"},
                )

    def key_of_nowait(self, request: Request) -> Key | None:
        """The key that the request carries, or None when the store has to be asked (`key_of`).

        Raises:
            Refused: there is none.
            KeyUnusable: it is malformed, unknown, revoked or expired.
        """
        presented = request.headers.get(b"x-api-key")
        if not presented:
            raise Refused("MISSING_API_KEY", "Send your API key in the x-api-key header.")
        return self._keys.find_nowait(presented.decode("latin-1"))

    async def key_of(self, request: Request) -> Key:
        """The key, from memory or from the store; raises as `key_of_nowait`."""
        return await self._keys.find(request.headers[b"x-api-key"].decode("latin-1"))

    def enter(self, caller: Caller) -> None:
        """Count the request in the key's window and take a lease; both or neither.

        Raises:
            RateLimited, ConcurrencyReached: nothing was counted.
        """
        now, key_id = self._now(), caller.key.id
        try:
            caller.window = self.window.admit(key_id, now)
        except RateLimited as refusal:
            self.counts["rate_limited"] += 1
            caller.window = refusal.state
            raise
        caller.lease = self.leases.take_nowait(key_id)
        if caller.lease is None:
            self.counts["concurrency_limited"] += 1
            self.window.take_back(key_id)
            caller.window = None  # its answer tells of the leases instead (spec 7.2)
            raise ConcurrencyReached(self.leases.limit)
        self.counts["admitted"] += 1


def window_headers(state: WindowState) -> Headers:
    """The window's headers, the usual ones and the IETF draft's pair (decisions 2)."""
    remaining, reset_s = b"%d" % state.remaining, b"%d" % state.reset_s
    return [
        *_limit_headers(state.limit),
        (b"x-ratelimit-remaining", remaining),
        (b"x-ratelimit-reset", reset_s),
        (b"ratelimit", b'"key";r=%b;t=%b' % (remaining, reset_s)),
    ]


@lru_cache(maxsize=16)
def _limit_headers(limit: int) -> Headers:
    return [(b"x-ratelimit-limit", b"%d" % limit), (b"ratelimit-policy", b'"key";q=%d;w=60' % limit)]
