"""Writes the heads of answers. No I/O."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from gateway.server.errors import AppMisbehaved

_STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_WEIGHTY = frozenset((b"content-length", b"connection", b"transfer-encoding", b"date", b"server"))
BODILESS = frozenset((204, 304))


class AnswerHead:
    """The app's status and headers, checked and written; the framing is added when the body's first bytes are known.

    Raises:
        AppMisbehaved: a header would break out of its line, or the status or Content-Length is no number HTTP knows.
    """

    __slots__ = ("_lines", "close", "dated", "length", "named", "status")

    def __init__(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if not 200 <= status <= 999:
            raise AppMisbehaved(f"The app answered with status {status}.")
        self.status = status
        self.length: int | None = None
        self.close = False
        self.dated = False
        self.named = False
        lines = [_status_line(status)]
        for name, value in headers:
            lowered = name.lower()
            if lowered not in _WEIGHTY or self._keeps(lowered, value):
                lines.append(b"%b: %b\r\n" % (lowered, value))
        text = b"".join(lines)
        if not (text.count(b"\n") == text.count(b"\r") == len(lines)) or b"\0" in text:
            raise AppMisbehaved("A header of the answer holds a line end or NUL.")
        self._lines = text

    def _keeps(self, name: bytes, value: bytes) -> bool:
        """Note a header that the server has a say in; False for those it writes itself."""
        if name == b"content-length":
            self.length = self._judge_length(value)
            return False
        if name == b"date":
            self.dated = True
        elif name == b"server":
            self.named = True
        else:  # connection and transfer-encoding belong to the server; the app may only ask to close
            self.close |= name == b"connection" and b"close" in value.lower()
            return False
        return True

    def _judge_length(self, value: bytes) -> int | None:
        if self.length is not None or not value.isdigit():
            raise AppMisbehaved("Content-Length of the answer is repeated or no number.")
        return None if self.status == 204 else int(value)

    def framed(self, framing: bytes, *, date: bytes) -> bytes:
        """The whole head: the app's lines, the server's own, the lines that say where the body ends, the empty line.

        `date` is the line of the Date header; it and Server are added where the app gave none.
        """
        return b"%b%b%b%b\r\n" % (
            self._lines,
            b"" if self.dated else date,
            b"" if self.named else b"server: sluice\r\n",
            framing,
        )


def _status_line(status: int) -> bytes:
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
