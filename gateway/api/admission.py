"""Admits a request: the key, then the window, then the lease; a refusal changes no counter (spec 5, 8; decisions 5)."""

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

LOOKS_MAX = 3
KEY_HEADERS = (b"x-api-key", b"authorization")
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr][ \t]+([^ \t]*)[ \t]*")
_KEY_NAMES = frozenset(("x-api-key", "x_api_key", "api_key", "apikey", "api-key"))


class Admission:
    """Guards the way in. What the gate tells of balances, `balances` hears."""

    def __init__(self, keys: Keys, gate: Gate, balances: Balances, *, key_prefix: str) -> None:
        self._keys = keys
        self.gate = gate
        self._balances = balances
        self._key_start = key_prefix.encode()
        # At the start of a word only: one cursor of 20,000 has the prefix's three characters somewhere within.
        self._has_key = re.compile(r"(?<![\w-])" + re.escape(key_prefix) + r"[A-Za-z0-9_-]{43}").search
        self.counts = {"admitted": 0, "rate_limited": 0, "concurrency_limited": 0, "state_away": 0}
        """How requests with a good key went, since the start."""

    def refuse_key_in_query(self, request: Request) -> None:
        """A key in an address is in every log on the way by now, so it must be revoked (spec 5.1)."""
        raw = request.query_string
        if ESCAPE not in raw and raw.find(self._key_start) < 0 and raw.lower().find(b"key") < 0:
            return  # nearly always, and without reading the query
        for name, value in request.query:
            if self._has_key(value) or (value and name.lower() in _KEY_NAMES):
                headers = request.headers
                has_key = headers.get(b"x-api-key") or _BEARER.fullmatch(headers.get(b"authorization", b""))
                raise Refused(
                    "INVALID_REQUEST" if has_key else "MISSING_API_KEY",
                    "An API key must never stand in an address: send it in the x-api-key header. "
                    "Revoke this key, since addresses are logged on their way, and create another.",
                    details={
                        "reason": "key_in_query",
                        "param": "query" if self._has_key(name) else name[:100],
                        "next_step": "Revoke this key and send another in the x-api-key header.",
                    },
                )

    def key_of_nowait(self, request: Request) -> Key | None:
        """The key that the request carries, or None when the store has to be asked (`key_of`).

        Raises:
            KeyMissing: there is none.
            InvalidParam: it is in both headers.
            KeyUnusable: it is malformed, unknown, revoked or expired.
        """
        presented = request.headers.get(b"x-api-key")
        if b"authorization" in request.headers:
            presented = self._presented(request)
        if not presented:
            raise KeyMissing
        return self._keys.find_nowait(presented.decode("latin-1"))

    def _presented(self, request: Request) -> bytes | None:
        """The key of either header; from here on it stands in `x-api-key`. A scheme that is none of ours is no key."""
        headers = request.headers
        found = _BEARER.fullmatch(headers[b"authorization"])
        if found is None:
            return headers.get(b"x-api-key")
        if headers.get(b"x-api-key"):
            raise InvalidParam("authorization", "cannot be combined with x-api-key; send the key in one of them")
        headers[b"x-api-key"] = found[1]
        return found[1]

    async def key_of(self, request: Request, generation: bytes | None = None) -> Key:
        """The key, from memory or from the store; as it stands after the change that began `generation`, if it is told.

        Raises as `key_of_nowait`.
        """
        return await self._keys.find(request.headers[b"x-api-key"].decode("latin-1"), generation)

    def enter_nowait(self, caller: Caller) -> bool:
        """Count the request in the key's window and take a lease, both or neither; False: `enter` has to be awaited.

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
        caller.window, caller.lease, _ = admitted  # who need not be asked has heard nothing of a balance
        self.counts["admitted"] += 1
        return True

    async def enter(self, request: Request, caller: Caller) -> None:
        """As `enter_nowait`, by asking who counts for all nodes; a key that was changed elsewhere is looked up again.

        Raises:
            RateLimited, ConcurrencyReached: nothing was counted.
            KeyUnusable: the key was revoked; then the request has no caller.
            StorageError: the state, or the store that was to be asked again, is away; nothing was counted.
        """
        for _ in range(LOOKS_MAX):
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
                self._let_in(caller, admitted)
                return
            request.caller = None  # nobody hears of an account by a key that may be revoked
            caller.key = await self.key_of(request, generation)
            request.caller = caller
        raise StateUnavailable(f"the key was changed {LOOKS_MAX} times while it was looked up")

    def _let_in(self, caller: Caller, admitted: Admitted) -> None:
        caller.window, caller.lease, balance = admitted
        if balance is not None:
            self._balances.observe(caller.key.account_id, balance)
        self.counts["admitted"] += 1

    def _note(self, caller: Caller, refusal: RateLimited | ConcurrencyReached) -> None:
        if isinstance(refusal, RateLimited):
            self.counts["rate_limited"] += 1
            caller.window = refusal.state
        else:
            self.counts["concurrency_limited"] += 1  # its answer tells of the leases alone (spec 7.2)


WINDOW: tuple[bytes, ...] = (
    b"x-ratelimit-limit",
    b"ratelimit-policy",
    b"x-ratelimit-remaining",
    b"x-ratelimit-reset",
    b"ratelimit",
)


def window_values(state: WindowState) -> tuple[bytes, ...]:
    """The values of the headers `WINDOW`, the usual ones and the IETF draft's pair (decisions 2)."""
    remaining, reset_s = b"%d" % state.remaining, b"%d" % state.reset_s
    limit, policy = _limit_values(state.limit)
    # hot: added up, which is measured against `b"..." % (...)`
    return limit, policy, remaining, reset_s, b'"key";r=' + remaining + b";t=" + reset_s


@lru_cache(maxsize=16)
def _limit_values(limit: int) -> tuple[bytes, bytes]:
    return b"%d" % limit, b'"key";q=%d;w=60' % limit
