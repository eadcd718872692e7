"""A feed with scripted answers, for tests of feed clients: refusals, lost connections, malformed answers."""

from __future__ import annotations

import ssl
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

PARKED_S = 90.0


@dataclass(frozen=True, slots=True)
class Step:
    """One answer; status 0 closes the connection instead."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


LOST = Step(0)


@dataclass(frozen=True, slots=True)
class Seen:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


def event(number: int, **more: Any) -> dict[str, Any]:
    """Return an event about a revoked key."""
    return {
        "id": f"evt_{number}",
        "type": "key.revoked",
        "api_version": "2026-11-21",
        "created_at": f"2026-11-21T12:00:{number:02}.000Z",
        "subject": {"kind": "key", "id": f"key_{number}", "name": "spare"},
        "data": {"key_id": f"key_{number}", "last4": "abcd"},
        "links": {},
        "cursor": f"cur_{number}",
        **more,
    }


def page(*events: dict[str, Any], cursor: str = "", headers: Mapping[str, str] | None = None, **data: Any) -> Step:
    """Return a page with these events, which ends after the last of them."""
    pagination = {
        "next_cursor": cursor or events[-1]["cursor"],
        "has_more": False,
        "page_size": len(events),
    }
    body = {"success": True, "data": {"items": list(events), "dropped": 0, **data}, "pagination": pagination}
    return Step(200, body, headers or {})


def refusal(status: int, code: str, *, headers: Mapping[str, str] | None = None, **details: Any) -> Step:
    """Return an error in the API's envelope."""
    error = {"type": code, "message": "It is refused.", "status": status, "details": details}
    return Step(status, {"success": False, "error": error}, headers or {})


@dataclass(slots=True)
class ScriptedFeed:
    """The scripted answers to reads and acks, each used once.

    When they are used up, reads wait, and acks are accepted.
    """

    url: str
    reads: deque[Step]
    acks: deque[Step] = field(default_factory=deque)
    seen: list[Seen] = field(default_factory=list)
    parked: threading.Event = field(default_factory=threading.Event)
    """Set when a read finds no scripted answer left, which means that the client has received everything."""
    over: threading.Event = field(default_factory=threading.Event)

    def queries(self) -> list[Mapping[str, str]]:
        """The arguments of every read, in order."""
        return [seen.query for seen in self.seen if seen.method == "GET"]

    def acked(self) -> list[str]:
        """The cursors of every acknowledgement, in order."""
        return [seen.body["cursor"] for seen in self.seen if seen.method == "POST"]

    def next_step(self, seen: Seen) -> Step:
        """Return the answer to a request."""
        self.seen.append(seen)
        if seen.method == "POST":
            done = {"consumer": "c", "cursor": seen.body["cursor"], "advanced": True, "unread": 0}
            return self.acks.popleft() if self.acks else Step(200, {"success": True, "data": done})
        if not self.reads:
            self.parked.set()
            self.over.wait(PARKED_S)
            return LOST
        return self.reads.popleft()


@contextmanager
def open_scripted_feed(
    *reads: Step, acks: Sequence[Step] = (), tls: ssl.SSLContext | None = None
) -> Iterator[ScriptedFeed]:
    """Serve a feed with these steps on its own port until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            length = int(self.headers.get("content-length", 0))
            parts = urlsplit(self.path)
            body = orjson.loads(self.rfile.read(length)) if length else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(feed.next_step(Seen(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body)))

        do_POST = do_GET  # noqa: N815 - as http.server calls it

        def _send(self, step: Step) -> None:
            if not step.status:
                self.close_connection = True
                return
            content = step.body if isinstance(step.body, bytes) else orjson.dumps(step.body)
            with suppress(OSError):
                self.send_response(step.status)
                for name, value in {"content-length": str(len(content)), **step.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server calls it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    feed = ScriptedFeed(url, deque(reads), deque(acks))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield feed
    finally:
        feed.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
