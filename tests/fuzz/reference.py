"""h11 as a second reader of the same bytes, for requests and for answers."""

import re
from dataclasses import dataclass

import h11

_ROOM_BYTES = 1_000_000
_REASON = re.compile(rb"\A(HTTP/1\.[01] [0-9]{3}) [^\r\n]*")
Headers = list[tuple[bytes, bytes]]
Head = h11.Request | h11.InformationalResponse | h11.Response


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `body` is None if its end has not arrived or cannot be read."""

    method: bytes
    target: bytes
    version: bytes
    headers: Headers
    body: bytes | None

    @property
    def keeps(self) -> bool:
        """Return whether its client keeps the connection open."""
        said = options(self.headers, b"connection")
        return b"close" not in said and (self.version == b"1.1" or b"keep-alive" in said)


@dataclass(frozen=True, slots=True)
class Told:
    """An answer. `body` is None if it is truncated."""

    status: int
    headers: Headers
    body: bytes | None

    @property
    def closes(self) -> bool:
        """Return whether it is the last answer on the connection."""
        return b"close" in options(self.headers, b"connection")


def options(headers: Headers, name: bytes) -> list[bytes]:
    """Return the elements of a list header, in lower case."""
    said = b",".join(value for key, value in headers if key == name)
    return [option.strip() for option in said.lower().split(b",")]


def read_requests(data: bytes) -> list[Asked]:
    """Return all requests in `data` as h11 reads them, up to the first that it cannot read."""
    found = []
    while data := data.lstrip(b"\r\n"):  # h11 does not accept the empty lines that RFC 9112, 2.2 allows
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_ROOM_BYTES)
        connection.receive_data(data)
        head, body = _read(connection)
        if not isinstance(head, h11.Request):
            break
        found.append(Asked(head.method, head.target, head.http_version, list(head.headers), body))
        if body is None:
            break
        data = connection.trailing_data[0]
    return found


def read_answer(data: bytes, method: bytes) -> tuple[Told | None, bytes]:
    """Return the first final answer in `data`, at whose end the connection ends, and the bytes after it.

    Empty lines before a head and any reason phrase are ignored, as llhttp does and h11 does not.
    """
    while True:
        data = _REASON.sub(rb"\1", data.lstrip(b"\r\n"), count=1)
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_ROOM_BYTES)
        connection.send(h11.Request(method=method, target=b"/", headers=[(b"Host", b"a")]))
        connection.send(h11.EndOfMessage())
        connection.receive_data(data)
        connection.receive_data(b"")
        head, body = _read(connection)
        if isinstance(head, h11.InformationalResponse):
            data = connection.trailing_data[0]
        elif isinstance(head, h11.Response):
            return Told(head.status_code, list(head.headers), body), connection.trailing_data[0]
        else:
            return None, data


def _read(connection: h11.Connection) -> tuple[Head | None, bytes | None]:
    head = None
    body = b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.InformationalResponse):
                return event, None
            if isinstance(event, h11.Request | h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return head, body
            else:
                return head, None
    except h11.RemoteProtocolError:
        return head, None
