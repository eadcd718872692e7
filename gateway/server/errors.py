"""Errors of the edge: refused requests, clients that left, apps that broke the protocol."""

from collections.abc import Callable

Headers = list[tuple[bytes, bytes]]
EdgeAnswer = Callable[[int, str], tuple[Headers, bytes]]
"""(status, sentence) -> headers and body of an answer that the server itself gives."""


class EdgeError(Exception):
    """The base of everything the edge raises."""


class RequestRefused(EdgeError):
    """The client's bytes are no request this server takes; `status`, `sentence` and further headers say why."""

    def __init__(self, status: int, sentence: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.headers = headers

    @property
    def connection(self) -> bytes:
        """The answer's Connection header; one that names another protocol says so there too (RFC 9110, 7.8)."""
        return b"upgrade, close" if self.headers else b"close"


class ClientGone(EdgeError, ConnectionError):
    """The client no longer takes what is sent to it; an OSError, as ASGI 2.4 asks for."""


class BodyTooLong(EdgeError):
    """A request's body has more bytes than its reader takes."""


class AppMisbehaved(EdgeError):
    """The app sent what ASGI or HTTP forbids; the client gets a 500 or an aborted connection."""


class LifespanFailed(EdgeError):
    """The app answered `lifespan.startup.failed` or `lifespan.shutdown.failed`."""
