"""Changes that cost nothing and that an `Idempotency-Key` lets happen once (decisions 7 and 17)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from gateway.api.responses import Replies
from gateway.calls.idempotency import Claims, fingerprint, idempotency_key
from gateway.http.request import Caller, Reply, Request
from limits.idempotency import Claim, StoredReply
from storage.store import Write

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Changes:
    """Makes changes for the routes; a repetition is given the text that was kept of the first."""

    claims: Claims
    replies: Replies

    async def make(
        self,
        request: Request,
        caller: Caller,
        body: msgspec.Struct,
        make: Callable[[Write | None], Awaitable[T]],
        *,
        keep: Callable[[Any], str],
    ) -> T | StoredReply:
        """Make the change in one transaction with the claim of its key, if it has one.

        `keep` makes the text, which holds no secret, of what that transaction returns.

        Raises:
            ClaimRefused: the key is taken. Or what `make` raises; then the key is as free as before.
        """
        claim = claim_of_change(request, caller, body)
        return await make(None) if claim is None else await self.claims.once(claim, make, keep=keep)

    async def repeat_safely(
        self, request: Request, caller: Caller, body: msgspec.Struct, make: Callable[[], Awaitable[str]]
    ) -> str | StoredReply:
        """Make a change that has a transaction of its own, and keep its text behind it; if the node dies in between,
        it is made again, so it has to be one that may be.

        Raises:
            As `make` of this class.
        """
        claim = claim_of_change(request, caller, body)
        if claim is None:
            return await make()
        if (reply := await self.claims.earlier(claim)) is not None:
            return reply

        async def make_and_keep(write: Write) -> str:
            text = await make()
            return await write(lambda _: text)

        return await self.claims.once(claim, make_and_keep, keep=str)

    async def answer(
        self, request: Request, caller: Caller, stored: bytes, made: object, *, status: int = 200
    ) -> Reply:
        """The answer around a fragment; that of a repetition says so and has the first one's request id."""
        if isinstance(made, StoredReply):
            return await self.replies.repeated(caller, stored, owner=made.owner, status=status)
        return replace(await self.replies.free(request, caller, stored), status=status)


def text_of(reply: StoredReply) -> str:
    """The text that was kept of a change."""
    assert reply.text is not None, "a reply without its text is refused, not replayed"
    return reply.text


def claim_of_change(request: Request, caller: Caller, body: msgspec.Struct) -> Claim | None:
    """The claim of a change's idempotency key, for this path, query and body; None where it has no key."""
    key = idempotency_key(request.headers.get(b"idempotency-key"))
    if key is None:
        return None
    place = f"{request.method} {request.path}"
    digest = fingerprint(place.encode(), request.query_string, msgspec.json.encode(body, order="deterministic"))
    return Claim(caller.key.account_id, key, place, digest, request.id)
