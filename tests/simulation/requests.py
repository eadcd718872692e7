"""A request of the simulated world from its client's view, from the call of the app to the answer or disconnect."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import orjson

from gateway.server.asgi import HTTPScope


@dataclass(frozen=True, slots=True)
class Holder:
    """A key with its account."""

    account: str
    key_id: str
    key: str


@dataclass(slots=True, eq=False)
class Sent:
    """A request. Its client modifies it, and the store, the upstream and admission record in it what they observe."""

    name: str
    holder: Holder | None
    path: str
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "GET"
    began_at: float = 0.0
    ended_at: float | None = None
    first_balance: int = 0
    """A position in the account's balances. The node knows this balance, or a later one, when the request begins."""
    key_was_revoked: bool = False
    """Whether the request's key had been revoked before the request began."""
    is_told: bool = False
    """Whether the client received the complete answer."""
    answers: int = 0
    """The number of useful bodies that the upstream returned for this request."""
    patience_ends_at: float = float("inf")
    """From this time on, the client accepts no more data."""
    charged: list[str] = field(default_factory=list)
    """The request ids under which this request asked for a charge."""
    status: int = 0
    received: dict[str, str] = field(default_factory=dict)
    body: Any = None

    @property
    def claim(self) -> str | None:
        """Return the request's idempotency key."""
        return self.headers.get("idempotency-key")

    @property
    def code(self) -> str:
        """Return the error's type, or OK."""
        return "OK" if self.body["success"] else str(self.body["error"]["type"])

    @property
    def is_fresh(self) -> bool:
        """Return whether the request asks for an uncached answer."""
        return "cache-control" in self.headers

    @property
    def wants_events(self) -> bool:
        """Return whether the request asks for server-sent events."""
        return "accept" in self.headers

    @property
    def is_stream(self) -> bool:
        """Return whether the request was answered with server-sent events."""
        return self.received.get("content-type", "").startswith("text/event-stream")

    @property
    def is_replay(self) -> bool:
        """Return whether the answer repeats an earlier request's outcome."""
        return bool(self.body.get("idempotent_replay"))

    def scope(self) -> HTTPScope:
        """Return the scope that a server passes to the app."""
        key = {"x-api-key": self.holder.key} if self.holder is not None else {}
        headers = {**key, **self.headers}
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self.query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": None,
            "server": None,
        }

    def take(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Record that the answer has arrived."""
        self.status = status
        self.received = {name.decode(): value.decode() for name, value in headers}
        # In a stream of events, the last one contains the envelope.
        self.body = orjson.loads(body.rpartition(b"\ndata: ")[2] if self.is_stream else body)
        self.is_told = True


NOBODY = Sent("the node", None, "")
CURRENT: ContextVar[Sent] = ContextVar("CURRENT", default=NOBODY)
"""The request that the running task works for."""
