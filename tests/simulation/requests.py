"""One request of the simulated world as its sender sees it, from the call of the ASGI app to its answer or hang-up."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import orjson

from gateway.server.asgi import HTTPScope


@dataclass(frozen=True, slots=True)
class Holder:
    """A key and whose it is."""

    account: str
    key_id: str
    key: str


@dataclass(slots=True, eq=False)
class Sent:
    """A request. Who sends it changes it; store, upstream and admission note what they saw of it."""

    name: str
    holder: Holder | None
    path: str
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "GET"
    began_at: float = 0.0
    ended_at: float | None = None
    first_balance: int = 0
    """Where in the account's balances that stands which a node must have known when the request began."""
    key_was_revoked: bool = False
    """Its key had been revoked before it began."""
    is_told: bool = False
    """Its answer came whole."""
    answers: int = 0
    """Useful bodies that the upstream gave for it."""
    patience_ends_at: float = float("inf")
    """From then on its client takes nothing any more."""
    charged: list[str] = field(default_factory=list)
    """Request ids under which it asked for a charge."""
    status: int = 0
    received: dict[str, str] = field(default_factory=dict)
    body: Any = None

    @property
    def claim(self) -> str | None:
        """Its idempotency key."""
        return self.headers.get("idempotency-key")

    @property
    def code(self) -> str:
        """The error's type, or OK."""
        return "OK" if self.body["success"] else str(self.body["error"]["type"])

    @property
    def is_fresh(self) -> bool:
        """It wants no cached answer."""
        return "cache-control" in self.headers

    @property
    def wants_events(self) -> bool:
        """It asks for server-sent events."""
        return "accept" in self.headers

    @property
    def is_stream(self) -> bool:
        """It was answered by server-sent events."""
        return self.received.get("content-type", "").startswith("text/event-stream")

    @property
    def is_replay(self) -> bool:
        """It repeats an earlier request's outcome."""
        return bool(self.body.get("idempotent_replay"))

    def scope(self) -> HTTPScope:
        """As a server hands it to the app."""
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
        """Its answer has come."""
        self.status = status
        self.received = {name.decode(): value.decode() for name, value in headers}
        # Of a stream of events the last holds the envelope.
        self.body = orjson.loads(body.rpartition(b"\ndata: ")[2] if self.is_stream else body)
        self.is_told = True


NOBODY = Sent("the node", None, "")
CURRENT: ContextVar[Sent] = ContextVar("CURRENT", default=NOBODY)
"""On whose behalf the running task works."""
