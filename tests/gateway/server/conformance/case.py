"""A conformance case, and the probe that follows each case."""

from dataclasses import dataclass

HOST = b"Host: a.example\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n"
PROBE = b"GET /next HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"
"""Sent after every case. Its response is a 404, so a 404 at the end shows that both sides agree on the framing."""

IN_STEP = (200, 404)


@dataclass(frozen=True, slots=True)
class Case:
    """Bytes, and the status of every response to them and to `PROBE` until the server closes.

    A status of 0 is a response without a head, as in HTTP/0.9.
    """

    sent: bytes
    statuses: tuple[int, ...]


def get(*lines: bytes, target: bytes = b"/", version: bytes = b"HTTP/1.1") -> bytes:
    """Return a GET with these header lines after a valid Host."""
    return b"GET " + target + b" " + version + b"\r\n" + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def post(*lines: bytes, body: bytes = b"", version: bytes = b"HTTP/1.1") -> bytes:
    """Return a POST with these header lines after a valid Host, for an app that reads its body."""
    head = b"POST /echo " + version + b"\r\n" + HOST
    return head + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


def chunked(body: bytes) -> bytes:
    """Return a POST with this chunked body."""
    return post(b"Transfer-Encoding: chunked", body=body)
