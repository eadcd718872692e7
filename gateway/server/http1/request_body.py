"""Finds the end of a request's body, by Content-Length or by chunks (RFC 9112, 6 and 7). No I/O.

llhttp reads only the heads. The framing of bodies is decoded here, so that the first byte after a body is known exactly
and is never mistaken for a part of it.
"""

import re
from typing import Protocol

from gateway.server.errors import RequestRefused

LINE_BYTES = 256
"""Maximum length of the line with a chunk's size and extensions. A longer line is treated as an attack."""
TRAILER_BYTES = 8_192
_LENGTH_DIGITS = 18
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class Body(Protocol):
    """The decoder of a request's body."""

    done: bool

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the decoded bytes of the body in `data`, and the bytes of `data` after the body's end.

        Raises:
            RequestRefused: the framing is malformed.
        """


class CountedBody:
    """The decoder of a body with a Content-Length."""

    __slots__ = ("_left", "done")

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = length == 0

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the next bytes of the body, and the bytes after its end."""
        piece, rest = data[: self._left], data[self._left :]
        self._left -= len(piece)
        self.done = self._left == 0
        return piece, rest


class ChunkedBody:
    """The decoder of a chunked body. Extensions and trailers are checked and dropped.

    Only the exact form of RFC 9112 is accepted, without bare LFs and without blanks around the size.
    """

    __slots__ = ("_held", "_left", "_line_bytes_max", "_read_line", "_trailer_bytes", "done")

    def __init__(self) -> None:
        self._held = b""  # the beginning of a line whose end has not arrived yet
        self._left = 0  # the number of bytes of the current chunk that have not arrived yet
        self._line_bytes_max = LINE_BYTES
        self._read_line = self._read_size
        self._trailer_bytes = 0
        self.done = False

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the decoded bytes in `data`, and the bytes after the last chunk's trailers."""
        data, self._held = self._held + data, b""
        pieces: list[bytes] = []
        at = 0
        while not self.done and at < len(data):
            if self._left:
                pieces.append(data[at : at + self._left])
                at += len(pieces[-1])
                self._left -= len(pieces[-1])
            else:
                at = self._next_line(data, at)
        return b"".join(pieces), data[at:]

    def _next_line(self, data: bytes, at: int) -> int:
        end = data.find(b"\r\n", at)
        if (end if end >= 0 else len(data)) - at > self._line_bytes_max:
            raise RequestRefused(400, "A line of the chunked body is too long.")
        if end < 0:
            self._held = data[at:]
            if b"\n" in self._held:
                raise RequestRefused(400, "A line of the chunked body ends with a bare LF.")
            return len(data)
        self._read_line(data[at:end])
        return end + 2

    def _read_size(self, line: bytes) -> None:
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            raise RequestRefused(400, "The size of a chunk is malformed.")
        self._left = int(match[1], 16)
        self._read_line = self._read_chunk_end
        if not self._left:
            self._read_line, self._line_bytes_max = self._read_trailer, TRAILER_BYTES

    def _read_chunk_end(self, line: bytes) -> None:
        if line:
            raise RequestRefused(400, "A chunk is longer than its size.")
        self._read_line = self._read_size

    def _read_trailer(self, line: bytes) -> None:
        self._trailer_bytes += len(line) + 2
        if not line:
            self.done = True
        elif self._trailer_bytes > TRAILER_BYTES or _TRAILER.fullmatch(line) is None:
            raise RequestRefused(400, "The trailers of the chunked body are malformed or too long.")


def body_of(length: bytes | None, encoding: bytes | None, *, version: str) -> Body | None:
    """Return the decoder for a body with these headers.

    llhttp has refused most invalid framings; this function refuses the rest.
    """
    if encoding is not None:
        if version != "1.1" or length is not None or encoding.lower() != b"chunked":
            raise RequestRefused(400, "Transfer-Encoding can only be chunked, on HTTP/1.1 and without Content-Length.")
        return ChunkedBody()
    if length is None:
        return None
    if not length.isdigit() or len(length) > _LENGTH_DIGITS:
        raise RequestRefused(400, "Content-Length is not a number.")
    return CountedBody(int(length)) if int(length) else None
