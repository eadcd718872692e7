"""Makes free changes only once per `Idempotency-Key` (decisions 7 and 17)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec
import trio

from gateway.api.responses import Replies
from gateway.calls.idempotency import Begin, Claims, fingerprint, idempotency_key
from gateway.http.request import Caller, Reply, Request
from limits.idempotency import UNFINISHED_S, Claim, StoredReply
from storage.store import Tx, Write
from upstreams.model.errors import UpstreamFailed

T = TypeVar("T")
_KEEP_S: Final = 5.0
_DO_S: Final = UNFINISHED_S - 60.0
"""Time limit in seconds for an action that must not be repeated. If it ran longer, its claim could expire and the
action could run again.
"""


@dataclass(frozen=True, slots=True)
class Changes:
    """Makes changes for the routes. A repeated request gets the stored text of the first request."""

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
        """Make the change and claim its idempotency key, if the request has one, in the same transaction.

        `keep` turns the result of the transaction into the text that is stored. That text must contain no secret.

        Raises:
            ClaimRefused: the key is taken. Also anything that `make` raises; the key is then free again.
        """
        claim = claim_of_change(request, caller, body)
        return await make(None) if claim is None else await self.claims.once(claim, make, keep=keep)

    async def repeat_safely(
        self, request: Request, caller: Caller, body: msgspec.Struct, make: Callable[[], Awaitable[str]]
    ) -> str | StoredReply:
        """Make a change that uses its own transaction, and store the text of its result afterwards.

        If the node dies in between, a repeated request makes the change again, so the change must be safe to repeat.

        Raises:
            The same exceptions as `Changes.make`.
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

    async def make_outside(
        self,
        claim: Claim | None,
        begin: Callable[[Tx], T],
        call: Callable[[T], Awaitable[str]],
        *,
        undo: Callable[[Tx, T], object],
    ) -> str | StoredReply:
        """Make a change that calls another service in between, and store the text that `call` returns.

        `begin` runs in one transaction with the claim of the key, so other requests with the same key are refused until
        the change is complete. If `call` fails or is cancelled, `undo` runs in one transaction with the release of the
        key. If the node dies in between, the key is free again after `STARTED_S`, and `begin` must then find the
        unfinished change.

        Raises:
            ClaimRefused: the key is taken. Also anything that `begin` or `call` raises; the key is then free again.
        """
        begun = await self.claims.start(claim, begin)
        if isinstance(begun, StoredReply):
            return begun
        try:
            text = await call(begun)
        except BaseException:
            with trio.move_on_after(_KEEP_S, shield=True):
                await self.claims.finish(claim, None, undo=lambda tx: undo(tx, begun))
            raise
        if claim is not None:
            with trio.move_on_after(_KEEP_S, shield=True):
                await self.claims.finish(claim, StoredReply(200, text, claim.owner))
        return text

    async def do_once(
        self,
        request: Request,
        caller: Caller,
        body: msgspec.Struct,
        do: Callable[[], Awaitable[str]],
        *,
        untouched: tuple[type[Exception], ...],
    ) -> str | StoredReply:
        """Perform an action that no transaction can undo, such as a click.

        With a key, the action runs at most once. It is completed even if the client has disconnected. `do` returns the
        text to store. An exception of a type in `untouched` means that nothing was done, and the key is free. After any
        other exception the outcome is unknown, so a repeated request is refused and the action does not run again.

        Raises:
            ClaimRefused: the key is taken. UpstreamFailed: the action took too long. Also anything that `do` raises.
        """
        claim = claim_of_change(request, caller, body)
        if claim is None:
            return await do()
        with trio.move_on_after(_DO_S, shield=True):
            begun = await self.claims.begin(Begin(claim, None))
            return begun if isinstance(begun, StoredReply) else await self._do(claim, do, untouched)
        raise UpstreamFailed("browser", f"it took longer than {_DO_S:g} s")

    async def _do(self, claim: Claim, do: Callable[[], Awaitable[str]], untouched: tuple[type[Exception], ...]) -> str:
        reply: StoredReply | None = StoredReply(200, None, claim.owner)
        try:
            text = await do()
            reply = StoredReply(200, text, claim.owner)
        except untouched:
            reply = None
            raise
        finally:
            with trio.move_on_after(_KEEP_S, shield=True):
                await self.claims.finish(claim, reply)
        return text

    async def answer(
        self,
        request: Request,
        caller: Caller,
        stored: bytes,
        made: object,
        *,
        status: int = 200,
        credits_used: int = 0,
    ) -> Reply:
        """Return the response whose envelope contains the stored fragment.

        The response to a repeated request is marked as a replay, has the id of the first request, and is free.
        """
        if isinstance(made, StoredReply):
            return await self.replies.repeated(caller, stored, owner=made.owner, status=status)
        return replace(await self.replies.free(request, caller, stored, credits_used=credits_used), status=status)


def text_of(reply: StoredReply) -> str:
    """Return the stored text of a change."""
    assert reply.text is not None, "a reply without a text is never replayed"
    return reply.text


def claim_of_change(request: Request, caller: Caller, body: msgspec.Struct) -> Claim | None:
    """Return the claim of the request's idempotency key for this path, query and body, or None without a key."""
    key = idempotency_key(request.headers.get(b"idempotency-key"))
    if key is None:
        return None
    place = f"{request.method} {request.path}"
    digest = fingerprint(place.encode(), request.query_string, msgspec.json.encode(body, order="deterministic"))
    return Claim(caller.key.account_id, key, place, digest, request.id)
