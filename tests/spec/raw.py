"""Requests that an HTTP client would not send: exact bytes on a separate connection."""

from __future__ import annotations

from urllib.parse import urlsplit

import trio

from tests.fakes.calling import Answered

ANSWER_S = 5.0


async def raw_request(
    url: str, lines: tuple[str, ...], body: bytes = b"", *, ends_with_connection: bool = False
) -> Answered:
    """Send a head with these lines and a body, read one response, and close the connection.

    The response must have a length, unless it `ends_with_connection`.
    """
    host = urlsplit(url)
    assert host.hostname is not None
    assert host.port is not None
    head = "\r\n".join((*lines, f"host: {host.netloc}", "", "")).encode("latin-1")
    with trio.fail_after(ANSWER_S):
        async with await trio.open_tcp_stream(host.hostname, host.port) as stream:
            await stream.send_all(head + body)
            return await _answer(stream, b"", ends_with_connection=ends_with_connection)


async def _answer(stream: trio.SocketStream, got: bytes, *, ends_with_connection: bool) -> Answered:
    while b"\r\n\r\n" not in got:
        got += await _more(stream)
    head, _, body = got.partition(b"\r\n\r\n")
    first, *fields = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    if ends_with_connection:
        async for piece in stream:
            body += piece
    while not ends_with_connection and len(body) < int(headers.get("content-length", 0)):
        body += await _more(stream)
    return Answered(int(first.split()[1]), headers, body)


async def _more(stream: trio.SocketStream) -> bytes:
    piece = await stream.receive_some()
    assert piece, "the connection ended before the response"
    return bytes(piece)
