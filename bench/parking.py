"""Parked long-polls: an app of the bench's own on the native server, `python -m bench.parking`.

`/park/N` is answered once `/wake/N` or `/wake/all` is asked; `/parked` says how many wait. A poll holds what the server
holds for it, one event and no more, so that it shows the floor under any feed that is built on the server.
"""

import gc
import signal
import sys
from functools import partial

import msgspec
import trio

from bench.process import raise_open_files
from gateway.edge import plain_edge_answer
from gateway.server.asgi import Receive, Scope, Send
from gateway.server.serve import serve_native

BACKLOG = 4_096


class Parking:
    """The ASGI app. `waiting` is changed by its own requests only."""

    def __init__(self) -> None:
        """Nobody waits."""
        self.waiting: dict[str, trio.Event] = {}

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Serve one request."""
        assert scope["type"] == "http"
        _, what, *which = scope["path"].split("/")
        if what == "park":
            await self._park(which[0])
        elif what == "wake":
            self._wake(which[0])
        await _answer(send, b"%d" % len(self.waiting))

    async def _park(self, name: str) -> None:
        event = self.waiting[name] = trio.Event()
        try:
            await event.wait()
        finally:
            self.waiting.pop(name, None)

    def _wake(self, name: str) -> None:
        woken = list(self.waiting.values()) if name == "all" else [self.waiting[name]]
        for event in woken:
            event.set()


async def _answer(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def serve() -> None:
    """Serve until SIGTERM or SIGINT."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=BACKLOG)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            app, stop = Parking(), trio.Event()
            await nursery.start(
                partial(serve_native, app, listeners, shutdown=stop, drain_s=0.0, edge_answer=plain_edge_answer)
            )
            line = {"event": "listening", "url": f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"}
            sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
            sys.stdout.flush()
            async for _ in signals:
                break
            stop.set()


if __name__ == "__main__":
    raise_open_files()
    gc.freeze()
    trio.run(serve)
