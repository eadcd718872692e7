"""Parses the usual form of a response head, which nearly all upstreams send, and no other form.

Upstreams send 20 to 40 header lines. Most are the same in every answer, so the parsed form of each line is cached.
Unusual heads are parsed by `careful_head`. A test verifies that the two never parse a head differently.
"""

import re
from typing import TypeVar

T = TypeVar("T")

_HEAD_BYTES_MAX = 8_192
_LINES_KEPT = 1_024
_LINE_BYTES_KEPT = 256
_STATUS = re.compile(rb"HTTP/1\.1 ([2-5][0-9][0-9]) [ -~]*")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ?((?:[!-~](?:[ -~]*[!-~])?)?)")
BODILESS = frozenset({204, 304})
_FRAMING = frozenset({"upgrade", "proxy-connection", "trailer"})
_LENGTH_DIGITS_MAX = 10
_UNUSUAL = ""

AnswerHead = tuple[int, dict[str, str], int, int, bool]
"""The status, the headers, where the body starts in the bytes, its length, and whether the connection stays open."""
CHUNKED = -1
"""A body length that means that the body is chunked."""
TO_THE_END = -2
"""A body length that means that the body ends with the connection."""


class _Statuses(dict[bytes, int]):
    """A cache of status codes by status line. The code is 0 if the line is unusual, or if the answer has no body."""

    def __missing__(self, line: bytes) -> int:
        found = _STATUS.fullmatch(line)
        status = int(found[1]) if found else 0
        return _keep(self, line, 0 if status in BODILESS else status)


class _Fields(dict[bytes, tuple[str, str]]):
    """A cache of the name (in lower case) and value of a header line.

    The name is empty if the line is unusual or affects framing.
    """

    def __missing__(self, line: bytes) -> tuple[str, str]:
        found = _FIELD.fullmatch(line)
        name = found[1].decode("ascii").lower() if found else _UNUSUAL
        if found is None or name in _FRAMING:
            return _keep(self, line, (_UNUSUAL, ""))
        return _keep(self, line, (name, found[2].decode("ascii")))


class AnswerHeadReader:
    """Parses ordinary heads. All connections of a transport share one reader and thus its cached lines."""

    __slots__ = ("_fields", "_statuses")

    def __init__(self) -> None:
        self._fields = _Fields()
        self._statuses = _Statuses()

    def read(self, data: bytes) -> AnswerHead | None:
        """Return the head at the start of an answer; None if the head is incomplete or unusual."""
        end = data.find(b"\r\n\r\n", 0, _HEAD_BYTES_MAX)
        if end < 0:
            return None
        lines = data[:end].split(b"\r\n")
        status = self._statuses[lines[0]]
        del lines[0]
        headers = dict(map(self._fields.__getitem__, lines))
        if not status or _UNUSUAL in headers:
            return None
        if len(headers) < len(lines):
            headers = self._joined(lines)
        body_bytes = _body_bytes(headers)
        if body_bytes is None:
            return None
        connection = headers.get("connection")
        if connection is not None and connection != "close" and connection.lower() != "keep-alive":
            return None
        return status, headers, end + 4, body_bytes, connection != "close"

    def _joined(self, lines: list[bytes]) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, value in map(self._fields.__getitem__, lines):
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return headers


def _body_bytes(headers: dict[str, str]) -> int | None:
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if length is None:
        return CHUNKED if coding == "chunked" else None
    if coding is not None or not length.isdecimal() or len(length) > _LENGTH_DIGITS_MAX:
        return None
    return int(length)


def _keep(kept: dict[bytes, T], line: bytes, reading: T) -> T:
    """Cache the parsed form of a line. Clear the cache first if it is full."""
    if len(line) <= _LINE_BYTES_KEPT:
        if len(kept) >= _LINES_KEPT:
            kept.clear()
        kept[line] = reading
    return reading
