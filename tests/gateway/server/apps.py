"""A small app whose path says how it behaves."""

import json

import trio

from gateway.server.asgi import HTTPScope, Receive, Scope, Send

BIG = bytes(range(256)) * 8_192
STREAMED = [b"one ", b"two ", b"", b"three"]


async def answer(
    send: Send, body: bytes = b"ok", *, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    headers = [(b"content-type", b"text/plain")] if headers is None else headers
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def read_body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionAbortedError
        body += message["body"]
        if not message["more_body"]:
            return body


class PathApp:
    """Counts its requests, and records what a test wants to check."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.seen: list[str] = []
        self.parked = trio.Event()
        self.release = trio.Event()
        self.left = trio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        self.asked.append(f"{scope['method']} {scope['path']}")
        await getattr(self, scope["path"].strip("/").replace("-", "_") or "fixed", self.missing)(scope, receive, send)

    async def fixed(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await answer(send, headers=[(b"content-length", b"2"), (b"x-app", b"yes")])

    async def missing(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await answer(send, b"missing", status=404)

    async def echo(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await answer(send, await read_body(receive))

    async def scope(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        details = {key: scope[key] for key in ("method", "path", "http_version", "scheme", "root_path")}
        details |= {"raw_path": scope["raw_path"].decode(), "query_string": scope["query_string"].decode()}
        details["headers"] = [[name.decode(), value.decode("latin-1")] for name, value in scope["headers"]]
        await answer(send, json.dumps(details).encode())

    async def stream(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        for piece in STREAMED:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    async def big(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await answer(send, BIG)

    async def flood(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200})
            while True:
                await send({"type": "http.response.body", "body": BIG, "more_body": True})
        except OSError as exc:
            self.seen.append(type(exc).__name__)
            raise
        finally:
            self.left.set()

    async def empty(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await answer(send, b"", status=204, headers=[])

    async def unchanged(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await answer(send, b"", status=304, headers=[(b"etag", b'"1"'), (b"content-length", b"40")])

    async def unread(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await answer(send, b"not read")

    async def late_unread(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await self.release.wait()
        await answer(send, b"not read")

    async def closing(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await answer(send, headers=[(b"connection", b"close")])

    async def boom(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    async def boom_late(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ZeroDivisionError

    async def silent(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Return without a response."""

    async def split(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await answer(send, headers=[(b"x-evil", b"a\r\nset-cookie: b")])

    async def too_long(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        await answer(send, b"longer than said", headers=[(b"content-length", b"3")])

    async def fall_down(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Fail in one of the app's tasks when cancelled."""

        async def stumble() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ZeroDivisionError

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stumble)
            nursery.start_soon(trio.sleep_forever)
            self.parked.set()

    async def park(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Wait like a long-poll: respond when released, stop when the client disconnects."""
        await read_body(receive)

        async def watch() -> None:
            self.seen.append((await receive())["type"])
            self.left.set()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            self.parked.set()
            await self.release.wait()
            await answer(send, b"released")
            nursery.cancel_scope.cancel()
