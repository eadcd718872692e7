"""Responses without a call: from the cache, or from an earlier request with the same key (decisions 7 and 8)."""

from __future__ import annotations

import trio

from billing.accounts.balances import Balances
from gateway.calls.idempotency import Begin, Claims
from gateway.calls.request import CallRequest, CallResult
from limits.idempotency import StoredReply
from storage.errors import StorageError
from upstreams.cache.response_cache import Cache
from upstreams.cache.shared_cache import CacheTurn, SharedCache


class Lookup:
    """Looks up and stores responses.

    `shared` is the cache that several nodes share in addition to their own `cache`.
    """

    def __init__(self, balances: Balances, claims: Claims, cache: Cache, shared: SharedCache | None) -> None:
        self._balances = balances
        self._claims = claims
        self._cache = cache
        self._shared = shared
        self._put = cache.put if shared is None else shared.put

    async def would_hit(self, request: CallRequest) -> bool:
        """Return whether the response is cached."""
        await trio.lowlevel.checkpoint()
        if request.refresh:
            return False
        key = request.cache_key
        return self._cache.holds(key) if self._shared is None else await self._shared.holds(key)

    async def hit(self, request: CallRequest, stored: bytes) -> CallResult:
        """Return a cached response. With an idempotency key, the response is also stored as the reply for that key."""
        if request.claim is not None:
            reply = StoredReply(200, stored.decode(), request.request_id, cached=True)
            begun = await self._claims.begin(Begin(request.claim, None, reply))
            if isinstance(begun, StoredReply):
                return await self.replay(request, begun)
        return CallResult(stored, 0, await balance_of(self._balances, request.key.account_id), cached=True)

    async def replay(self, request: CallRequest, reply: StoredReply) -> CallResult:
        """Return the result of an earlier request with the same idempotency key."""
        assert reply.text is not None, "a reply without a text is never replayed"
        balance = self._balances.nowait(request.key.account_id)
        if balance is None:
            balance = await balance_of(self._balances, request.key.account_id)
        return CallResult(reply.text.encode(), 0, balance, replayed=reply)

    def store(self, request: CallRequest, stored: bytes, turn: CacheTurn | None) -> None:
        """Store a response in the cache.

        With several nodes, also publish it in the shared cache, through this call's `turn`.
        """
        ttl_s = request.listing.endpoint.cache_ttl_s
        if turn is None:
            self._put(request.cache_key, stored, ttl_s)
        else:
            turn.keep(stored, ttl_s)


async def balance_of(balances: Balances, account_id: str) -> int | None:
    """Return the account's balance; None if the store is unavailable."""
    balance = balances.nowait(account_id)
    if balance is not None:
        return balance
    try:
        return await balances.read(account_id)
    except StorageError:
        return None
