"""One attempt of a delivery: check the target, connect, send the request, and read the needed part of the response.

A name is resolved once per attempt. All its addresses are checked, and the connection goes to one of them under the
host's name, so a later DNS change can never lead to an unchecked address. Redirects count as ordinary responses, and no
proxy is used.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import httpx
import trio

from scheduler.webhooks.signature import Headers
from scheduler.webhooks.targets.urls import without_tokens
from storage.supervision import Keep, unsupervised
from upstreams.guard.addresses import check_url
from upstreams.guard.pinned import NameUnknown, PinnedExchange
from upstreams.guard.resolver import Resolve, SystemResolver
from upstreams.model.errors import TargetRefused
from upstreams.model.refusals import retry_after_s
from upstreams.transport.answer_parser import AnswerBrokenOff
from upstreams.transport.http import HttpAnswer, HttpCall
from upstreams.transport.pooled import Transport, open_transport

ANSWER_CHARACTERS_KEPT = 20_000
_ANSWER_BYTES_MAX = 65_536
_HEADER_BYTES_MAX = 32_768
_CONNECT_S = 5.0
_IDLE_S = 30.0
_CONNECTIONS_PER_ADDRESS = 8
_CONNECTIONS_IDLE = 256
"""The maximum number of idle connections to all receivers: as many as there are concurrent attempts."""
_PROBLEM_CHARACTERS = 300
_OWN_HEADERS: Headers = (
    ("content-type", "application/json"),
    ("user-agent", "sluice-webhooks"),
    ("accept-encoding", "identity"),
)

ErrorClass = Literal[
    "target_refused", "name_unknown", "connect_failed", "tls_failed", "timed_out", "connection_lost", "answer_malformed"
]


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of an attempt: a `status`, or the `error` that prevented a response, described in `problem`."""

    status: int | None
    error: ErrorClass | None
    problem: str
    latency_s: float
    retry_after_s: float | None = None
    answer: str = ""
    """The first characters of the response body."""


class Sender:
    """Makes attempts over reusable connections. Created by `open_sender`."""

    def __init__(self, transport: Transport, *, resolve: Resolve, allow_insecure: bool) -> None:
        self._exchange = PinnedExchange(
            transport.exchange, resolve, allow_insecure=allow_insecure, resolve_s=_CONNECT_S, remembered_s=0
        )
        self._allow_insecure = allow_insecure

    async def attempt(self, url: str, body: bytes, *, headers: Headers, deadline_at: float) -> Attempt:
        """POST `body` to `url` by `deadline_at` on Trio's clock. Return the outcome, which includes any error."""
        began_at = trio.current_time()
        try:
            answer = await self._post(url, body, headers, deadline_at)
        except (TargetRefused, httpx.TransportError) as exc:
            problem = _storable(str(exc), url)[:_PROBLEM_CHARACTERS]
            return Attempt(None, _class_of(exc), problem, trio.current_time() - began_at)
        return Attempt(
            answer.status,
            None,
            "",
            trio.current_time() - began_at,
            retry_after_s(answer.headers),
            _storable(answer.body.decode("utf-8", "replace"), url)[:ANSWER_CHARACTERS_KEPT],
        )

    async def _post(self, url: str, body: bytes, headers: Headers, deadline_at: float) -> HttpAnswer:
        target = check_url(url, allow_insecure=self._allow_insecure)
        call = HttpCall("POST", target.origin_at(""), target.path, (*_OWN_HEADERS, *headers), body)
        return await self._exchange.ask(target, call, deadline_at)


@asynccontextmanager
async def open_sender(
    *,
    resolve: Resolve | None = None,
    allow_insecure: bool = False,
    ssl_context: ssl.SSLContext | None = None,
    idle_s: float = _IDLE_S,
    keep: Keep = unsupervised,
) -> AsyncIterator[Sender]:
    """Open a sender whose connections are closed at the end of the block.

    `allow_insecure`, only for tests, permits http and private addresses. Connections that are unused for `idle_s` are
    closed.
    """
    async with open_transport(
        keep=keep,
        max_connections=_CONNECTIONS_PER_ADDRESS,
        max_idle=_CONNECTIONS_IDLE,
        connect_s=_CONNECT_S,
        idle_s=idle_s,
        body_bytes_max=_ANSWER_BYTES_MAX,
        header_bytes_max=_HEADER_BYTES_MAX,
        ssl_context=ssl_context,
        starts_only=True,
        repeats=frozenset({"POST"}),  # receivers must accept duplicate deliveries (spec 6.1)
    ) as transport:
        yield Sender(transport, resolve=resolve or SystemResolver(), allow_insecure=allow_insecure)


def _class_of(exc: Exception) -> ErrorClass:
    match exc:
        case TargetRefused():
            return "target_refused"
        case NameUnknown():
            return "name_unknown"
        case httpx.TimeoutException():
            return "timed_out"
        case httpx.ConnectError():
            return "tls_failed" if isinstance(exc.__cause__, ssl.SSLError) else "connect_failed"
        case httpx.NetworkError() | AnswerBrokenOff():
            return "connection_lost"
        case _:
            return "answer_malformed"


def _storable(text: str, url: str) -> str:
    """Remove the URL's tokens from a text, and replace NUL, which PostgreSQL rejects."""
    return without_tokens(text, url).replace("\0", "\N{REPLACEMENT CHARACTER}")
