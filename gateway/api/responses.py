"""Builds responses: data from stored fragments, free account resources, refusals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from billing.accounts.balances import Balances
from gateway.calls.lookup import balance_of
from gateway.calls.request import CallFailed, CallResult
from gateway.http import envelope
from gateway.http.conditional import TaggedText, tag_of
from gateway.http.errors import refusal_of
from gateway.http.forwarded import TrustedProxies
from gateway.http.request import Caller, Reply, Request
from gateway.server.http1.fields import Fields, joined
from limits.idempotency import StoredReply

_JSON = b"application/json"
_CREDITS: tuple[bytes, ...] = (b"x-credits-used", b"x-credits-remaining")
_CACHE = (b"x-cache", b"cache-control")
_REPLAY: Fields = (b"x-idempotent-replay", b"cache-control"), (b"true", b"private")
_RETRY_AFTER = (b"retry-after",)
_COPIED_BYTES = 16_384
"""Fragments up to this size, in bytes, are copied into each response. A copy costs less than sending several parts."""


def _credit_headers(credits_used: int, balance: int | None) -> Fields:
    """Return the credit headers. `X-Credits-Remaining` is omitted while the balance is unknown (spec 7.2)."""
    if balance is None:
        return _CREDITS[:1], (b"%d" % credits_used,)
    return _CREDITS, (b"%d" % credits_used, b"%d" % balance)


@dataclass(frozen=True, slots=True)
class Replies:
    """Builds the responses of one node. `base_url` is the public address in their links.

    Without a configured address, the links use the address that the client used at a trusted proxy (`proxies`).
    """

    balances: Balances
    base_url: str
    proxies: TrustedProxies | None = None

    def base_url_for(self, request: Request) -> str:
        """Return the base URL of the links in this request's response."""
        if self.proxies is None:
            return self.base_url
        return self.proxies.base_url(request.client, request.headers, self.base_url)

    def relinked(self, request: Request, made: TaggedText) -> TaggedText:
        """Return a shared text whose links are rewritten to this request's base URL."""
        base_url = self.base_url_for(request)
        if base_url == self.base_url:
            return made
        base = base_url.encode()
        return TaggedText(made.text.replace(self.base_url.encode(), base), tag_of(made.tag + base))

    def data(self, request: Request, result: CallResult) -> Reply:
        """Return the response of a billed call, or of the earlier call that it repeats."""
        if result.replayed is not None:
            return self._replay(result, result.replayed)
        stored = result.fragment
        if len(stored) > _COPIED_BYTES:
            return _around(stored, self.data(request, replace(result, fragment=b"")))
        body = envelope.success(
            stored,
            request_id=request.id,
            credits_used=result.credits_used,
            balance=result.balance,
            cached=result.cached,
        )
        names, values = _credit_headers(result.credits_used, result.balance)
        headers = names + _CACHE, (*values, b"HIT" if result.cached else b"MISS", b"private")
        return Reply(
            200, body, headers, "OK", _JSON, result.credits_used, result.upstream_s, result.charge_s, result.close_s
        )

    def _replay(self, result: CallResult, reply: StoredReply) -> Reply:
        stored = result.fragment
        if len(stored) > _COPIED_BYTES and reply.status < 400:
            return _around(stored, self._replay(replace(result, fragment=b""), reply))
        body = envelope.replay(
            stored,
            status=reply.status,
            request_id=reply.owner,
            balance=result.balance,
            cached=reply.cached,
        )
        headers = joined(_credit_headers(0, result.balance), _REPLAY)
        code = "OK" if reply.status < 400 else envelope.error_name(stored)
        return Reply(reply.status, body, headers, code, request_id=reply.owner)

    async def free(self, request: Request, caller: Caller, stored: bytes, *, credits_used: int = 0) -> Reply:
        """Return the response of a free resource. `stored` is its fragment.

        `credits_used` is the cost of the work that the request started, if that work has already ended and was billed.
        """
        if len(stored) > _COPIED_BYTES:
            return _around(stored, await self.free(request, caller, b"", credits_used=credits_used))
        balance = self.balances.nowait(caller.key.account_id)
        if balance is None:
            balance = await balance_of(self.balances, caller.key.account_id)
        body = envelope.success(stored, request_id=request.id, credits_used=credits_used, balance=balance, cached=False)
        return Reply(200, body, _credit_headers(credits_used, balance))

    async def bare(self, caller: Caller, reply: Reply) -> Reply:
        """Return a free response that has no envelope, with the same headers as a response with an envelope."""
        balance = await balance_of(self.balances, caller.key.account_id)
        reply.headers = joined(reply.headers, _credit_headers(0, balance))
        return reply

    async def repeated(self, caller: Caller, stored: bytes, *, owner: str, status: int) -> Reply:
        """Return the response to a repeated request. `owner` is the request that made the change (decisions 17)."""
        balance = await balance_of(self.balances, caller.key.account_id)
        text = stored + b',"replayed":true'
        body = envelope.replay(text, status=status, request_id=owner, balance=balance, cached=False)
        return Reply(status, body, joined(_credit_headers(0, balance), _REPLAY), request_id=owner)

    async def refusal(self, request: Request, exc: Exception) -> Reply:
        """Return the response to a request that ended with `exc`. The credit amounts in it come from the ledger."""
        failed = exc if isinstance(exc, CallFailed) else None
        refused = refusal_of(failed.__cause__ if failed and failed.__cause__ else exc)
        caller, balance = request.caller, failed.balance if failed else None
        if failed is None and caller is not None and refused.knows_balance:
            balance = await balance_of(self.balances, caller.key.account_id)
        used = failed.credits_used if failed else 0
        base_url = self.base_url_for(request)
        body = envelope.failure(refused, request_id=request.id, credits_used=used, balance=balance, base_url=base_url)
        headers = refused.headers
        if caller:
            headers = joined(headers, _credit_headers(used, balance))
        if refused.retry_after_s is not None:
            headers = joined(headers, (_RETRY_AFTER, (b"%d" % refused.retry_after_s,)))
        upstream_s = failed.upstream_s if failed else 0.0
        return Reply(refused.code.status, body, headers, refused.code.name, _JSON, used, upstream_s)


def _around(stored: bytes, reply: Reply) -> Reply:
    """Insert a large shared fragment into the response built for an empty fragment, without a copy."""
    at = reply.body.index(b",") + 1  # the position after `success`
    reply.pieces = reply.body[:at], stored, reply.body[at:]
    reply.body = b""
    return reply


def account_fragment(path: str, data: Any, pagination: Any = None) -> bytes:
    """Return the fragment of an account resource (decisions 2)."""
    return envelope.fragment("account", path, data, pagination)
