"""Who may pass: the key, then the window, then the lease; a refusal changes no counter (spec 5, 8; decisions 5)."""

from __future__ import annotations

from collections.abc import Callable

from billing.key_cache import Key
from billing.keys import Keys
from gateway.errors import Refused
from gateway.logs import KEY_SHAPE
from gateway.request import Caller, Headers, Request
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
        self._now = now
        self.counts = {"admitted": 0, "rate_limited": 0, "concurrency_limited": 0}
        """How requests with a good key went, since the start."""

    def refuse_key_in_query(self, request: Request) -> None:
        """A key in an address is in every log on the way by now, so it must be revoked (spec 5.1)."""
        for name, value in request.query:
            looks_like_key = self._key_prefix in value and KEY_SHAPE.search(value) is not None
            if looks_like_key or (value and name.lower() in _KEY_NAMES):
                raise Refused(
                    "INVALID_REQUEST" if request.headers.get(b"x-api-key") else "MISSING_API_KEY",
                    "An API key must never stand in an address: send it in the x-api-key header. "
                    "Revoke this key, since addresses are logged on their way, and create another.",
                    details={"reason": "key_in_query"},
                )

    async def key_of(self, request: Request) -> Key:
        """The key that the request carries.

        Raises:
            Refused: there is none.
            KeyUnusable: it is malformed, unknown, revoked or expired.
        """
        presented = request.headers.get(b"x-api-key")
        if not presented:
            raise Refused("MISSING_API_KEY", "Send your API key in the x-api-key header.")
        text = presented.decode("latin-1")
        return self._keys.find_nowait(text) or await self._keys.find(text)

    def enter(self, caller: Caller) -> None:
        """Count the request in the key's window and take a lease; both or neither.

        Raises:
            RateLimited, ConcurrencyReached: nothing was counted.
        """
        now, key_id = self._now(), caller.key.id
        if not self.window.is_open(key_id, now):
            self.counts["rate_limited"] += 1
            caller.window = self.window.look(key_id, now)
            raise RateLimited(caller.window)
        caller.lease = self.leases.take_nowait(key_id)
        if caller.lease is None:
            self.counts["concurrency_limited"] += 1
            raise ConcurrencyReached(self.leases.limit)
        caller.window = self.window.admit(key_id, now)
        self.counts["admitted"] += 1


def window_headers(state: WindowState) -> Headers:
    """The window's headers, the usual ones and the IETF draft's pair (decisions 2)."""
    limit, remaining, reset_s = b"%d" % state.limit, b"%d" % state.remaining, b"%d" % state.reset_s
    return [
        (b"x-ratelimit-limit", limit),
        (b"x-ratelimit-remaining", remaining),
        (b"x-ratelimit-reset", reset_s),
        (b"ratelimit-policy", b'"key";q=%b;w=60' % limit),
        (b"ratelimit", b'"key";r=%b;t=%b' % (remaining, reset_s)),
    ]
