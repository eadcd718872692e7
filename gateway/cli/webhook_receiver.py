"""A webhook receiver as an ASGI app. It verifies deliveries in the way that the documentation recommends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from gateway.server.asgi import Receive, Scope, Send
from scheduler.webhooks.errors import SignatureRefused

_BODY_BYTES_MAX = 32 * 1024 * 1024


class Verify(Protocol):
    """Checks the value of a signature header. Raises SignatureRefused."""

    def __call__(self, header: str, body: bytes, *, now: float) -> object:
        """Return normally if the signature is valid."""


@dataclass(frozen=True, slots=True)
class Received:
    """One received delivery. `body` is its decoded JSON; None if the signature is not valid."""

    problem: str | None
    webhook_id: str
    body: Any = None


class Receiver:
    """Accepts deliveries at any path, and publishes each of them."""

    def __init__(
        self,
        verify: Verify,
        *,
        header_name: str,
        publish: Callable[[Received], Awaitable[None]],
        now: Callable[[], float],
    ) -> None:
        self._verify = verify
        self._header_name = header_name
        self._publish = publish
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection scope."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not supported")
        status, text = await self._answer(scope["method"], dict(scope["headers"]), receive)
        body = f"{text}\n".encode() if text else b""
        headers = [(b"content-length", b"%d" % len(body))] if text else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, method: str, headers: dict[bytes, bytes], receive: Receive) -> tuple[int, str]:
        if method != "POST":
            return 405, "deliveries must use POST"
        body = await _body(receive)
        if body is None:
            return 413, "the body is too long, or incomplete"
        received = self._judge(headers, body)
        await self._publish(received)
        return (204, "") if received.problem is None else (401, received.problem)

    def _judge(self, headers: dict[bytes, bytes], body: bytes) -> Received:
        webhook_id = headers.get(b"webhook-id", b"").decode("latin-1")
        header = headers.get(self._header_name.encode())
        if header is None:
            return Received(f"there is no {self._header_name} header", webhook_id)
        try:
            self._verify(header.decode("latin-1"), body, now=self._now())
            return Received(None, webhook_id, orjson.loads(body))
        except SignatureRefused as exc:
            return Received(str(exc), webhook_id)
        except orjson.JSONDecodeError:
            return Received("the body is signed, but is not valid JSON", webhook_id)


async def _body(receive: Receive) -> bytes | None:
    """Read the whole body; None if it is too long or incomplete."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        pieces.append(message["body"])
        size += len(message["body"])
        if size > _BODY_BYTES_MAX:
            return None
        if not message["more_body"]:
            return b"".join(pieces)
