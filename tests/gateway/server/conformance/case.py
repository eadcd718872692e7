"""One case of conformance, and what it is followed by."""

from dataclasses import dataclass

HOST = b"Host: a.example\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n"
PROBE = b"GET /next HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"
"""Sent behind every case. Its answer is 404, so a 404 at the end says that the connection is still in step."""

IN_STEP = (200, 404)


@dataclass(frozen=True, slots=True)
class Case:
    """Bytes, and the status of every answer to them and to `PROBE` until the server closes.

    A status of 0 is an answer without a head, as to HTTP/0.9.
    """

    sent: bytes
    statuses: tuple[int, ...]


def get(*lines: bytes, target: bytes = b"/", version: bytes = b"HTTP/1.1") -> bytes:
    """A GET with these header lines behind a good Host."""
    return b"GET " + target + b" " + version + b"\r\n" + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def post(*lines: bytes, body: bytes = b"", version: bytes = b"HTTP/1.1") -> bytes:
    """A POST with these header lines behind a good Host, to an app that reads its body."""
    head = b"POST /echo " + version + b"\r\n" + HOST
    return head + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


def chunked(body: bytes) -> bytes:
    """A POST with this body in chunks."""
    return post(b"Transfer-Encoding: chunked", body=body)
