"""The quick reading of an answer's head: of the kind that nearly all answers have, and nothing else.

httptools calls back for each header, 1 us each, and upstreams send 20 to 40. Most of these lines are the same in every
answer of an upstream, so each line's reading is kept. What is unusual in any way is left to httptools: the two never
read one head differently, which a test proves.
"""

import re
from functools import lru_cache
from typing import NamedTuple

_HEAD_BYTES_MAX = 8_192
_LINES_KEPT = 512
_STATUS = re.compile(rb"HTTP/1\.1 ([2-5][0-9][0-9]) [ -~]*")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ?((?:[!-~](?:[ -~]*[!-~])?)?)")
_BODILESS = frozenset({204, 304})
_FRAMING = frozenset({"transfer-encoding", "upgrade", "proxy-connection", "trailer"})
_LENGTH_DIGITS_MAX = 10
_UNUSUAL = ""


class OrdinaryHead(NamedTuple):
    """A head that says how long its body is, and where in the bytes this begins."""

    status: int
    headers: dict[str, str]
    body_at: int
    body_bytes: int
    persistent: bool


class HeadReader:
    """Reads ordinary heads; made once for all connections, since what it keeps is of use to all of them.

    It keeps 512 lines at most, of heads of 8 KiB at most.
    """

    def __init__(self) -> None:
        self._field = lru_cache(_LINES_KEPT)(_field)
        self._status = lru_cache(_LINES_KEPT)(_status)

    def read(self, data: bytes) -> OrdinaryHead | None:
        """The head at the beginning of an answer; None when it is not all there, or unusual."""
        end = data.find(b"\r\n\r\n", 0, _HEAD_BYTES_MAX)
        if end < 0:
            return None
        status_line, *lines = data[:end].split(b"\r\n")
        status = self._status(status_line)
        headers = dict(map(self._field, lines))
        if not status or _UNUSUAL in headers:
            return None
        if len(headers) < len(lines):
            headers = self._joined(lines)
        length = headers.get("content-length", "")
        connection = headers.get("connection", "keep-alive")
        if not (length.isdecimal() and len(length) <= _LENGTH_DIGITS_MAX):
            return None
        persistent = connection == "keep-alive" or connection.lower() == "keep-alive"
        if not persistent and connection != "close":
            return None
        return OrdinaryHead(status, headers, end + 4, int(length), persistent)

    def _joined(self, lines: list[bytes]) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, value in map(self._field, lines):
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return headers


def _status(line: bytes) -> int:
    """The status of a usual status line, of an answer that has a body; else 0."""
    found = _STATUS.fullmatch(line)
    status = int(found[1]) if found else 0
    return 0 if status in _BODILESS else status


def _field(line: bytes) -> tuple[str, str]:
    """Name, in lower case, and value; an empty name stands for a line that is unusual or changes the framing."""
    found = _FIELD.fullmatch(line)
    if not found:
        return _UNUSUAL, ""
    name = found[1].decode("ascii").lower()
    return (_UNUSUAL, "") if name in _FRAMING else (name, found[2].decode("ascii"))
