"""One request and its response: implements `receive` and `send` for one call of the app."""

import trio

from gateway.server.asgi import ReceiveMessage, Scope, SendMessage
from gateway.server.edge import Edge
from gateway.server.errors import AppMisbehaved, RequestRefused
from gateway.server.http1.fields import Fields, fields_of
from gateway.server.http1.request_head import RequestHead
from gateway.server.http1.response_head import BODILESS, head_lines
from gateway.server.wire import BODY_READ_BYTES, Patience, Wire

DRAIN_BYTES = 65_536
"""How much of a request's body is dropped if the app does not read it. If the rest is longer, the connection closes."""
_JOIN_BYTES = 65_536
"""A body up to this size is appended to its head, so that one system call sends both."""


class Exchange:
    """One request and its response. The connection checks the state after the app's call."""

    __slots__ = (
        "_bodiless",
        "_chunked",
        "_closes",
        "_edge",
        "_expects_continue",
        "_left",
        "_lines",
        "_patience",
        "_reading",
        "_request",
        "_wire",
        "body_delivered",
        "finished",
        "head_only",
        "keep_alive",
        "refusal",
        "started",
        "watched",
    )

    def __init__(self, wire: Wire, edge: Edge, request: RequestHead) -> None:
        self._wire = wire
        self._edge = edge
        self._request = request
        self._lines: list[bytes] | None = None  # the response's head so far
        self._expects_continue = request.expects_continue
        self._patience: Patience | None = None  # how long the client may take to send the body
        # how long the client may take to read the response, once a write has to wait
        self._reading: Patience | None = None
        self._left: int | None = None  # bytes of the response's body that remain according to Content-Length
        self._chunked = False
        self.body_delivered = False
        self.head_only = request.scope["method"] == "HEAD"
        """Whether the client requested only the head of the response."""
        self.keep_alive = request.keep_alive
        self.started = False
        """Whether part of the response may have been sent."""
        self.finished = False
        """Whether the whole response has been sent."""
        self.watched = False
        """Whether the app is notified when the client disconnects."""
        self.refusal: RequestRefused | None = None
        """Why the request's body could not be read. The app receives a disconnect in this case."""

    @property
    def scope(self) -> Scope:
        """Return the ASGI scope for the app."""
        return self._request.scope

    @property
    def gone(self) -> bool:
        """Return whether the client no longer reads. In that case, a failed response is not the app's error."""
        return self._wire.broken

    @property
    def body_read(self) -> bool:
        """Return whether every byte of the request has been read from the wire."""
        return self._request.body is None or self._request.body.done

    async def receive(self) -> ReceiveMessage:
        """Return the next piece of the request's body.

        After the last piece, wait for the client to disconnect (ASGI 3).
        """
        if not self.body_delivered and self.refusal is None and not self.finished:
            return await self._next_piece()
        if self.refusal is None and not self.finished:
            await self._wire.wait_hangup(unread_bytes=self._edge.bounds.pipelined_bytes)
        else:
            await trio.lowlevel.checkpoint()
        return {"type": "http.disconnect"}

    async def _next_piece(self) -> ReceiveMessage:
        body = self._request.body
        piece = b""
        if body is not None:
            if self._expects_continue and not self.started:
                self._expects_continue = False
                await self._wire.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            try:
                while not (piece or body.done):
                    piece, self._wire.unread = body.take(await self._next_bytes())
            except RequestRefused as refusal:
                self.refusal = refusal
                return {"type": "http.disconnect"}
        self.body_delivered = body is None or body.done
        return {"type": "http.request", "body": piece, "more_body": not self.body_delivered}

    async def _next_bytes(self) -> bytes:
        wire = self._wire
        data, wire.unread = wire.unread, b""
        if data:
            await trio.lowlevel.checkpoint()
            return data
        bounds = self._edge.bounds
        if self._patience is None:
            self._patience = Patience(bounds.body_bytes_per_s)
        wire.read_by = self._patience.begin(bounds.body_s)
        try:
            data = await wire.read(BODY_READ_BYTES)
        finally:
            wire.read_by = float("inf")
        self._patience.end(len(data))
        if not data:
            raise RequestRefused(408 if wire.expired else 400, "The request's body did not arrive.")
        return data

    async def send(self, message: SendMessage) -> None:
        """Send one message of the response. The head is sent together with the first bytes of the body.

        Raises:
            ClientGone: the client does not read the response.
            AppMisbehaved: the message is invalid in the response's current state.
        """
        if message["type"] == "sluice.answer" and self._lines is None:
            self._begin(message["status"], message["fields"])
            piece, more = message["body"], False
            if self._left is None and not self._bodiless:
                self._left = len(piece)  # also for a HEAD, which reports the length that a GET would return
        elif message["type"] == "http.response.body":
            piece, more = message.get("body", b""), message.get("more_body", False)
        else:
            await self._take_other(message)
            return
        sent = 0
        for data in self._buffers_for(piece, more=more):
            sent = self._wire.write_nowait(data)
            if sent < len(data):
                await self._write_rest((data,), sent, _held(message) or piece)
        if more:
            if self._reading is not None:
                self._reading.earn(sent)
            await trio.lowlevel.checkpoint()  # a fast stream to a fast client must not starve the others
        else:
            self.finished = True

    async def _take_other(self, message: SendMessage) -> None:
        if message["type"] == "http.response.start" and self._lines is None:
            self._begin(message["status"], fields_of(message.get("headers", ())))
        elif message["type"] == "sluice.parts" and self._lines is None:
            self._begin(message["status"], message["fields"])
            await self._write_parts(message["parts"])
        elif message["type"] == "sluice.hangup" and not self.watched:
            self._edge.hangups.watch(self._wire.fd, message["left"])
            self.watched = True
        else:
            raise AppMisbehaved(f"The app sent {message['type']} out of turn.")

    async def _write_parts(self, parts: tuple[bytes, ...]) -> None:
        """Write a complete response without copying its parts. Parts shared by several responses are counted once."""
        lines, size = self._lines, sum(map(len, parts))
        assert lines is not None
        self._left = size
        self._frame(lines, size, more=False)
        self.started = True
        head = b"\r\n".join((*lines, b"", b""))
        buffers = (head,) if self._bodiless or self.head_only else (head, *parts)
        await self._write_rest(buffers, self._wire.write_buffers_nowait(buffers))
        self.finished = True

    async def _write_rest(self, buffers: tuple[bytes, ...], sent: int, also_held: bytes = b"") -> None:
        """Write `buffers` after their first `sent` bytes. While they wait, count them for the request's key."""
        wire = self._wire
        wire.owner = self._edge.unsent.owner_of(self._request.scope["headers"])
        if self._reading is None:
            self._reading = wire.patience_of_answer()
        await wire.write_rest(buffers, sent, self._reading, also_held=also_held)

    def _begin(self, status: int, fields: Fields) -> None:
        edge = self._edge
        self._bodiless = status in BODILESS
        self._lines, self._left, self._closes = head_lines(status, fields, edge.shapes, date=edge.date)

    def _buffers_for(self, piece: bytes, *, more: bool) -> tuple[bytes, ...]:
        """Return the buffers to write for a piece of the body, with the head before the first one."""
        lines = self._lines
        if lines is None or self.finished:
            raise AppMisbehaved("The app sent a body before its answer's start or after its end.")
        if not self.started:
            self._frame(lines, len(piece), more=more)
        silent = self._bodiless or self.head_only
        if self._left is not None and not silent:
            self._left -= len(piece)
            # a wrong length would corrupt every later response on the connection
            if self._left < 0 or (self._left and not more):
                raise AppMisbehaved("The length of the response's body differs from its Content-Length.")
        if silent:
            piece = b""
        elif self._chunked:
            piece = _chunk(piece, more=more)
        if self.started:
            return (piece,) if piece else ()
        self.started = True
        if len(piece) > _JOIN_BYTES:
            lines += (b"", b"")
            return b"\r\n".join(lines), piece
        lines += (b"", piece)
        return (b"\r\n".join(lines),)

    def _frame(self, lines: list[bytes], size: int, *, more: bool) -> None:
        """Decide how the end of the response is marked and whether the connection stays open. Add both to the head."""
        edge, body, version = self._edge, self._request.body, self._request.scope["http_version"]
        if self._left is None and not (more or self._bodiless or (self.head_only and not size)):
            # The length of a GET response sent in pieces is unknown, so a HEAD response has none (RFC 9110, 8.6).
            self._left = size
        if self._left is not None:
            lines.append(b"content-length: " + str(self._left).encode())  # faster than `%d` (measured)
        elif not (self._bodiless or self.head_only):
            if version == "1.1":
                self._chunked = True
                lines.append(b"transfer-encoding: chunked")
            else:
                self._closes = True
        may_stay_open = not (self._closes or edge.stopping or edge.full)
        if not (may_stay_open and (body is None or body.done or (not more and self._drain_nowait()))):
            self.keep_alive = False
        if not self.keep_alive:
            lines.append(b"connection: close")
        elif version == "1.0":
            lines.append(b"connection: keep-alive")

    def _drain_nowait(self) -> bool:
        """Drop the rest of the request's body if it is short and has already arrived.

        Return whether the body is now complete.
        """
        wire, body = self._wire, self._request.body
        dropped = 0
        try:
            while body is not None and not body.done and dropped < DRAIN_BYTES:
                data = wire.unread or wire.read_nowait(BODY_READ_BYTES)
                if not data:
                    return False
                dropped += len(data)
                wire.unread = body.take(data)[1]
        except RequestRefused:
            return False
        return self.body_read


def _held(message: SendMessage) -> bytes:
    """Return the buffer that the message's piece was cut from."""
    return message.get("held", b"") if message["type"] == "http.response.body" else b""


def _chunk(piece: bytes, *, more: bool) -> bytes:
    chunk = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
    return chunk if more else chunk + b"0\r\n\r\n"
