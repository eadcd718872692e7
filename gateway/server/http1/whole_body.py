"""The app's side of a request's body: all of it, within a bound."""

from gateway.server.asgi import Receive
from gateway.server.errors import BodyTooLong, ClientGone


async def read_body(receive: Receive, *, bytes_max: int) -> bytes:
    """Every byte of the body.

    Raises:
        BodyTooLong: there are more than `bytes_max`; it was read no further.
        ClientGone: it did not arrive whole.
    """
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone("The client left before its body was whole.")
        piece = message.get("body", b"")
        size += len(piece)
        if size > bytes_max:
            raise BodyTooLong(bytes_max)
        pieces.append(piece)
        more = message.get("more_body", False)
    return b"".join(pieces)
