"""Errors that the edge raises: refused requests, disconnected clients, and apps that violate the protocol."""

from collections.abc import Callable

Headers = list[tuple[bytes, bytes]]
EdgeAnswer = Callable[[int, str], tuple[Headers, bytes]]
"""Returns the headers and the body of the server's own response for a status and a sentence."""


class EdgeError(Exception):
    """Base class of all errors of the edge."""


class RequestRefused(EdgeError):
    """The client's data is not a valid request for this server.

    The response has `status`, `sentence` and extra headers.
    """

    def __init__(self, status: int, sentence: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.headers = headers

    @property
    def connection(self) -> bytes:
        """Return the response's Connection header, which lists Upgrade if the response has one (RFC 9110, 7.8)."""
        return b"upgrade, close" if self.headers else b"close"


class ClientGone(EdgeError, ConnectionError):
    """The client has stopped reading or disconnected. A subclass of OSError, as ASGI 2.4 requires."""


class BodyTooLong(EdgeError):
    """A request's body is longer than its reader accepts."""


class AppMisbehaved(EdgeError):
    """The app sent a message that ASGI or HTTP forbids. The client gets 500, or the connection is aborted."""


class LifespanFailed(EdgeError):
    """The app sent `lifespan.startup.failed` or `lifespan.shutdown.failed`."""
