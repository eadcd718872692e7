"""Parses the bytes that an upstream sends into an answer: HTTP/1.1 framing, with size limits.

An ordinary head that arrives in one piece is parsed by `ordinary_head`, any other head by `careful_head`.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import httpx

from limits.quick_tuples import quick
from upstreams.transport.answer_chunks import AnswerChunks
from upstreams.transport.careful_head import MalformedAnswer, read_carefully
from upstreams.transport.decoding import decode_body
from upstreams.transport.http import HttpAnswer, ResponseTooLarge
from upstreams.transport.ordinary_head import CHUNKED, TO_THE_END, AnswerHead, AnswerHeadReader

_http_answer = quick(HttpAnswer)
_HEAD_END = re.compile(rb"\n\r?\n")
_STARTED = b"HTTP/"
_LINE_BREAKS = b"\r\n"
_LONG_BYTES = 128 * 1024
"""A body that is longer than this, before or after decoding, is decoded in a thread, because decoding 8 MB takes up to
80 ms."""


class AnswerBrokenOff(httpx.RemoteProtocolError):
    """The peer closed the connection before the answer was complete."""


class LongBody(Exception):
    """A complete answer whose body takes long to decode. `decode` returns the answer or raises its error."""

    def __init__(self, decode: Callable[[], HttpAnswer]) -> None:
        self.decode = decode


class AnswerParser:
    """Parses the answers on one connection, one at a time. Call `begin` before each answer.

    A parser is mutable and owned by its connection.
    """

    __slots__ = (
        "_awaited_bytes",
        "_bodiless_bytes",
        "_body_bytes_max",
        "_chunked",
        "_growing",
        "_head",
        "_head_only",
        "_head_reader",
        "_header_bytes_max",
        "_headers",
        "_pieces",
        "_spoiled",
        "_status",
        "complete",
        "persistent",
    )

    def __init__(self, head_reader: AnswerHeadReader, *, header_bytes_max: int, body_bytes_max: int) -> None:
        self._head_reader = head_reader
        self._header_bytes_max = header_bytes_max
        self._body_bytes_max = body_bytes_max
        self._pieces: list[bytes] = []
        self._growing = bytearray()
        """The received part of a body of unknown length. If it arrives byte by byte, a list of its pieces would be
        forty times as large."""
        self.begin("")

    def begin(self, method: str) -> None:
        """Expect the answer to a call with `method`."""
        self._head_only = method == "HEAD"
        self.complete = self.persistent = self._spoiled = False
        self._bodiless_bytes = self._status = 0
        self._awaited_bytes = 0
        """The number of bytes that the body still lacks; `CHUNKED` or `TO_THE_END` if its length is not announced."""
        self._headers: dict[str, str] = {}
        self._head = b""
        """The received part of an incomplete head."""
        self._chunked: AnswerChunks | None = None

    def feed(self, data: bytes) -> None:
        """Process received bytes; `complete` is set when the answer is complete.

        Raises:
            MalformedAnswer: The bytes are not an HTTP/1.1 response that can be parsed safely.
            ResponseTooLarge: The body is longer than the limit.
        """
        if self._status:
            self._take_body(data)
            return
        head = None if self._head else self._head_reader.read(data)
        if head is not None and head[2] <= self._header_bytes_max:
            self._begin_body(head, data)
        else:
            self._take_head(data)

    def end(self) -> None:
        """Process the end of the connection. It completes an answer that has neither a length nor chunks.

        Raises:
            AnswerBrokenOff: The answer is incomplete.
        """
        if self._awaited_bytes != TO_THE_END:
            raise AnswerBrokenOff("the peer closed the connection before the response was complete")
        self.complete = True

    @property
    def reusable(self) -> bool:
        """Whether the answer is complete with a certain end and no surplus, and the peer keeps the connection open."""
        return self.complete and self.persistent and not self._spoiled

    def answer(self) -> HttpAnswer:
        """Return the complete answer, decoded.

        Raises:
            httpx.DecodingError: The content coding cannot be decoded.
            ResponseTooLarge: The decoded body exceeds the limit.
            LongBody: The body must be decoded in a thread.
        """
        body = self._taken()
        if (coding := self._headers.get("content-encoding")) is not None:
            body = self._decoded(body, coding)
        return _http_answer((self._status, self._headers, body))

    def _decoded(self, body: bytes, coding: str) -> bytes:
        """Return the decoded body, or raise `LongBody` if the body is long before or after decoding."""
        cap = self._body_bytes_max
        if cap <= _LONG_BYTES:
            return decode_body(body, coding, body_bytes_max=cap)
        if len(body) <= _LONG_BYTES:
            with suppress(ResponseTooLarge):
                return decode_body(body, coding, body_bytes_max=_LONG_BYTES)
        raise LongBody(partial(_decoded_answer, self._status, self._headers, body, coding=coding, body_bytes_max=cap))

    def _taken(self) -> bytes:
        """Return the body as received, and release it, so that an idle connection holds no body."""
        if self._growing:
            body, self._growing, self._chunked = bytes(self._growing), bytearray(), None
        else:
            body, self._pieces = b"".join(self._pieces), []
        return body

    def _take_head(self, data: bytes) -> None:
        """Process a piece of an unusual head, or of one that arrives in pieces. Interim responses (100, 103) are
        dropped."""
        if not self._head:
            self._bodiless_bytes += len(data)
            data = data.lstrip(_LINE_BREAKS)
            self._bodiless_bytes -= len(data)
        search_at = max(0, len(self._head) - 2)
        self._head += data
        if not _STARTED.startswith(self._head[: len(_STARTED)]):
            raise MalformedAnswer("the response does not begin with a status line")
        while (found := _HEAD_END.search(self._head, search_at)) is not None:
            self._check_bodiless_bytes(found.end())
            whole = self._head[: found.end()]
            head = self._head_reader.read(whole) or read_carefully(whole)
            if head[0] >= 200:
                data, self._head = self._head, b""
                self._begin_body(head, data)
                return
            if head[0] == 101:
                raise MalformedAnswer("the peer switched to another protocol")
            self._spoiled |= not head[4]
            self._bodiless_bytes += found.end()
            self._head = self._head[found.end() :].lstrip(_LINE_BREAKS)
            search_at = 0
        self._check_bodiless_bytes(len(self._head))

    def _check_bodiless_bytes(self, more_bytes: int = 0) -> None:
        """Refuse a response with too many bytes before its body."""
        if self._bodiless_bytes + more_bytes > self._header_bytes_max:
            raise MalformedAnswer(f"the response headers are longer than {self._header_bytes_max} bytes")

    def _begin_body(self, head: AnswerHead, data: bytes) -> None:
        """Process a head, and the bytes of the body after it."""
        self._status, self._headers, body_at, body_bytes, self.persistent = head
        if body_bytes == TO_THE_END:
            self.persistent = False
        if self._head_only:
            body_bytes = 0
        elif body_bytes == CHUNKED:
            self._chunked = AnswerChunks(self._growing)
        elif body_bytes > self._body_bytes_max:
            body_bytes = self._excess_body_bytes()
        self._awaited_bytes = body_bytes
        self._take_body(data[body_at:])

    def _take_body(self, data: bytes) -> None:
        """Process a piece of the body. If anything follows the body, even an empty line, the connection is closed."""
        awaited_bytes = self._awaited_bytes
        if awaited_bytes < 0:
            self._take_growing(data)
            return
        left_bytes = awaited_bytes - len(data)
        if left_bytes < 0:
            self._spoiled = True
            data, left_bytes = data[:left_bytes], 0
        self._pieces.append(data)
        self._awaited_bytes = left_bytes
        self.complete = not left_bytes

    def _take_growing(self, data: bytes) -> None:
        """Process a piece of a body of unknown length."""
        before_bytes, chunked = len(self._growing), self._chunked
        if chunked is None:
            self._growing += data
        else:
            chunked.feed(data)
            self.complete = chunked.ended
            self._spoiled |= chunked.is_doubtful or chunked.has_surplus
        if len(self._growing) > self._body_bytes_max:
            self._excess_body_bytes()
        if len(self._growing) > before_bytes:
            self._bodiless_bytes = 0
        elif not self.complete:
            self._bodiless_bytes += len(data)
            self._check_bodiless_bytes()

    def _excess_body_bytes(self) -> int:
        """Return how many bytes to read of a body that exceeds the limit.

        Raises:
            ResponseTooLarge: Always, in this class.
        """
        raise ResponseTooLarge(f"the response is longer than {self._body_bytes_max} bytes")


def _decoded_answer(
    status: int, headers: dict[str, str], body: bytes, *, coding: str, body_bytes_max: int
) -> HttpAnswer:
    return HttpAnswer(status, headers, decode_body(body, coding, body_bytes_max=body_bytes_max))


class AnswerStartParser(AnswerParser):
    """Parses answers of peers whose full answer is not needed.

    Truncates the body at `body_bytes_max` and closes the connection at that point. The body remains encoded.
    """

    __slots__ = ()

    def answer(self) -> HttpAnswer:
        """Return the status, the headers, and the start of the body, without decoding."""
        return HttpAnswer(self._status, self._headers, self._taken())

    def _excess_body_bytes(self) -> int:
        """Read up to the limit; the answer is then complete."""
        if self._growing:
            del self._growing[self._body_bytes_max :]
            self.complete = True
        self._spoiled = True
        return self._body_bytes_max
