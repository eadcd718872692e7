"""A small WebSocket app whose path selects its behavior."""

import json
from functools import partial

import trio

from gateway.server.asgi import Receive, Scope, Send, SendMessage, WebSocketScope
from tests.gateway.server.raw_client import open_served

NAMES = (
    "talk scope refuse refuse-in-pieces shut choose chosen-badly split own greet flood "
    "boom boom-early silent leave bye again deaf late wait poll both"
)
PATHS = frozenset(f"/{name}" for name in NAMES.split())
BIG = "x" * 1_000_000
open_sockets = partial(open_served, websocket_paths=PATHS)


class SocketApp:
    """Records its requests, the messages it received, and its failures."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.received: list[str | bytes | int] = []
        self.failed: list[str] = []
        self.opened = trio.Event()
        self.release = trio.Event()
        self.left = trio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            raise NotImplementedError
        self.asked.append(scope["type"])
        if scope["type"] == "websocket":
            try:
                assert (await receive())["type"] == "websocket.connect"
                await getattr(self, scope["path"].strip("/").replace("-", "_"))(scope, receive, send)
            except OSError as exc:
                self.failed.append(type(exc).__name__)
                raise
            finally:
                self.left.set()
        else:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
            await send({"type": "http.response.body", "body": b"plain"})

    async def accept(self, send: Send) -> None:
        await send({"type": "websocket.accept"})
        self.opened.set()

    async def listen(self, receive: Receive) -> str | bytes | None:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            self.received.append(message["code"])
            return None
        assert message["type"] == "websocket.receive"
        said = message["text"] if message["bytes"] is None else message["bytes"]
        assert said is not None
        self.received.append(said)
        return said

    async def talk(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        """Echo every message."""
        await self.accept(send)
        while (said := await self.listen(receive)) is not None:
            await send(say(said))

    async def scope(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        details = {key: scope[key] for key in ("type", "path", "scheme", "http_version", "root_path", "subprotocols")}
        details |= {"query": scope["query_string"].decode(), "extensions": list(scope["extensions"])}
        details |= {"raw_path": scope["raw_path"].decode(), "x": dict(scope["headers"]).get(b"x", b"").decode()}
        await self.accept(send)
        await send(say(json.dumps(details)))

    async def refuse(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/plain"), (b"retry-after", b"7")]
        await send({"type": "websocket.http.response.start", "status": 429, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b"not now"})
        self.received.append((await receive())["type"])

    async def refuse_in_pieces(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.http.response.start", "status": 401, "headers": []})
        for piece in (b"who ", b"are ", b"you"):
            await send({"type": "websocket.http.response.body", "body": piece, "more_body": True})
        await send({"type": "websocket.http.response.body"})

    async def shut(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.close"})

    async def choose(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        chosen = scope["subprotocols"][-1]
        await send({"type": "websocket.accept", "subprotocol": chosen, "headers": [(b"x-app", b"yes")]})

    async def chosen_badly(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept", "subprotocol": "other"})

    async def split(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept", "headers": [(b"x", b"a\r\nset-cookie: b")]})

    async def own(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept", "headers": [(b"Sec-WebSocket-Accept", b"mine")]})

    async def greet(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        await self.accept(send)
        for said in ("", "é" * 100, b"\0" * 200, BIG):
            await send(say(said))

    async def flood(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        await self.accept(send)
        while True:
            await send(say(BIG))

    async def boom(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        await self.accept(send)
        raise ZeroDivisionError

    async def boom_early(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    async def silent(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        """Return without accepting or rejecting."""

    async def leave(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        await self.accept(send)

    async def bye(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        """Close while another task receives, which must get the app's own close."""
        await self.accept(send)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.listen, receive)
            await trio.sleep(0.02)
            await send({"type": "websocket.close", "code": 4_000, "reason": "enough"})

    async def again(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        await self.accept(send)
        await send({"type": "websocket.close", "code": 4_000})
        await send(say("more"))

    async def deaf(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        """Receive only after the release."""
        await self.accept(send)
        await self.release.wait()
        while await self.listen(receive) is not None:
            pass

    async def poll(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        """Cancel and repeat `receive` all the time."""
        await self.accept(send)
        while not (self.received and isinstance(self.received[-1], int)):
            with trio.move_on_after(0.002):
                await self.listen(receive)

    async def both(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        """Send from three tasks while another receives."""

        async def flood(text: str) -> None:
            for _ in range(3):
                await send(say(text * len(BIG)))

        await self.accept(send)
        async with trio.open_nursery() as nursery:
            for text in "abc":
                nursery.start_soon(flood, text)
            while await self.listen(receive) is not None:
                pass

    async def late(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        """Accept only after the release."""
        await self.release.wait()
        await self.talk(scope, receive, send)

    async def wait(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        """Receive until released, then close like an app that has received the shutdown signal."""
        await self.accept(send)

        async def listen() -> None:
            while await self.listen(receive) is not None:
                pass
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            await self.release.wait()
            await send({"type": "websocket.close", "code": 1012, "reason": "restart"})
            nursery.cancel_scope.cancel()


def say(said: str | bytes) -> SendMessage:
    """Return the ASGI message that sends this text or data."""
    if isinstance(said, str):
        return {"type": "websocket.send", "text": said}
    return {"type": "websocket.send", "bytes": said}
