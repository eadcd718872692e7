"""The WebSocket of a connection to a browser; imported on first use, because few nodes have a browser."""

from __future__ import annotations

import ssl
from codecs import getincrementaldecoder
from typing import Final

import httpx
import trio
from trio_websocket import ConnectionClosed, HandshakeError, WebSocketConnection, wrap_client_stream
from wsproto.events import TextMessage

from upstreams.web.browser.address import ANSWER_S, CONNECT_S, BrowserAddress, BrowserLost

MESSAGE_BYTES_MAX: Final = 32 * 1024 * 1024
"""The maximum length of a message. If a browser sends a longer one, its connection is closed."""
_READ_BYTES: Final = 65_536
PIECE_BYTES: Final = 65_536
"""The number of bytes of a message that are written at a time. Masking them takes a fraction of a millisecond."""
Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


class BrowserSocket:
    """Sends and receives text messages."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection
        self._turn = trio.Lock()

    async def send(self, message: bytes) -> None:
        """Send a message in UTF-8. A long one is split into frames, so that other tasks run in between.

        Raises:
            BrowserLost: The connection has ended.
        """
        try:
            async with self._turn:
                await self._send(message)
        except ConnectionClosed as exc:
            raise BrowserLost("the browser has ended the connection") from exc

    async def _send(self, message: bytes) -> None:
        if len(message) <= PIECE_BYTES:
            await self._connection.send_message(message.decode())
            return
        if self._connection.closed is not None:
            raise ConnectionClosed(self._connection.closed)
        decoder = getincrementaldecoder("utf-8")()
        for place in range(0, len(message), PIECE_BYTES):
            is_last = place + PIECE_BYTES >= len(message)
            text = decoder.decode(message[place : place + PIECE_BYTES], final=is_last)
            # The library's send method accepts only whole messages.
            await self._connection._send(TextMessage(data=text, message_finished=is_last))

    async def receive(self) -> str | bytes:
        """Return the next message. Raises BrowserLost when the connection has ended."""
        try:
            return await self._connection.get_message()
        except ConnectionClosed as exc:
            raise BrowserLost("the browser has ended the connection") from exc


async def connect(address: BrowserAddress) -> Stream:
    """Return a stream to the browser.

    Raises:
        httpx.ConnectError, httpx.ConnectTimeout: The browser cannot be reached.
    """
    with trio.move_on_after(CONNECT_S):
        try:
            if not address.is_tls:
                return await trio.open_tcp_stream(address.host, address.port)
            context = ssl.create_default_context()
            return await trio.open_ssl_over_tcp_stream(
                address.host, address.port, ssl_context=context, https_compatible=True
            )
        except OSError as exc:
            raise httpx.ConnectError(f"the browser cannot be reached: {exc}") from exc
    raise httpx.ConnectTimeout("the browser cannot be reached in time")


async def open_socket(nursery: trio.Nursery, stream: Stream, address: BrowserAddress) -> BrowserSocket:
    """Open a WebSocket over a stream. A task in the nursery reads from it.

    Raises:
        httpx.ConnectError, httpx.ConnectTimeout: The browser rejects it, or does not answer.
    """
    host = f"[{address.host}]" if ":" in address.host else address.host
    with trio.move_on_after(ANSWER_S):
        try:
            connection = await wrap_client_stream(
                nursery,
                stream,
                f"{host}:{address.port}",
                address.path,
                max_message_size=MESSAGE_BYTES_MAX,
                receive_buffer_size=_READ_BYTES,
            )
        except HandshakeError as exc:
            raise httpx.ConnectError("the browser refused the connection") from exc
        return BrowserSocket(connection)
    raise httpx.ConnectTimeout("the browser did not open its WebSocket in time")
