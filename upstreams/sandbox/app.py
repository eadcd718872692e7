"""The sandbox as an ASGI app.

The stand-in for a host answers `/{host}/{path}`, the form in which `egress` sends requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import orjson
import trio

from upstreams.sandbox.site import SandboxReply, answer, request_of
from upstreams.sandbox.stand_ins import load_routes

_BODY_BYTES_MAX = 65_536
DRIFT_STEP_S = 20.0
_COUNTS = frozenset(
    {
        "followers",
        "stargazers_count",
        "forks_count",
        "watchers_count",
        "subscribers_count",
        "points",
        "num_comments",
        "score",
        "descendants",
        "karma",
    }
)
"""The names of counters on platforms with handwritten stand-ins. Counters grow over time."""
_COUNTED = frozenset({"followers", "stargazers", "watchers"})
"""GraphQL connections whose total is also a counter."""

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


@dataclass(slots=True)
class Behaviour:
    """The latency and failures of the sandbox. They can be changed at any time."""

    latency_s: float = 0.0
    failure_rate: float = 0.0
    """Share of requests, 0 to 1, that receive a 503."""
    drifts: bool = False
    """Whether counters grow over time, which provides data for deltas, alerts and charts."""


class Sandbox:
    """Answers requests like the upstream platforms. `rng` decides which requests fail."""

    def __init__(self, behaviour: Behaviour, rng: Random) -> None:
        self.behaviour = behaviour
        self.requests_total = 0
        self._rng = rng
        self._began = trio.current_time()
        self._routes = load_routes()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection scope."""
        if scope["type"] != "http":
            raise RuntimeError(f"Scope type {scope['type']} is not supported")
        self.requests_total += 1
        if self.behaviour.latency_s:
            await trio.sleep(self.behaviour.latency_s)
        reply = self._reply(scope, await _body_of(receive) if scope.get("method") == "POST" else b"")
        text = isinstance(reply.body, str)
        body = reply.body.encode() if text else orjson.dumps(reply.body)
        headers = [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
        if "content-type" not in {name.lower() for name in reply.headers}:
            headers.append((b"content-type", b"text/plain; charset=utf-8" if text else b"application/json"))
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _reply(self, scope: Any, body: bytes) -> SandboxReply:
        if self.behaviour.failure_rate and self._rng.random() < self.behaviour.failure_rate:
            return SandboxReply({"message": "The sandbox simulates a failure."}, status=503)
        steps = int((trio.current_time() - self._began) / DRIFT_STEP_S) if self.behaviour.drifts else 0
        sent = scope["raw_path"].decode("ascii", errors="replace")  # not decoded, because a segment may contain a slash
        host, _, path = sent.removeprefix("/").partition("/")
        target = f"/{path}?{scope['query_string'].decode('latin-1')}"
        reply = answer(self._routes, request_of(scope.get("method", "GET"), host, target, body, steps=steps))
        grows = steps and reply.status == 200 and not reply.has_grown
        return replace(reply, body=drifted(reply.body, steps)) if grows else reply


def drifted(body: Any, steps: int, within: str = "") -> Any:
    """Return the JSON value with every counter increased by half a percent plus one, once per step."""
    if isinstance(body, dict):
        return {name: _grown(name, value, steps, within) for name, value in body.items()}
    return [drifted(value, steps, within) for value in body] if isinstance(body, list) else body


def _grown(name: str, value: Any, steps: int, within: str) -> Any:
    is_count = name in _COUNTS or (name == "totalCount" and within in _COUNTED)
    if is_count and isinstance(value, int) and not isinstance(value, bool):
        return value + steps * (1 + value // 200)
    return drifted(value, steps, name)


async def _body_of(receive: Receive) -> bytes:
    """Return the body of the request. If it is too long, return an empty body."""
    body = b""
    while len(body) <= _BODY_BYTES_MAX:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return body if len(body) <= _BODY_BYTES_MAX else b""
