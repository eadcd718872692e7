"""Parses any response head that common clients accept: folded or odd header lines, bare line feeds, repeated lengths.

`ordinary_head` parses nearly all heads, and this module the others. A head that violates RFC 9112 but can be parsed
ends its connection, because another client may find a different end of the body. A head whose body has no certain
length is refused.
"""

import re
from typing import Final

import httpx

from upstreams.transport.ordinary_head import BODILESS, CHUNKED, TO_THE_END, AnswerHead

FIELDS_MAX: Final = 1_000
_STATUS = re.compile(rb"HTTP/([0-9]\.[0-9])([ \t]+)([1-9][0-9][0-9])(?:([ \t])[^\r\0]*)?")
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t -~\x80-\xff]*)")
_FRAMING_NAME = re.compile(rb"content-length|transfer-encoding")
_FORBIDDEN = re.compile(rb"[\r\0]")
_LENGTH_NAME: Final = "content-length"
_CODING_NAME: Final = "transfer-encoding"
_LENGTH = re.compile(r"[0-9]{1,19}")


class MalformedAnswer(httpx.RemoteProtocolError):
    """The bytes are not a response that can be parsed safely. A retry would receive the same response."""


class CarefulHead:
    """One head, parsed line by line.

    `is_doubtful` is set if the head violates the format although its meaning is certain.
    """

    __slots__ = ("headers", "is_doubtful", "persistent", "status")

    def __init__(self, head: bytes) -> None:
        lines = head.split(b"\n")[:-1]
        if len(lines) > FIELDS_MAX + 1:
            raise MalformedAnswer(f"the response head is longer than {FIELDS_MAX} lines")
        self.is_doubtful = not all(line.endswith(b"\r") for line in lines)
        lines = [line.removesuffix(b"\r") for line in lines[:-1]]
        found = _STATUS.fullmatch(lines[0])
        if found is None:
            raise MalformedAnswer("the status line is malformed")
        self.is_doubtful |= found[2] != b" " or found[4] == b"\t"
        self.status = int(found[3])
        self.headers: dict[str, str] = {}
        for line in _unfolded(lines[1:]):
            self._take(line)
        self.is_doubtful |= any(line[:1] in (b" ", b"\t") for line in lines)
        self.persistent = self._keeps_open(found[1])

    def body_bytes(self) -> int:
        """Return the length of the body, `CHUNKED` or `TO_THE_END` (RFC 9112, 6.3).

        Raises:
            MalformedAnswer: The length is uncertain.
        """
        length = self._length()
        is_chunked = self._is_chunked()
        if self.status in BODILESS:
            return 0
        if is_chunked:
            return CHUNKED
        return TO_THE_END if length is None else length

    def _take(self, line: bytes) -> None:
        found = _FIELD.fullmatch(line)
        name, value = found.groups() if found is not None else self._odd_field(line)
        key, text = name.decode("latin-1").lower(), value.rstrip(b" \t").decode("latin-1")
        if key:
            known = self.headers.get(key)
            self.headers[key] = text if known is None else f"{known}, {text}"

    def _odd_field(self, line: bytes) -> tuple[bytes, bytes]:
        """Split a header line.

        The head becomes doubtful if the name is not a token or the value has control characters.
        """
        name, colon, value = line.partition(b":")
        if not colon or _FORBIDDEN.search(line):
            raise MalformedAnswer("a header line is malformed")
        if _TOKEN.fullmatch(name) is None and _FRAMING_NAME.search(name.lower()):
            raise MalformedAnswer("the name of a header that frames the body is malformed")
        self.is_doubtful = True
        return name.strip(b" \t"), value.strip(b" \t")

    def _length(self) -> int | None:
        """Return the Content-Length, which may be repeated."""
        announced = self.headers.get(_LENGTH_NAME)
        if announced is None:
            return None
        different = {length.strip(" \t") for length in announced.split(",")}
        self.is_doubtful |= "," in announced
        digits = different.pop()
        if different or _LENGTH.fullmatch(digits) is None:
            raise MalformedAnswer(f"the Content-Length {announced[:40]!r} is malformed")
        return int(digits)

    def _is_chunked(self) -> bool:
        announced = self.headers.get(_CODING_NAME)
        if announced is None:
            return False
        codings = {name for part in announced.lower().split(",") if (name := part.strip(" \t"))} - {"identity"}
        if codings - {"chunked"}:
            raise MalformedAnswer(f"the transfer coding {announced[:40]!r} is unknown")
        self.is_doubtful |= announced.lower() != "chunked" or _LENGTH_NAME in self.headers
        return bool(codings)

    def _keeps_open(self, version: bytes) -> bool:
        """Return whether the peer keeps the connection open (RFC 9112, 9.3)."""
        connection_options = f"{self.headers.get('connection', '')},{self.headers.get('proxy-connection', '')}".lower()
        options = {option.strip() for option in connection_options.split(",")}
        if "close" in options:
            return False
        return version == b"1.1" or (version == b"1.0" and "keep-alive" in options)


def read_carefully(head: bytes) -> AnswerHead:
    """Parse a complete head, including the empty line at its end.

    Raises:
        MalformedAnswer: The head cannot be parsed, or not safely.
    """
    read = CarefulHead(head)
    body_bytes = read.body_bytes()
    return read.status, read.headers, len(head), body_bytes, read.persistent and not read.is_doubtful


def _unfolded(lines: list[bytes]) -> list[bytes]:
    """Join folded lines with a space (RFC 9112, 5.2)."""
    whole: list[bytes] = []
    for line in lines:
        if line[:1] not in (b" ", b"\t"):
            whole.append(line)
        elif whole:
            whole[-1] += b" " + line.strip(b" \t")
        else:
            raise MalformedAnswer("the first header line is folded")
    return whole
