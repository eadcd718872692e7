"""Writes the heads of responses. No I/O."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple

from gateway.server.errors import AppMisbehaved
from gateway.server.http1.fields import Fields

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode() for status in HTTPStatus if status >= 200
}
_OF_THE_SERVER: Final = frozenset(
    (b"content-length", b"connection", b"transfer-encoding", b"date", b"server", b"upgrade")
)
SHAPES_KEPT = 256
BODILESS = frozenset((204, 304))


class ResponseShape(NamedTuple):
    """The parts of a head that depend only on the names of its headers."""

    template: bytes
    """The lines of all headers in the head except `others`, with placeholders for the values.

    Empty if there are none.
    """
    others: tuple[tuple[bytes, int], ...]
    """The headers that the server checks or writes: their names and the positions of their values."""


Shapes = dict[tuple[bytes, ...], ResponseShape]
"""Shapes by a response's header names, in the app's order. At most `SHAPES_KEPT` are stored."""


def head_lines(status: int, fields: Fields, shapes: Shapes, *, date: bytes) -> tuple[list[bytes], int | None, bool]:
    """Return the lines of a head, the app's Content-Length, and whether the app requests a close.

    The lines exclude the headers that frame the body. An item may contain several lines, and does not end with a line
    end. `date` is the Date header line. Date and Server are added if the app did not send them.

    Raises:
        AppMisbehaved: a header contains a line end, or the status or Content-Length is invalid.
    """
    names, values = fields
    shape = shapes.get(names) or _learn(names, shapes)
    _check(b"".join(values))
    lines = [_STATUS_LINES.get(status) or _status_line(status)]
    if shape.template:
        lines.append(shape.template % values)
    length, closes = _add_others(shape.others, values, lines, date)
    return lines, None if status == 204 else length, closes


def switching_lines(fields: Fields, shapes: Shapes, *, date: bytes) -> list[bytes]:
    """Return the lines of the head that switches a connection to another protocol, without that protocol's headers.

    Raises:
        AppMisbehaved: a header contains a line end, or only the server may send it.
    """
    if any(name.lower() == b"upgrade" or name.lower().startswith(b"sec-websocket-") for name in fields[0]):
        raise AppMisbehaved("The headers of the handshake belong to the server.")
    lines, _, _ = head_lines(200, fields, shapes, date=date)
    lines[0] = b"HTTP/1.1 101 Switching Protocols"
    return lines


def _learn(names: tuple[bytes, ...], shapes: Shapes) -> ResponseShape:
    """Return the shape of heads with these names, and store it for the next response."""
    _check(b"".join(names))
    template, start = b"", b""
    others: list[tuple[bytes, int]] = []
    for nth, name in enumerate(map(bytes.lower, names)):
        if name in _OF_THE_SERVER:
            others.append((name, nth))
            template += b"%.0b"  # a placeholder that consumes its value and writes nothing
        else:
            template += start + name.replace(b"%", b"%%") + b": %b"
            start = b"\r\n"
    shape = ResponseShape(template if start else b"", tuple(others))
    if len(shapes) < SHAPES_KEPT:
        shapes[names] = shape
    return shape


def _check(text: bytes) -> None:
    if 0x0A in text or 0x0D in text or 0 in text:  # an int is found faster than b"\n" (measured)
        raise AppMisbehaved("A header of the response contains a line end or NUL.")


def _add_others(
    others: tuple[tuple[bytes, int], ...], values: tuple[bytes, ...], lines: list[bytes], date: bytes
) -> tuple[int | None, bool]:
    """Interpret the headers that the server controls, and add the headers that every response has."""
    length = None
    closes = False
    server = b"server: sluice"
    for name, nth in others:
        value = values[nth]
        if name == b"content-length":
            if length is not None or not value.isdigit():
                raise AppMisbehaved("Content-Length of the response is repeated or not a number.")
            length = int(value)
        # only the server writes Connection and Transfer-Encoding; the app can only request a close
        elif name == b"connection":
            closes = closes or b"close" in value.lower()
        elif name == b"date":
            date = b"date: " + value
        elif name == b"server":
            server = b"server: " + value
        elif name == b"upgrade":  # Upgrade applies to this connection only, so Connection must list it (RFC 9110, 7.8)
            lines.append(b"upgrade: %b\r\nconnection: upgrade" % value)
    lines += (date, server)
    return length, closes


def _status_line(status: int) -> bytes:
    if not 200 <= status <= 999:
        raise AppMisbehaved(f"The app sent status {status}.")
    return b"HTTP/1.1 %d " % status
