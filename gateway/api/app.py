"""The API's entry point: one ASGI app, from the request's id to the last header of its response.

See spec 4; decisions 2 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from billing.charges.batch_rows import Charge
from billing.ledger.free_usage import FreeUsage
from gateway.api.admission import WINDOW, Admission, window_values
from gateway.api.cors import Cors
from gateway.api.projection import USUAL
from gateway.api.responses import Replies
from gateway.api.routes.description import Description
from gateway.api.routes.events import SOCKET_PATH
from gateway.http.compression import LEAST_BYTES, Compression
from gateway.http.errors import InvalidParam, Refused
from gateway.http.forwarded import TrustedProxies
from gateway.http.request import AdjacentPages, Caller, Headers, Reply, Request, joined_headers, prefers, repeated_of
from gateway.http.routing import Routes, wrong_method
from gateway.http.slices import slices
from gateway.http.sse import EventStream
from gateway.http.websocket import SocketStream
from gateway.observability.metrics import Metrics
from gateway.runtime import Runtime
from gateway.server.asgi import EXTENSION, Receive, Scope, Send, WebSocketScope
from gateway.server.http1.fields import NO_FIELDS, Fields, pairs_of
from gateway.server.http1.response_head import BODILESS

_READS = ("GET", "HEAD")
_REFUSED = (402, 429)  # too few credits, or one of the key's limits was exceeded
_ID: tuple[bytes, ...] = (b"x-request-id",)
_CONTENT = (b"content-type",)
_OF_CALLERS = (*_ID, b"x-sluice-overhead-ms")
_OF_WINDOWS = _OF_CALLERS + WINDOW


@dataclass(frozen=True, slots=True)
class ApiSetting:
    """The parts that the entry point needs, each created by the composition root."""

    admission: Admission
    routes: Routes
    description: Description
    replies: Replies
    metrics: Metrics
    usage: FreeUsage
    settle: Callable[[Charge], None]
    """Settle the charge for a response without waiting for the settlement."""
    runtime: Runtime
    proxies: TrustedProxies
    compression: Compression
    cors: Cors | None = None
    """None if pages on other sites must not call the API."""


class Api:
    """Answers every request to the public address. It is a plain ASGI 3 app, so any server can run it."""

    def __init__(self, parts: ApiSetting, adjacent_pages: Sequence[AdjacentPages] = ()) -> None:
        self._parts = parts
        self.adjacent_pages = adjacent_pages
        # Bound here because every request uses them.
        self._public, self._cors, self._count_refusal = parts.description.public, parts.cors, parts.usage.refusal
        self._settle = parts.settle
        self._clock, self._make_id, self._log = parts.runtime.clock, parts.runtime.make_id, parts.runtime.log

    websocket_paths = frozenset((SOCKET_PATH,))
    """Paths on which a request may become a WebSocket."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection scope."""
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"Scope type {scope['type']} is not supported")
        lines = scope["headers"]
        headers = dict(lines)
        is_plain = len(headers) == len(lines)  # Hot path: usually no header is repeated.
        if not is_plain:
            headers = joined_headers(lines)
        request = Request(
            self._make_id("req_"),
            scope["method"],
            scope["path"],
            scope["query_string"],
            headers,
            self._clock(),
            receive=receive,
            send=send if EXTENSION in scope.get("extensions", ()) else None,
            client=scope.get("client"),
        )
        accept = headers.get(b"accept")  # Hot path: the header usually has its default value or is absent.
        if accept is not None and accept not in USUAL and prefers(accept, b"text/event-stream", b"application/json"):
            request.stream = EventStream(receive, send, partial(_stream_headers, request, self._cors))
        try:
            if is_plain:
                reply = await self._reply(request)
            else:
                reply = await self._reply_unless_repeated(request, lines)
            await self._send(request, reply, send)
        finally:
            caller = request.caller
            if caller is not None and caller.lease is not None:
                caller.lease.release()
            if request.owed is not None:
                self._settle(request.owed)

    async def _serve_socket(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket request. The whole connection, until it closes, counts as one request."""
        began = (self._make_id("req_"), "GET", scope["path"], scope["query_string"])
        headers, client = joined_headers(scope["headers"]), scope.get("client")
        request = Request(*began, headers, self._clock(), receive=receive, client=client)
        socket = request.socket = SocketStream(receive, send, partial(_socket_headers, request))
        try:
            reply = await self._reply_unless_repeated(request, scope["headers"])
        finally:
            _release(request)
        overhead_s = self._overhead_s(request, reply)
        try:
            if reply.code != "OK":
                await socket.refuse(reply.status, pairs_of(self._fields(request, reply, overhead_s)), reply.body)
        finally:
            self._record(request, reply, overhead_s)

    async def _reply_unless_repeated(self, request: Request, sent: Iterable[tuple[bytes, bytes]]) -> Reply:
        """Like `_reply`, but reject a request that repeats a header that must be unique."""
        repeated = repeated_of(sent)
        if repeated is None:
            return await self._reply(request)
        return await self._parts.replies.refusal(request, InvalidParam(repeated, "was sent more than once"))

    async def _reply(self, request: Request) -> Reply:
        """Run steps 2 to 13 of decisions 5 and always return a response.

        The code that sends the response releases the key's lease.
        """
        parts = self._parts
        try:
            if self._cors is not None and (preflight := self._cors.preflight(request)) is not None:
                return preflight
            if not request.path.startswith("/v1/"):
                return await self._outside(request)
            if request.query_string:
                parts.admission.refuse_key_in_query(request)
            if request.path in self._public and request.method in _READS:
                return await self._public[request.path](request)
            admission = parts.admission
            caller = request.caller = Caller(admission.key_of_nowait(request) or await admission.key_of(request))
            if not admission.enter_nowait(caller):
                await admission.enter(request, caller)
            return await parts.routes.find(request).handle(request, caller)
        except Exception as exc:  # noqa: BLE001 - last resort: the client gets an envelope after any error
            reply = await parts.replies.refusal(request, exc)
            if reply.code == "INTERNAL_ERROR":
                self._log.failure("request_failed", exc, request_id=request.id, path=request.path)
            elif reply.status in _REFUSED and request.caller is not None:
                key = request.caller.key
                self._count_refusal((key.account_id, key.id, request.path))
            return reply

    async def _outside(self, request: Request) -> Reply:
        """Return a page outside the API or, for an unknown path, an error that points to the catalog."""
        for adjacent in self.adjacent_pages:
            if adjacent.covers(request.path):
                return await adjacent.answer(request)
        pages = await self._parts.description.pages()
        if not await pages.knows(request.path):
            absent = Refused("ENDPOINT_NOT_FOUND", "The API's paths begin with /v1/; /v1/utility/endpoints lists them.")
            if request.method in _READS and prefers(request.headers.get(b"accept"), b"text/html", b"application/json"):
                return await pages.missing(await self._parts.replies.refusal(request, absent))
            raise absent
        if request.method in _READS:
            return await pages.answer(request)
        if request.method == "OPTIONS":
            return Reply(204, b"", ((b"allow",), (b"GET, HEAD, OPTIONS",)))
        raise wrong_method(request, _READS)

    async def _send(self, request: Request, reply: Reply, send: Send) -> None:
        overhead_s = self._overhead_s(request, reply)
        try:
            if request.stream is not None and (reply.streamed or request.stream.started):
                await _end_stream(request, request.stream, reply)
            else:
                accepted = request.headers.get(b"accept-encoding")
                if accepted is not None and (len(reply.body) > LEAST_BYTES or type(reply.pieces) is tuple):
                    await self._parts.compression.apply(reply, accepted)
                fields = self._fields(request, reply, overhead_s)
                if request.send is not None and reply.pieces is None:
                    await send({"type": "sluice.answer", "status": reply.status, "fields": fields, "body": reply.body})
                elif request.send is not None and isinstance(reply.pieces, tuple):
                    parts = reply.pieces
                    await send({"type": "sluice.parts", "status": reply.status, "fields": fields, "parts": parts})
                else:
                    await _send_in_slices(request, reply, fields, send)
        finally:  # The request is completed and billed even if the client has disconnected.
            self._record(request, reply, overhead_s)

    def _overhead_s(self, request: Request, reply: Reply) -> float:
        """Return the seconds that the request took in this node, excluding waits for upstreams and events."""
        spent_s = self._clock() - request.started - reply.upstream_s - request.held_s
        return spent_s if spent_s > 0.0 else 0.0

    def _fields(self, request: Request, reply: Reply, overhead_s: float) -> Fields:
        names, caller = _ID, request.caller
        values: tuple[bytes, ...] = ((reply.request_id or request.id).encode(),)
        if caller is not None:
            names, values = _OF_CALLERS, (*values, b"%.2f" % (overhead_s * 1000))
            if caller.window is not None:
                names, values = _OF_WINDOWS, values + window_values(caller.window)
        # A 304 omits these headers, because they would describe the body that the client already has (RFC 9110, 8.6).
        if reply.status not in BODILESS:
            names, values = _CONTENT + names, (reply.content_type, *values)
        if self._cors is not None:
            more = self._cors.fields(request.headers.get(b"origin", b""))
            names, values = names + more[0], values + more[1]
        return names + reply.headers[0], values + reply.headers[1]

    def _record(self, request: Request, reply: Reply, overhead_s: float) -> None:
        parts = self._parts
        parts.metrics.count(parts.routes.label(request.path), reply, overhead_s)
        caller = request.caller
        if self._log.access is True or self._log.wants(reply.status):
            self._log.request(
                request_id=request.id,
                method=request.method,
                path=request.path,
                client=parts.proxies.client(request.client, request.headers),
                status=reply.status,
                code=reply.code,
                account_id=caller and caller.key.account_id,
                key_id=caller and caller.key.id,
                credits_used=reply.credits_used,
                overhead_ms=round(overhead_s * 1000, 2),
                upstream_ms=round(reply.upstream_s * 1000, 2),
            )


async def _send_in_slices(request: Request, reply: Reply, fields: Fields, send: Send) -> None:
    """Send a response in plain ASGI messages, including a body that is produced while it is sent."""
    headers, parts = pairs_of(fields), _parts_of(reply)
    if parts is not None and reply.status not in BODILESS:
        headers.append((b"content-length", b"%d" % sum(map(len, parts))))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if request.method == "HEAD":
        parts = (b"",)
    elif not (reply.pieces is None or isinstance(reply.pieces, tuple)):
        async for piece in reply.pieces:
            for one, whole, _ in slices((piece,)):
                await send({"type": "http.response.body", "body": one, "more_body": True, "held": whole})
    for one, whole, is_last in slices(parts or (b"",)):
        if is_last:
            _release_before_last(request)
        await send({"type": "http.response.body", "body": one, "more_body": not is_last, "held": whole})


def _parts_of(reply: Reply) -> tuple[bytes, ...] | None:
    """Return the body in parts, or None if it is produced while it is sent."""
    if reply.pieces is None:
        return (reply.body,)
    return reply.pieces if isinstance(reply.pieces, tuple) else None


async def _end_stream(request: Request, stream: EventStream, reply: Reply) -> None:
    """Send the last event, unless the response has none or the stream has already ended."""
    parts = _parts_of(reply)
    if parts is not None and any(parts) and not stream.ended:
        name = "result" if reply.code == "OK" else "error"
        await stream.end(name, parts, before_last=partial(_release_before_last, request))


def _release_before_last(request: Request) -> None:
    """Release the lease before the last few bytes, because some servers run other code after the last write.

    A client that has received its whole response must be able to use the lease immediately. The native server runs no
    other task between the last write and the release.
    """
    if request.send is None:
        _release(request)


def _release(request: Request) -> None:
    if request.caller is not None and request.caller.lease is not None:
        request.caller.lease.release()


def _stream_headers(request: Request, cors: Cors | None) -> Headers:
    """Return the headers of an event stream. They do not report credits: the stream's last event reports the cost."""
    allowed = NO_FIELDS if cors is None else cors.fields(request.headers.get(b"origin", b""))
    return [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        *pairs_of(allowed),
        *_socket_headers(request),
    ]


def _socket_headers(request: Request) -> Headers:
    """Return the headers that are known before a request ends: its id and the key's window."""
    headers: Headers = [(b"x-request-id", request.id.encode())]
    if request.caller is not None and request.caller.window is not None:
        headers += zip(WINDOW, window_values(request.caller.window), strict=True)
    return headers
