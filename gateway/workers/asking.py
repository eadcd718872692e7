"""Asking a worker's own admin address, which is on loopback and answers every request with one whole body."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import trio

from gateway.admin import Answer

_ANSWER_BYTES_MAX = 64 * 1024 * 1024
_RECEIVE_BYTES = 65_536


class WorkerUnreached(Exception):
    """No worker listens there: it was not asked anything."""


class WorkerSilent(Exception):
    """A worker was asked, and what it did is not known."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request, already free of what could break out of its place."""

    method: str
    path: str
    authorization: bytes = b""
    body: bytes = b""

    def encoded(self) -> bytes:
        """As HTTP/1.1."""
        lines = [f"{self.method} {self.path} HTTP/1.1".encode(), b"host: worker", b"connection: close"]
        lines.append(b"content-length: %d" % len(self.body))
        if self.authorization:
            lines.append(b"authorization: " + self.authorization)
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body


async def ask(admin_url: str, question: Question) -> Answer:
    """Ask a worker.

    Raises:
        WorkerUnreached: it was not asked.
        WorkerSilent: it did not answer.
    """
    parts = urlsplit(admin_url)
    assert parts.hostname is not None
    assert parts.port is not None
    try:
        stream = await trio.open_tcp_stream(parts.hostname, parts.port)
    except OSError as exc:
        raise WorkerUnreached(str(exc)) from exc
    async with stream:
        try:
            await stream.send_all(question.encoded())
            return _read(await _receive_all(stream))
        except trio.BrokenResourceError as exc:
            raise WorkerSilent("it closed the connection") from exc


async def _receive_all(stream: trio.SocketStream) -> bytes:
    received = bytearray()
    while data := await stream.receive_some(_RECEIVE_BYTES):
        received += data
        if len(received) > _ANSWER_BYTES_MAX:
            raise WorkerSilent(f"its answer is over {_ANSWER_BYTES_MAX} bytes")
    return bytes(received)


def _read(answer: bytes) -> Answer:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    words = first.split(b" ")
    if len(words) < 2 or len(body) != int(headers.get(b"content-length", b"-1")):
        raise WorkerSilent("its answer is not whole")
    return Answer(int(words[1]), headers.get(b"content-type", b""), body)
