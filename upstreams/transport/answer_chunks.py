"""Parses a chunked body (RFC 9112, 7.1)."""

import re
from typing import Final

from upstreams.transport.careful_head import MalformedAnswer

_ORDINARY_FIRST = re.compile(rb"([0-9A-Fa-f]{1,16})\r\n")
_ORDINARY_NEXT = re.compile(rb"\r\n([0-9A-Fa-f]{1,16})\r\n")
_ODD_SIZE: Final = rb"([0-9A-Fa-f]{1,16})([ \t]*)(?:;[^\r\n\0]*)?(\r?\n)"
_ODD_FIRST = re.compile(rb"()" + _ODD_SIZE)
_ODD_NEXT = re.compile(rb"(\r?\n)" + _ODD_SIZE)
_PARTIAL_SIZE: Final = rb"(?:[0-9A-Fa-f]{1,16}[ \t]*(?:;[^\r\n\0]*)?\r?)?"
_PARTIAL_FIRST = re.compile(_PARTIAL_SIZE)
_PARTIAL_NEXT = re.compile(rb"\r?|\r?\n" + _PARTIAL_SIZE)
_TRAILERS_END = re.compile(rb"(?:\A|\n)\r?\n")
_TRAILERS = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t -~\x80-\xff]*\r\n)*\r\n")
_LINE_END: Final = b"\r\n"


class AnswerChunks:
    """The parser of one chunked body. It appends the decoded bytes to `body`, and is owned by one answer parser.

    Like common clients, it accepts whitespace after a size, and lines that end in a line feed alone. These and unusual
    trailers set `is_doubtful`, because another client may find a different end of the body.
    """

    __slots__ = ("_body", "_framing", "_is_first", "_is_last", "_left_bytes", "ended", "has_surplus", "is_doubtful")

    def __init__(self, body: bytearray) -> None:
        self._body = body
        self._framing = b""
        """An incomplete size line, or incomplete trailers."""
        self._left_bytes = 0
        """The number of bytes that are missing from the current chunk."""
        self._is_first = True
        self._is_last = self.ended = self.is_doubtful = self.has_surplus = False

    def feed(self, data: bytes) -> None:
        """Process the next bytes. Trailers are dropped; `has_surplus` is set if anything follows the end.

        Raises:
            MalformedAnswer: A chunk size or the end of a chunk is malformed.
        """
        if self._framing:
            data, self._framing = self._framing + data, b""
        at, left_bytes, body = 0, self._left_bytes, self._body
        while not self._is_last:
            if left_bytes:
                end = at + left_bytes
                body += data[at:end]
                left_bytes = end - len(data)
                if left_bytes > 0:
                    self._left_bytes = left_bytes
                    return
                at = end
            found = (_ORDINARY_FIRST if self._is_first else _ORDINARY_NEXT).match(data, at)
            if found is not None:
                left_bytes = int(found[1], 16)
            elif (found := (_ODD_FIRST if self._is_first else _ODD_NEXT).match(data, at)) is not None:
                left_bytes = self._odd_size(found)
            else:
                self._wait_for_size(data[at:])
                return
            at = found.end()
            self._is_first, self._is_last = False, not left_bytes
        self._take_trailers(data[at:])

    def _odd_size(self, found: re.Match[bytes]) -> int:
        """Return the size from an unusual size line.

        Set `is_doubtful` if another client could parse the line differently.
        """
        before, size, blanks, end = found.groups()
        if blanks or end != _LINE_END or not (self._is_first or before == _LINE_END):
            self.is_doubtful = True
        return int(size, 16)

    def _wait_for_size(self, framing: bytes) -> None:
        """Store an incomplete size line."""
        if (_PARTIAL_FIRST if self._is_first else _PARTIAL_NEXT).fullmatch(framing) is None:
            raise MalformedAnswer("a chunk is malformed")
        self._framing = framing
        self._left_bytes = 0

    def _take_trailers(self, data: bytes) -> None:
        """Find the empty line that ends the body."""
        if data == _LINE_END:
            self.ended = True
            return
        found = _TRAILERS_END.search(data)
        if found is None:
            self._framing = data
            return
        self.ended = True
        self.has_surplus = len(data) > found.end()
        if _TRAILERS.fullmatch(data, 0, found.end()) is None:
            self.is_doubtful = True
