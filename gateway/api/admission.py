"""Admission of requests: check the key, then the window, then the lease (spec 5, 8; decisions 5).

A refused request changes no counter.
"""

from __future__ import annotations

import re
from functools import lru_cache

from billing.accounts.balances import Balances
from billing.keys.cache import Key
from billing.keys.keys import Keys
from gateway.http.errors import InvalidParam, KeyMissing, Refused
from gateway.http.request import ESCAPE, Caller, Request
from limits.errors import ConcurrencyReached, GenerationPassed, RateLimited, WindowState
from limits.gate import Admitted, Gate
from storage.errors import StateUnavailable

LOOKUPS_MAX = 3
KEY_HEADERS = (b"x-api-key", b"authorization")
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr][ \t]+([^ \t]*)[ \t]*")
_KEY_NAMES = frozenset(("x-api-key", "x_api_key", "api_key", "apikey", "api-key"))


class Admission:
    """Admits requests by key, rate window and lease. Passes to `balances` the balances that the gate returns."""

    def __init__(self, keys: Keys, gate: Gate, balances: Balances, *, key_prefix: str) -> None:
        self._keys = keys
        self.gate = gate
        self._balances = balances
        self._key_start = key_prefix.encode()
        # Matches at the start of a word only, because a cursor of 20,000 characters may well contain the three
        # characters of the prefix.
        self._has_key = re.compile(r"(?<![\w-])" + re.escape(key_prefix) + r"[A-Za-z0-9_-]{43}").search
        self.counts = {"admitted": 0, "rate_limited": 0, "concurrency_limited": 0, "state_away": 0}
        """Outcomes of requests with a valid key since the node started, for the metrics."""

    def refuse_key_in_query(self, request: Request) -> None:
        """Reject a key in the URL.

        Proxies between the client and the node may log URLs, so such a key must be revoked (spec 5.1).
        """
        raw = request.query_string
        if ESCAPE not in raw and raw.find(self._key_start) < 0 and raw.lower().find(b"key") < 0:
            return  # The usual case: the query need not be parsed.
        for name, value in request.query:
            if self._has_key(value) or (value and name.lower() in _KEY_NAMES):
                headers = request.headers
                has_key = headers.get(b"x-api-key") or _BEARER.fullmatch(headers.get(b"authorization", b""))
                raise Refused(
                    "INVALID_REQUEST" if has_key else "MISSING_API_KEY",
                    "Do not put an API key in a URL. Send it in the x-api-key header. "
                    "Revoke this key, because servers on the way may have logged it, and create another.",
                    details={
                        "reason": "key_in_query",
                        "param": "query" if self._has_key(name) else name[:100],
                        "next_step": "Revoke this key and send another in the x-api-key header.",
                    },
                )

    def key_of_nowait(self, request: Request) -> Key | None:
        """Return the request's key. Return None if the key is not in memory and must be read from the store (`key_of`).

        Raises:
            KeyMissing: the request has no key.
            InvalidParam: both headers have a key.
            KeyUnusable: the key is malformed, unknown, revoked or expired.
        """
        presented = request.headers.get(b"x-api-key")
        if b"authorization" in request.headers:
            presented = self._presented(request)
        if not presented:
            raise KeyMissing
        return self._keys.find_nowait(presented.decode("latin-1"))

    def _presented(self, request: Request) -> bytes | None:
        """Return the key from either header and move it to `x-api-key`.

        Other authorization schemes do not count as a key.
        """
        headers = request.headers
        found = _BEARER.fullmatch(headers[b"authorization"])
        if found is None:
            return headers.get(b"x-api-key")
        if headers.get(b"x-api-key"):
            raise InvalidParam("authorization", "cannot be combined with x-api-key; send only one of them")
        headers[b"x-api-key"] = found[1]
        return found[1]

    async def key_of(self, request: Request, generation: bytes | None = None) -> Key:
        """Return the key from memory or from the store.

        With a `generation`, the key is at least as new as the change that started that generation. Raises the same
        exceptions as `key_of_nowait`.
        """
        return await self._keys.find(request.headers[b"x-api-key"].decode("latin-1"), generation)

    def enter_nowait(self, caller: Caller) -> bool:
        """Count the request in the key's window and take a lease: either both or neither.

        Return False if `enter` must be awaited instead.

        Raises:
            RateLimited, ConcurrencyReached: nothing was counted.
        """
        key = caller.key
        try:
            admitted = self.gate.admit_nowait(key.account_id, key.id)
        except (RateLimited, ConcurrencyReached) as refusal:
            self._note(caller, refusal)
            raise
        if admitted is None:
            return False
        caller.window, caller.lease, _ = admitted  # The third value, the balance, is None from a gate in this process.
        self.counts["admitted"] += 1
        return True

    async def enter(self, request: Request, caller: Caller) -> None:
        """Like `enter_nowait`, but through the shared gate, which counts the requests of all nodes.

        A key that another node has changed is looked up again.

        Raises:
            RateLimited, ConcurrencyReached: nothing was counted.
            KeyUnusable: the key was revoked; the request then has no caller.
            StorageError: the shared state or the store is unavailable; nothing was counted.
        """
        for _ in range(LOOKUPS_MAX):
            key = caller.key
            try:
                admitted = await self.gate.admit(key.account_id, key.id, key.generation)
            except (RateLimited, ConcurrencyReached) as refusal:
                self._note(caller, refusal)
                raise
            except StateUnavailable:
                self.counts["state_away"] += 1
                raise
            except GenerationPassed as passed:
                generation = passed.generation
            else:
                self._record_admission(caller, admitted)
                return
            request.caller = None  # A key that may be revoked must not reveal its account.
            caller.key = await self.key_of(request, generation)
            request.caller = caller
        raise StateUnavailable(f"the key changed {LOOKUPS_MAX} times during the lookup")

    def _record_admission(self, caller: Caller, admitted: Admitted) -> None:
        caller.window, caller.lease, balance = admitted
        if balance is not None:
            self._balances.observe(caller.key.account_id, balance)
        self.counts["admitted"] += 1

    def _note(self, caller: Caller, refusal: RateLimited | ConcurrencyReached) -> None:
        if isinstance(refusal, RateLimited):
            self.counts["rate_limited"] += 1
            caller.window = refusal.state
        else:
            self.counts["concurrency_limited"] += 1  # The response reports the leases, not the window (spec 7.2).


WINDOW: tuple[bytes, ...] = (
    b"x-ratelimit-limit",
    b"ratelimit-policy",
    b"x-ratelimit-remaining",
    b"x-ratelimit-reset",
    b"ratelimit",
)


def window_values(state: WindowState) -> tuple[bytes, ...]:
    """Return the values of the `WINDOW` headers: the usual ones, and the two of the IETF draft (decisions 2)."""
    remaining, reset_s = b"%d" % state.remaining, b"%d" % state.reset_s
    limit, policy = _limit_values(state.limit)
    # Hot path: concatenation measured faster than `b"..." % (...)`.
    return limit, policy, remaining, reset_s, b'"key";r=' + remaining + b";t=" + reset_s


@lru_cache(maxsize=16)
def _limit_values(limit: int) -> tuple[bytes, bytes]:
    return b"%d" % limit, b'"key";q=%d;w=60' % limit
