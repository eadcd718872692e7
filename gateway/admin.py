"""The admin address: health, readiness, metrics, and the operations behind a token. Bind it to loopback.

A node and a supervisor of several answer alike, each from what it knows.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import orjson
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from gateway.errors import refusal_of
from gateway.logs import Log
from gateway.operations import OperationRefused, Operations
from gateway.server.asgi import HTTPScope, Receive, Scope, Send
from gateway.server.errors import BodyTooLong, ClientGone
from gateway.server.whole_body import read_body
from storage.errors import StorageError

_BODY_BYTES_MAX = 65_536
_JSON = b"application/json"
_TEXT = b"text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered on an admin address."""

    status: int
    content_type: bytes
    body: bytes


Readiness = Callable[[], Awaitable[str | None]]
"""Gives why it cannot serve, in lines without the last one's end, or None when it can."""
Scrape = Callable[[], Awaitable[bytes]]
"""Gives the metrics as Prometheus reads them."""
Operate = Callable[[HTTPScope, Receive], Awaitable[Answer]]
"""Does the operation that a request to /admin/ asks for, or says why not."""


class Admin:
    """ASGI app of an admin address."""

    def __init__(self, *, readiness: Readiness, scrape: Scrape, operate: Operate) -> None:
        self._readiness = readiness
        self._scrape = scrape
        self._operate = operate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection scope."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served here")
        answer = await self._answer(scope, receive)
        headers = [(b"content-type", answer.content_type), (b"content-length", b"%d" % len(answer.body))]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})

    async def _answer(self, scope: HTTPScope, receive: Receive) -> Answer:
        path = scope["path"]
        if path.startswith("/admin/"):
            return await self._operate(scope, receive)
        if scope["method"] not in ("GET", "HEAD"):
            return Answer(405, _TEXT, b"use GET\n")
        if path == "/healthz":
            return Answer(200, _TEXT, b"ok\n")
        if path == "/readyz":
            reason = await self._readiness()
            return Answer(200, _TEXT, b"ready\n") if reason is None else Answer(503, _TEXT, f"{reason}\n".encode())
        if path == "/metrics":
            return Answer(200, CONTENT_TYPE_LATEST.encode(), await self._scrape())
        return Answer(404, _TEXT, b"here are /healthz, /readyz, /metrics and POST /admin/{operation}\n")


class OwnOperations:
    """The operations of this process, for whoever has the token."""

    def __init__(self, operations: Operations, *, token: str, log: Log) -> None:
        self._operations = operations
        self._token = token.encode()
        self._log = log

    async def operate(self, scope: HTTPScope, receive: Receive) -> Answer:
        """As `Operate`."""
        presented = dict(scope["headers"]).get(b"authorization", b"")
        if not hmac.compare_digest(presented, b"Bearer " + self._token):
            return refused(401, "the admin token is missing or wrong")
        if scope["method"] != "POST":
            return refused(405, "use POST")
        name = scope["path"].removeprefix("/admin/")
        try:
            arguments = orjson.loads(await read_arguments(receive) or b"{}")
            if not isinstance(arguments, dict):
                return refused(400, "the arguments must be a JSON object")
            result = await self._operations.run(name, arguments)
        except (OperationRefused, orjson.JSONDecodeError) as exc:
            return refused(400, str(exc))
        except StorageError as exc:
            self._log.failure("operation_failed", exc, operation=name)
            return refused(refusal_of(exc).code.status, str(exc))
        self._log.event("info", "operation", operation=name)
        return answered(result)


def answered(result: object) -> Answer:
    """What an operation gives."""
    return Answer(200, _JSON, orjson.dumps(result))


def refused(status: int, text: str) -> Answer:
    """Why an operation is not done."""
    return Answer(status, _JSON, orjson.dumps({"error": text}))


async def read_arguments(receive: Receive) -> bytes:
    """The arguments of an operation as they were sent.

    Raises:
        OperationRefused: the client went away, or they are too long.
    """
    try:
        return await read_body(receive, bytes_max=_BODY_BYTES_MAX)
    except BodyTooLong as exc:
        raise OperationRefused(f"the arguments are over {_BODY_BYTES_MAX} bytes") from exc
    except ClientGone as exc:
        raise OperationRefused("the client went away") from exc
