"""From an upstream's bytes to its answer: HTTP/1.1 framing by httptools, caps and truths of the framing by us.

An ordinary head that comes in one piece is read without httptools, and so is a body of known length behind it.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import httptools
import httpx

from upstreams.transport.decoding import decode_body
from upstreams.transport.http import HttpAnswer, ResponseTooLarge
from upstreams.transport.ordinary_head import CHUNKED, AnswerHeadReader

_BODILESS = frozenset({204, 304})
_CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_FIELDS_MAX = 1_000
_LAST_CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
_LONG_BYTES = 128 * 1024
"""A body that is longer, as it came or decoded, is decoded in a thread: 8 MB take up to 80 ms."""


class AnswerBrokenOff(httpx.RemoteProtocolError):
    """The peer closed the connection before the answer was whole."""


class LongBody(Exception):
    """A whole answer came whose body takes long to decode: `decode` returns the answer, or raises as `answer` does."""

    def __init__(self, decode: Callable[[], HttpAnswer]) -> None:
        self.decode = decode


class AnswerParser:
    """Reads the answers that arrive on one connection, one at a time; `begin` announces each.

    Mutable, owned by its connection. The `on_*` methods are httptools' callbacks.
    """

    __slots__ = (
        "_awaited_bytes",
        "_between_messages",
        "_body_bytes_max",
        "_chunks",
        "_close_delimited",
        "_fields",
        "_head_only",
        "_head_reader",
        "_header_bytes_max",
        "_headers",
        "_interim",
        "_length",
        "_parser",
        "_pieces",
        "_refusal",
        "_silent_bytes",
        "_spoiled",
        "_started",
        "_status",
        "complete",
        "persistent",
    )

    def __init__(self, head_reader: AnswerHeadReader, *, header_bytes_max: int, body_bytes_max: int) -> None:
        self._head_reader = head_reader
        self._header_bytes_max = header_bytes_max
        self._body_bytes_max = body_bytes_max
        self._between_messages = False
        self._parser: httptools.HttpResponseParser | None = None
        self._pieces: list[bytes] = []
        self._chunks = bytearray()
        """Joins pieces that may be a byte each: a list of them would be forty times as large."""
        self.begin("")

    def begin(self, method: str) -> None:
        """Expect the answer to a call of `method`."""
        self._head_only = method == "HEAD"
        self.complete = self.persistent = self._started = self._spoiled = self._close_delimited = self._interim = False
        self._refusal: httpx.TransportError | None = None
        self._silent_bytes = self._awaited_bytes = self._status = self._length = self._fields = 0
        self._headers: dict[str, str] = {}

    def feed(self, data: bytes) -> None:
        """Take what arrived; then `complete` tells whether the answer is whole.

        Raises:
            httpx.RemoteProtocolError: the bytes are no HTTP/1.1 answer.
            ResponseTooLarge: its body is longer than the cap.
        """
        if not self._started:
            if self._read_ordinary(data):
                return
            self._start_parser()
        elif self._awaited_bytes:
            self._take_awaited(data)
            return
        self._feed_parser(data)

    def _feed_parser(self, data: bytes) -> None:
        assert self._parser is not None
        self._silent_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._spoiled = True
            if not self.complete:  # bytes behind a whole answer cost the connection, not the answer
                raise self._refusal or httpx.RemoteProtocolError("malformed answer") from exc
        if self._refusal is not None:
            self._spoiled = True
            raise self._refusal
        if not self.complete and self._silent_bytes > self._header_bytes_max:
            raise httpx.RemoteProtocolError(f"the answer's headers are longer than {self._header_bytes_max} bytes")

    def end(self) -> None:
        """Take the end of the connection, which completes an answer that has no other end.

        Raises:
            AnswerBrokenOff: the answer is not whole.
        """
        if not self._close_delimited:
            raise AnswerBrokenOff("the peer closed the connection before the answer was whole")
        self.complete = True

    @property
    def reusable(self) -> bool:
        """The answer is whole, nothing came behind it, and the peer keeps the connection open."""
        return self.complete and self.persistent and not self._spoiled

    def answer(self) -> HttpAnswer:
        """The whole answer, decoded.

        Raises:
            httpx.DecodingError: its content coding cannot be undone.
            ResponseTooLarge: it expands beyond the cap.
            LongBody: it is to be decoded in a thread.
        """
        body = self._taken()
        if (coding := self._headers.get("content-encoding")) is not None:
            body = self._decoded(body, coding)
        return tuple.__new__(HttpAnswer, (self._status, self._headers, body))  # NamedTuple's own way costs twice this

    def _decoded(self, body: bytes, coding: str) -> bytes:
        """The decoded body, if that is short; nobody knows before how long it becomes."""
        cap = self._body_bytes_max
        if cap <= _LONG_BYTES:
            return decode_body(body, coding, body_bytes_max=cap)
        if len(body) <= _LONG_BYTES:
            with suppress(ResponseTooLarge):
                return decode_body(body, coding, body_bytes_max=_LONG_BYTES)
        raise LongBody(partial(_decoded_answer, self._status, self._headers, body, coding=coding, body_bytes_max=cap))

    def _taken(self) -> bytes:
        """The body as it came; a connection at rest holds on to none of it."""
        if self._chunks:
            body, self._chunks = bytes(self._chunks), bytearray()
        else:
            body, self._pieces = b"".join(self._pieces), []
        return body

    def close(self) -> None:
        """Let go of httptools' parser, which refers back to this one."""
        self._parser = None

    def on_message_begin(self) -> None:
        """A message begins; behind a whole answer it is one that nobody asked for."""
        if self.complete:
            self._spoiled = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one header of the head; trailers are dropped."""
        if self._status:
            return
        self._fields += 1
        if self._fields > _FIELDS_MAX:
            self._refusal = httpx.RemoteProtocolError(f"the answer's head is longer than {_FIELDS_MAX} lines")
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = self._headers.get(key)
        self._headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """Judge what the head says of the body."""
        if self.complete:
            return
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:
            self._interim = True
            if status == 101:
                self._refusal = httpx.RemoteProtocolError("the peer switched to another protocol")
            return
        self._status = status
        self.persistent = self._parser.should_keep_alive()
        if self._head_only or status in _BODILESS:
            self.complete = True
        else:
            self._judge_framing()

    def on_chunk_header(self) -> None:
        """A chunk begins; behind an answer to HEAD it is one that nobody asked for."""
        if self.complete:
            self._spoiled = True

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body, up to the cap."""
        if self.complete:
            self._spoiled = True
            return
        self._silent_bytes = 0
        self._length += len(data)
        if self._length > self._body_bytes_max:
            self._refusal = self._too_large()
        elif self._status:
            self._chunks += data

    def on_message_complete(self) -> None:
        """The message is whole; an interim one (100, 103) is forgotten."""
        if self._interim:
            self._interim = False
            self._length = 0
            self._headers = {}
        else:
            self.complete = self._between_messages = True

    def _read_ordinary(self, data: bytes) -> bool:
        """Take the first bytes of an answer, if they are an ordinary head and what comes of the body with it."""
        head = None if self._head_only else self._head_reader.read(data)
        if head is None:
            return False
        status, headers, body_at, body_bytes, persistent = head
        if body_at > self._header_bytes_max or body_bytes > self._body_bytes_max:
            return False
        self._started = True
        if body_bytes == CHUNKED:  # httptools reads it, behind a head that says no more than that
            stand_in = _CHUNKED_HEAD if persistent else _LAST_CHUNKED_HEAD
            self._silent_bytes = body_at - len(stand_in)
            self._start_parser()
            self._feed_parser(stand_in + data[body_at:])
        else:
            self._awaited_bytes, self.persistent = body_bytes, persistent
            self._take_awaited(data[body_at:])
        self._status, self._headers = status, headers
        return True

    def _take_awaited(self, data: bytes) -> None:
        """Take a piece of a body of known length; what comes behind it, even an empty line, costs the connection."""
        left_bytes = self._awaited_bytes - len(data)
        if left_bytes < 0:
            self._spoiled = True
            data, left_bytes = data[:left_bytes], 0
        self._pieces.append(data)
        self._awaited_bytes = left_bytes
        self.complete = not left_bytes

    def _start_parser(self) -> None:
        self._started = True
        if not self._between_messages:  # after HEAD httptools waits for a body that it cannot be told not to expect
            self._parser = httptools.HttpResponseParser(self)
        self._between_messages = False

    def _judge_framing(self) -> None:
        coding = self._headers.get("transfer-encoding")
        length = self._headers.get("content-length")
        if coding is not None and coding.lower() != "chunked":
            self._refusal = httpx.RemoteProtocolError(f"the transfer coding {coding[:40]!r} is unknown")
        elif length is not None:
            self._judge_length(int(length))  # httptools let only digits pass
        self._close_delimited = coding is None and length is None

    def _judge_length(self, length: int) -> None:
        if length > self._body_bytes_max:
            self._refusal = self._too_large()

    def _too_large(self) -> ResponseTooLarge:
        return ResponseTooLarge(f"the answer is longer than {self._body_bytes_max} bytes")


def _decoded_answer(
    status: int, headers: dict[str, str], body: bytes, *, coding: str, body_bytes_max: int
) -> HttpAnswer:
    return HttpAnswer(status, headers, decode_body(body, coding, body_bytes_max=body_bytes_max))
