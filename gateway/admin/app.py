"""The admin address: health, readiness, metrics, and the operations that need the token. Bind it to loopback.

A node, and the supervisor of several workers, serve the same interface, each with its own data.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import orjson

from gateway.admin.access import AdminAccess, ChallengeRefused
from gateway.admin.client import AdminAnswer
from gateway.admin.operations import OperationRefused, Operations
from gateway.admin.proof import CHALLENGE_PATH
from gateway.config.settings import Config
from gateway.http.errors import refusal_of
from gateway.http.forwarded import is_address
from gateway.observability.logs import Log
from gateway.server.asgi import HTTPScope, Receive, Scope, Send
from gateway.server.bounds import Bounds
from gateway.server.errors import BodyTooLong, ClientGone
from gateway.server.http1.whole_body import read_body
from storage.errors import CommitUnknown, StorageError

BOUNDS = Bounds(connections=256, header_s=5.0, idle_s=15.0, body_s=5.0, write_s=15.0)
"""Limits of the admin server. It has few clients, and they must not use up resources that API requests need."""
_BODY_BYTES_MAX = 65_536
_JSON = b"application/json"
_TEXT = b"text/plain; charset=utf-8"
_FORM_TYPES = (b"text/plain", b"multipart/form-data")
"""Content types that a web page can send to another site without the browser's permission.

The third such type, URL-encoded forms, is allowed because it is curl's default. Only the check of `Origin` protects
against it.
"""
_HOST = re.compile(r"(?:\[(?P<bracketed>[^][]*)\]|(?P<name>[^][:]*))(?::[0-9]*)?")


Readiness = Callable[[], Awaitable[str | None]]
"""Return why the node cannot serve, in one or more lines without a final line end; None if it can serve."""
Scrape = Callable[[], Awaitable[bytes]]
"""Return the metrics in Prometheus format."""
Operate = Callable[[str, bytes], Awaitable[AdminAnswer]]
"""Run the operation with this name and these JSON arguments. Return its result, or the reason for refusing it."""


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The response with an operator page."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class AdminPages(Protocol):
    """The operator pages, which are served beside the operations."""

    def covers(self, path: str) -> bool:
        """Return whether one of these pages has this path."""
        ...

    async def answer(
        self, method: str, path: str, query: str, headers: Mapping[bytes, bytes], body: bytes
    ) -> PageAnswer:
        """Return a page, or the result of submitting a form."""
        ...


class KnownHosts:
    """The host names that an admin address accepts. They keep web pages in an operator's browser from using it.

    A web page can point its own host name to this machine (DNS rebinding) and could then read responses. `Host` then
    contains the name of that page, so only known names are accepted. IP addresses are safe. Requests that a page sends
    to another site have an `Origin` header.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Accept `names` (from the config), all IP addresses, and `localhost`."""
        self._names = {"localhost", *(name.lower().rstrip(".") for name in names)}

    def refusal(self, scope: HTTPScope) -> tuple[int, str] | None:
        """Return the status and the reason for refusing a request; None if the request is allowed.

        The status is 421 if the name belongs to another server (RFC 9110, 15.5.20), 403 if the request comes from
        another site, and 415 if its content type is one of `_FORM_TYPES`.
        """
        headers = scope["headers"]
        if (unknown := self.refusal_of_host(scope)) is not None:
            return unknown
        if any(name == b"origin" for name, _ in headers):
            return 403, "the admin address does not accept requests from other sites"
        kinds = [value.partition(b";")[0].strip().lower() for name, value in headers if name == b"content-type"]
        if any(kind in _FORM_TYPES for kind in kinds):
            return 415, "send application/json"
        return None

    def refusal_of_host(self, scope: HTTPScope) -> tuple[int, str] | None:
        """Return the status and the reason for refusing the host name; None if the name is known."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) > 1 or not all(self._is_known(host) for host in hosts):
            return 421, "unknown host name for the admin address; add it to admin.hosts, or use an IP address"
        return None

    def refusal_of_page(self, scope: HTTPScope) -> tuple[int, str] | None:
        """Return the status and the reason for refusing a request for an operator page; None if it is allowed.

        Unlike in `refusal`, an `Origin` with the host name of the request is allowed, because the pages' own forms send
        it.
        """
        headers = dict(scope["headers"])
        origin, host = headers.get(b"origin"), headers.get(b"host", b"")
        if (unknown := self.refusal_of_host(scope)) is not None:
            return unknown
        if origin is not None and origin.partition(b"://")[2].lower() != host.lower():
            return 403, "the admin address does not accept requests from other sites"
        return None

    def _is_known(self, host: bytes) -> bool:
        found = _HOST.fullmatch(host.decode("latin-1").lower())
        if found is None:
            return False
        name = found["name"] or found["bracketed"] or ""
        return name.rstrip(".") in self._names or is_address(name)


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """Checks the host name of a request, and whether the client may run operations."""

    hosts: KnownHosts
    access: AdminAccess


def doorkeeper_of(config: Config, token: str) -> Doorkeeper:
    """Return the doorkeeper for the admin address in this config."""
    public = urlsplit(config.server.base_url).hostname or ""
    return Doorkeeper(KnownHosts((config.admin.host, public, *config.admin.hosts)), AdminAccess(token))


class Admin:
    """The ASGI app that serves an admin address."""

    def __init__(
        self,
        doorkeeper: Doorkeeper,
        *,
        readiness: Readiness,
        scrape: Scrape,
        operate: Operate,
        pages: AdminPages | None = None,
    ) -> None:
        self._doorkeeper = doorkeeper
        self._pages = pages
        self._readiness = readiness
        self._scrape = scrape
        self._operate = operate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection scope."""
        if scope["type"] != "http":
            raise RuntimeError(f"Scope type {scope['type']} is not supported")
        if self._pages is not None and self._pages.covers(scope["path"]):
            await self._send_page(self._pages, scope, receive, send)
            return
        answer = await self._answer(scope, receive)
        headers = [(b"content-type", answer.content_type), (b"content-length", b"%d" % len(answer.body))]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})

    async def _send_page(self, pages: AdminPages, scope: HTTPScope, receive: Receive, send: Send) -> None:
        refusal = self._doorkeeper.hosts.refusal_of_page(scope)
        try:
            body = b"" if refusal else await read_body(receive, bytes_max=_BODY_BYTES_MAX)
        except BodyTooLong:
            refusal, body = (413, "the form is too large"), b""
        if refusal is not None:
            page = PageAnswer(refusal[0], [(b"content-type", _TEXT)], f"{refusal[1]}\n".encode())
        else:
            query = scope["query_string"].decode("latin-1")
            page = await pages.answer(scope["method"], scope["path"], query, dict(scope["headers"]), body)
        headers = [*page.headers, (b"content-length", b"%d" % len(page.body))]
        await send({"type": "http.response.start", "status": page.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else page.body})

    async def _answer(self, scope: HTTPScope, receive: Receive) -> AdminAnswer:
        path = scope["path"]
        if refusal := self._doorkeeper.hosts.refusal(scope):
            status, why = refusal
            return (
                refused(status, why) if path.startswith("/admin/") else AdminAnswer(status, _TEXT, f"{why}\n".encode())
            )
        if path.startswith("/admin/"):
            return await self._answer_operation(scope, receive)
        return await self._answer_read(scope)

    async def _answer_read(self, scope: HTTPScope) -> AdminAnswer:
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            return AdminAnswer(405, _TEXT, b"use GET\n")
        if path == "/healthz":
            return AdminAnswer(200, _TEXT, b"ok\n")
        if path == "/readyz":
            reason = await self._readiness()
            return (
                AdminAnswer(200, _TEXT, b"ready\n")
                if reason is None
                else AdminAnswer(503, _TEXT, f"{reason}\n".encode())
            )
        if path == "/metrics":
            from prometheus_client.exposition import CONTENT_TYPE_LATEST  # noqa: PLC0415 - imported for a scrape

            return AdminAnswer(200, CONTENT_TYPE_LATEST.encode(), await self._scrape())
        return AdminAnswer(404, _TEXT, b"use /healthz, /readyz, /metrics or POST /admin/{operation}\n")

    async def _answer_operation(self, scope: HTTPScope, receive: Receive) -> AdminAnswer:
        access, is_challenge = self._doorkeeper.access, scope["path"] == CHALLENGE_PATH
        is_proved = None if is_challenge else access.judge(scope)
        if is_proved is None and not is_challenge:
            return _UNPROVED
        if scope["method"] != "POST":
            return refused(405, "use POST")
        try:
            body = await _read_arguments(receive)
            if is_proved is None:
                return answered(access.challenge(scope, body))
        except (OperationRefused, ChallengeRefused) as exc:
            return refused(400, str(exc))
        if not is_proved(body):
            return _UNPROVED
        return await self._operate(scope["path"].removeprefix("/admin/"), body)


class OwnOperations:
    """Runs the operations in this process."""

    def __init__(self, operations: Operations, *, log: Log) -> None:
        self._operations = operations
        self._log = log

    async def operate(self, name: str, body: bytes) -> AdminAnswer:
        """Run an operation and log its name. See `Operate`."""
        try:
            arguments = orjson.loads(body or b"{}")
            if not isinstance(arguments, dict):
                return refused(400, "the arguments must be a JSON object")
            result = await self._operations.run(name, arguments)
        except (OperationRefused, orjson.JSONDecodeError) as exc:
            return refused(400, str(exc))
        except StorageError as exc:
            self._log.failure("operation_failed", exc, operation=name)
            say = unsettled if isinstance(exc, CommitUnknown) else refused
            return say(refusal_of(exc).code.status, str(exc))
        self._log.event("info", "operation", operation=name)
        return answered(result)


def answered(result: object) -> AdminAnswer:
    """Return the response with an operation's result."""
    return AdminAnswer(200, _JSON, orjson.dumps(result))


def refused(status: int, text: str) -> AdminAnswer:
    """Return the response that says why an operation was refused."""
    return AdminAnswer(status, _JSON, orjson.dumps({"error": text}))


def unsettled(status: int, text: str) -> AdminAnswer:
    """Return the response that says why the outcome of an operation is unknown."""
    return AdminAnswer(status, _JSON, orjson.dumps({"error": text, "may_have_happened": True}))


_UNPROVED = refused(401, "the admin token is missing or wrong")


async def _read_arguments(receive: Receive) -> bytes:
    """Read the body with an operation's arguments, without parsing it.

    Raises:
        OperationRefused: the client disconnected, or the body is too long.
    """
    try:
        return await read_body(receive, bytes_max=_BODY_BYTES_MAX)
    except BodyTooLong as exc:
        raise OperationRefused(f"the arguments are over {_BODY_BYTES_MAX} bytes") from exc
    except ClientGone as exc:
        raise OperationRefused("the client disconnected") from exc
