"""Parks polls on a bare server, an app of the bench on the native HTTP server: `python -m bench.peers.parking`.

The app runs the same commands as `bench.control.feed_node`, but has no keys, limits, store or filters. A poll needs
only one event and the server's own state, so the cost is the lower bound for any feed on this server.
"""

import gc
import itertools
import signal
import sys
import time
from functools import partial

import msgspec
import trio

from bench.control.control_protocol import APPEND, PEOPLE, WAITING, Append, Appended, People, Person, PersonKey, Waiting
from bench.core.process import raise_open_files
from gateway.http.edge_answers import plain_edge_answer
from gateway.server.asgi import Receive, Scope, Send
from gateway.server.serve import serve_native

BACKLOG = 4_096
DRAIN_S = 30.0
EVENT = b'{"data":{"items":[{}]},"pagination":{"next_cursor":"now","has_more":false,"page_size":1}}'
NOTHING = EVENT.replace(b"{}", b"").replace(b'"page_size":1', b'"page_size":0')


class Parking:
    """The ASGI app. A key consists of its account's name and a number, so the app does not store accounts."""

    def __init__(self) -> None:
        """Start without waiting polls."""
        self._names = itertools.count(1)
        self._waiting: dict[str, dict[trio.Event, None]] = {}
        """The waiting polls by key."""
        self._draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        assert scope["type"] == "http"
        if scope["path"].startswith("/admin/"):
            await _answer(send, self._run(scope["path"].removeprefix("/admin/"), await _body(receive)))
            return
        key = dict(scope["headers"])[b"x-api-key"].decode()
        await self._park(key)
        await _answer(send, NOTHING if self._draining else EVENT)

    def drain(self) -> None:
        """Wake all polls when the server stops."""
        self._draining = True
        self._wake("")

    async def _park(self, key: str) -> None:
        event, of_key = trio.Event(), self._waiting.setdefault(key, {})
        of_key[event] = None
        try:
            await event.wait()
        finally:
            del of_key[event]

    def _run(self, command: str, arguments: bytes) -> bytes:
        answer: msgspec.Struct | list[Person]
        if command == PEOPLE:
            people = msgspec.json.decode(arguments, type=People)
            answer = [self._person(people.keys_each) for _ in range(people.accounts)]
        elif command == APPEND:
            wanted = msgspec.json.decode(arguments, type=Append)
            answer = Appended(time.monotonic_ns())
            self._wake(wanted.key_id or wanted.account or "")
        else:
            assert command == WAITING
            answer = Waiting(sum(map(len, self._waiting.values())))
        return msgspec.json.encode(answer)

    def _person(self, keys: int) -> Person:
        name = f"account{next(self._names)}."
        return Person(name, tuple(PersonKey(f"{name}{nth}", f"{name}{nth}") for nth in range(keys)))

    def _wake(self, prefix: str) -> None:
        for key, of_key in self._waiting.items():
            if key.startswith(prefix):
                for event in of_key:
                    event.set()


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        body += message["body"]
        more = message["more_body"]
    return body


async def _answer(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def serve() -> None:
    """Serve until SIGTERM or SIGINT. Then respond to all waiting polls."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=BACKLOG)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            app, stop = Parking(), trio.Event()
            await nursery.start(
                partial(serve_native, app, listeners, shutdown=stop, drain_s=DRAIN_S, edge_answer=plain_edge_answer)
            )
            url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
            sys.stdout.buffer.write(msgspec.json.encode({"event": "listening", "url": url, "admin_url": url}) + b"\n")
            sys.stdout.flush()
            async for _ in signals:
                break
            stop.set()
            app.drain()


if __name__ == "__main__":
    raise_open_files()
    gc.freeze()
    trio.run(serve)
