"""Writes the heads of answers. No I/O."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from gateway.server.errors import AppMisbehaved

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode() for status in HTTPStatus if status >= 200
}
NAMES_KEPT = 256
BODILESS = frozenset((204, 304))

Starts = dict[bytes, bytes]
"""From a header's name, as the app gives it, to what stands before the value. It fills itself: an app has few names."""


def head_lines(
    status: int, headers: Iterable[tuple[bytes, bytes]], starts: Starts, *, date: bytes
) -> tuple[list[bytes], int | None, bool]:
    """The lines of a head up to those that say where the body ends; the app's Content-Length; whether it asks to close.

    The lines have no ends yet. `date` is the line of the Date header; it and Server are added where the app gave none.

    Raises:
        AppMisbehaved: a header would break out of its line, or the status or Content-Length is no number HTTP knows.
    """
    lines = [_STATUS_LINES.get(status) or _status_line(status)]
    others: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        start = starts.get(name)
        if start is None:
            others.append((name, value))
        else:
            lines.append(start + value)
    length, closes = _add_others(others, lines, starts, date)
    text = b"".join(lines)
    if 0x0A in text or 0x0D in text or 0 in text:  # a tenth of what `in` costs for bytes
        raise AppMisbehaved("A header of the answer holds a line end or NUL.")
    return lines, None if status == 204 else length, closes


def switching_lines(headers: Iterable[tuple[bytes, bytes]], starts: Starts, *, date: bytes) -> list[bytes]:
    """The lines of the head that ends HTTP on a connection, without those that the other protocol asks for.

    Raises:
        AppMisbehaved: a header would break out of its line, or belongs to the server.
    """
    headers = [*headers]
    if any(name.lower() == b"upgrade" or name.lower().startswith(b"sec-websocket-") for name, _ in headers):
        raise AppMisbehaved("The headers of the handshake belong to the server.")
    lines, _, _ = head_lines(200, headers, starts, date=date)
    lines[0] = b"HTTP/1.1 101 Switching Protocols"
    return lines


def _add_others(
    others: list[tuple[bytes, bytes]], lines: list[bytes], starts: Starts, date: bytes
) -> tuple[int | None, bool]:
    """Judge the headers that the server has a say in, and learn the other names."""
    length = None
    closes = False
    server = b"server: sluice"
    for given, value in others:
        name = given.lower()
        if name == b"content-length":
            if length is not None or not value.isdigit():
                raise AppMisbehaved("Content-Length of the answer is repeated or no number.")
            length = int(value)
        elif name == b"connection":  # it and transfer-encoding belong to the server; the app may only ask to close
            closes = closes or b"close" in value.lower()
        elif name == b"date":
            date = b"date: " + value
        elif name == b"server":
            server = b"server: " + value
        elif name != b"transfer-encoding":
            start = name + b": "
            lines.append(start + value)
            if len(starts) < NAMES_KEPT:
                starts[given] = start
    lines += (date, server)
    return length, closes


def _status_line(status: int) -> bytes:
    if not 200 <= status <= 999:
        raise AppMisbehaved(f"The app answered with status {status}.")
    return b"HTTP/1.1 %d " % status
