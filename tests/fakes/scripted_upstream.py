"""The upstream of all platforms in tests: the sandbox, unless a test scripts other answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Literal

import orjson
import trio

from gateway.http.edge_answers import plain_edge_answer
from gateway.node.listeners import bind, port_of
from gateway.server.asgi import ASGIApp
from gateway.server.serve import serve_native
from upstreams.sandbox.app import Behaviour, Sandbox

PIECE = b"x" * 65_536


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """One answer. `cut` sends half of the body and disconnects; `endless` sends the body repeatedly."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    delay_s: float = 0.0
    ending: Literal["whole", "cut", "endless"] = "whole"


def json_answer(body: Any, status: int = 200, **headers: str) -> ScriptedAnswer:
    """Return a JSON answer; `retry_after="7"` is the header `retry-after`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ScriptedAnswer(status, orjson.dumps(body), {"content-type": "application/json", **named})


class Hangup(OSError):
    """Raised to close a connection in the middle of an answer."""


class Upstream:
    """An ASGI app for `egress`.

    `requests` holds `host/path?query` of each request, unchanged. `script` receives that text and returns the answer,
    or None to pass the request to the sandbox.
    """

    def __init__(self) -> None:
        self.behaviour = Behaviour()
        self.script: Callable[[str], ScriptedAnswer | None] = lambda _asked: None
        self.requests: list[str] = []
        self.sandbox_answers: dict[str, ScriptedAnswer] = {}
        """The sandbox's latest answers, by the `host/path?query` of their request."""
        self._held = self._open = trio.Event()
        self._open.set()
        self._sandbox = Sandbox(self.behaviour, Random(0))

    def always(self, answer: ScriptedAnswer | None) -> None:
        """Answer every request in the same way; None restores the sandbox."""
        self.script = lambda _asked: answer

    def pass_time(self, seconds: float) -> None:
        """Advance the sandbox's clock by this many seconds."""
        self._sandbox._began -= seconds

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold requests that arrive in the block until it ends."""
        opened = self._held = self._open = trio.Event()
        try:
            yield
        finally:
            opened.set()

    def release(self) -> None:
        """Answer all held requests."""
        self._held.set()

    def hold_no_more(self) -> None:
        """Answer new requests immediately; requests that are already held stay held."""
        self._open = trio.Event()
        self._open.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        query = scope["query_string"].decode()
        asked = scope["raw_path"].decode().removeprefix("/") + (f"?{query}" if query else "")
        self.requests.append(asked)
        await self._open.wait()
        answer = self.script(asked)
        if answer is None:
            await self._sandbox(scope, receive, partial(self._pass_on, send, asked))
        else:
            await _send(answer, send)

    async def _pass_on(self, send: Any, asked: str, message: Any) -> None:
        """Forward a message of the sandbox, which sends a start and a body."""
        if message["type"] == "http.response.start":
            headers = {name.decode(): value.decode() for name, value in message["headers"]}
            del headers["content-length"]
            self.sandbox_answers[asked] = ScriptedAnswer(message["status"], headers=headers)
        else:
            self.sandbox_answers[asked] = replace(self.sandbox_answers[asked], body=message["body"])
        await send(message)


async def _send(answer: ScriptedAnswer, send: Any) -> None:
    await trio.sleep(answer.delay_s)
    headers = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
    if answer.ending != "endless":
        headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if answer.ending == "cut":
        half = answer.body[: len(answer.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        raise Hangup
    while answer.ending == "endless":
        await send({"type": "http.response.body", "body": answer.body, "more_body": True})
    await send({"type": "http.response.body", "body": answer.body})


@asynccontextmanager
async def open_app(app: ASGIApp, *, change: str) -> AsyncIterator[str]:
    """Serve a stand-in on its own port. Return its address for the setting `change`."""
    listeners = await bind("127.0.0.1", 0, change=change)
    stop = trio.Event()
    serve = partial(serve_native, app, listeners, shutdown=stop, drain_s=0.0, edge_answer=plain_edge_answer)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve)
        try:
            yield f"http://127.0.0.1:{port_of(listeners)}"
        finally:
            stop.set()


def open_upstream(upstream: Upstream) -> AbstractAsyncContextManager[str]:
    """Serve the upstream on its own port, and return the address for `egress`."""
    return open_app(upstream, change="upstream.port")
