"""The admin address: health, readiness, metrics, and the operations behind a token. Bind it to loopback."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from gateway.errors import refusal_of
from gateway.logs import Log
from gateway.operations import OperationRefused, Operations
from gateway.server.asgi import HTTPScope, Receive, Scope, Send
from storage.errors import StorageError

_BODY_BYTES_MAX = 65_536
_JSON = b"application/json"
_TEXT = b"text/plain; charset=utf-8"
Readiness = Callable[[], Awaitable[str | None]]
"""Gives why the node cannot serve, or None when it can."""


class Admin:
    """ASGI app of the admin address."""

    def __init__(
        self, operations: Operations, *, token: str, registry: CollectorRegistry, readiness: Readiness, log: Log
    ) -> None:
        self._operations = operations
        self._token = token.encode()
        self._registry = registry
        self._readiness = readiness
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection scope."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served here")
        status, content_type, body = await self._answer(scope, receive)
        headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope: HTTPScope, receive: Receive) -> tuple[int, bytes, bytes]:
        path, method = scope["path"], scope["method"]
        if path.startswith("/admin/"):
            return await self._operation(scope, receive)
        if method not in ("GET", "HEAD"):
            return 405, _TEXT, b"use GET\n"
        if path == "/healthz":
            return 200, _TEXT, b"ok\n"
        if path == "/readyz":
            reason = await self._readiness()
            return (200, _TEXT, b"ready\n") if reason is None else (503, _TEXT, f"{reason}\n".encode())
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST.encode(), generate_latest(self._registry)
        return 404, _TEXT, b"here are /healthz, /readyz, /metrics and POST /admin/{operation}\n"

    async def _operation(self, scope: HTTPScope, receive: Receive) -> tuple[int, bytes, bytes]:
        presented = dict(scope["headers"]).get(b"authorization", b"")
        if not hmac.compare_digest(presented, b"Bearer " + self._token):
            return refused(401, "the admin token is missing or wrong")
        if scope["method"] != "POST":
            return refused(405, "use POST")
        name = scope["path"].removeprefix("/admin/")
        try:
            arguments = orjson.loads(await read_body(receive) or b"{}")
            if not isinstance(arguments, dict):
                return refused(400, "the arguments must be a JSON object")
            result = await self._operations.run(name, arguments)
        except (OperationRefused, orjson.JSONDecodeError) as exc:
            return refused(400, str(exc))
        except StorageError as exc:
            self._log.failure("operation_failed", exc, operation=name)
            return refused(refusal_of(exc).code.status, str(exc))
        self._log.event("info", "operation", operation=name)
        return 200, _JSON, orjson.dumps(result)


def refused(status: int, text: str) -> tuple[int, bytes, bytes]:
    """Status, content type and body of an operation that is not done."""
    return status, _JSON, orjson.dumps({"error": text})


async def read_body(receive: Receive) -> bytes:
    """The arguments of an operation as they were sent.

    Raises:
        OperationRefused: the client went away, or they are too long.
    """
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            raise OperationRefused("the client went away")
        piece = message.get("body", b"")
        size += len(piece)
        if size > _BODY_BYTES_MAX:
            raise OperationRefused(f"the arguments are over {_BODY_BYTES_MAX} bytes")
        pieces.append(piece)
        more = message.get("more_body", False)
    return b"".join(pieces)
