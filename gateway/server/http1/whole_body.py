"""Reads a request's whole body for the app, up to a limit."""

from gateway.server.asgi import Receive
from gateway.server.errors import BodyTooLong, ClientGone


async def read_body(receive: Receive, *, bytes_max: int) -> bytes:
    """Return the whole body.

    Raises:
        BodyTooLong: the body has more than `bytes_max` bytes; the rest was not read.
        ClientGone: the body was cut short.
    """
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone("The client left before its body was complete.")
        piece = message.get("body", b"")
        size += len(piece)
        if size > bytes_max:
            raise BodyTooLong(bytes_max)
        pieces.append(piece)
        more = message.get("more_body", False)
    return b"".join(pieces)
