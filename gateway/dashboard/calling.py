"""Calls the API within the process, with one ASGI scope per call, as if a client had sent it."""

from __future__ import annotations

from typing import Any

import trio

from gateway.dashboard.services import ApiAnswer, ApiCall, CallApi
from gateway.server.asgi import ASGIApp


def calls_of(app: ASGIApp) -> CallApi:
    """Return a function that calls the API through its ASGI app."""

    async def call(call_: ApiCall) -> ApiAnswer:
        return await _call(app, call_)

    return call


async def _call(app: ASGIApp, call_: ApiCall) -> ApiAnswer:
    path, _, query = call_.target.partition("?")
    headers = [(b"x-api-key", call_.key.encode()), (b"accept", b"application/json")]
    if call_.body:
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(call_.body))]
    scope: Any = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": call_.method,
        "scheme": "http",
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "client": None,
        "server": None,
        "extensions": {},
    }
    sent: list[Any] = []
    bodies = [call_.body]

    async def receive() -> Any:
        if not bodies:
            # Never report a disconnect, because the user who opened the page waits for the response.
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    async def send(message: Any) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    await app(scope, receive, send)
    head = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return ApiAnswer(sent[0]["status"], head, b"".join(message.get("body", b"") for message in sent[1:]))
