"""Requests to routes on an in-memory database, without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from billing.keys.cache import Key
from gateway.api.changes import Changes
from gateway.api.responses import Replies
from gateway.calls.idempotency import Claims
from gateway.http.errors import Refused
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route, Routes
from gateway.server.asgi import ReceiveMessage
from scheduler.errors import SchedulerError
from tests.scheduler.desk import Desk
from upstreams.model.cursors import CursorSigner

SIGNER = CursorSigner(bytes(32))


async def reply_of(
    desk: Desk,
    routes_of: Callable[[Replies, Changes], Iterable[Route]],
    account: str,
    method: str,
    path: str,
    sent: object = None,
    *,
    query: str = "",
    key: bytes = b"",
) -> Reply:
    """Return the reply to a request of an account with a JSON body. `key` is its idempotency key."""
    replies = Replies(desk.balances, "https://api.example.com")
    changes = Changes(Claims(desk.store, desk.charges, now=desk.now), replies)

    async def receive() -> ReceiveMessage:  # noqa: ASYNC124 - has ASGI's signature
        return {"type": "http.request", "body": b"" if sent is None else orjson.dumps(sent), "more_body": False}

    headers = {b"idempotency-key": key} if key else {}
    request = Request(desk.make_id("req_"), method, path, query.encode(), headers, 0.0, receive=receive)
    caller = request.caller = Caller(Key("key_1", account, "mine", None))
    try:
        return await Routes(routes_of(replies, changes)).find(request).handle(request, caller)
    except (SchedulerError, Refused) as exc:
        return await replies.refusal(request, exc)


def body_of(reply: Reply) -> Any:
    """Return the envelope of a reply."""
    return orjson.loads(b"".join(reply.pieces) if isinstance(reply.pieces, tuple) else reply.body)
