"""One connection to an upstream: it sends the bytes of a call and receives the answer, one exchange at a time."""

import ssl

import httpx
import trio

from upstreams.transport.answer_parser import AnswerParser
from upstreams.transport.http import HttpAnswer
from upstreams.transport.origin import Origin
from upstreams.transport.phases import PhaseDeadline
from upstreams.transport.proxy import Proxy
from upstreams.transport.wire import UpstreamWire, open_wire


class UpstreamConnection:
    """A connection for consecutive exchanges. It is mutable and owned by the task that took it from the pool."""

    __slots__ = ("_expired", "_parser", "_wire", "answered", "is_quiet", "rested_at", "reusable", "spoke")

    def __init__(self, wire: UpstreamWire, parser: AnswerParser) -> None:
        self._wire = wire
        self._parser = parser
        self.is_quiet = wire.is_quiet
        self._expired = False
        self.spoke = False
        """Whether bytes of the latest call were sent."""
        self.answered = False
        """Whether bytes of the latest answer were received."""
        self.reusable = False
        """Whether the latest exchange ended cleanly and in time, and the peer keeps the connection open."""
        self.rested_at = 0.0

    async def exchange(self, method: str, request: bytes, *, phases: PhaseDeadline | None) -> HttpAnswer:
        """Send `request` and return its answer. Afterwards, `reusable` is set if another exchange may follow.

        Raises:
            httpx.WriteError, httpx.ReadError: The connection broke.
            httpx.WriteTimeout, httpx.ReadTimeout: The deadline passed.
            httpx.RemoteProtocolError, httpx.DecodingError, ResponseTooLarge: The answer cannot be used.
            LongBody: The answer must still be decoded.
        """
        parser, wire = self._parser, self._wire
        parser.begin(method)
        self.spoke = self.answered = self.reusable = False
        try:
            while request:
                if phases is not None:
                    phases.enter("write")
                if self._expired:
                    raise httpx.WriteTimeout("the request could not be sent in time")
                if sent_bytes := wire.send_nowait(request):
                    self.spoke = True
                    request = request[sent_bytes:]
                else:
                    await wire.wait_to_send()
            while not parser.complete:
                if phases is not None:
                    phases.enter("read")
                if self._expired:
                    raise httpx.ReadTimeout("the response did not arrive in time")
                if data := await wire.receive_some():
                    self.answered = True
                    parser.feed(data)
                else:
                    parser.end()
        except (trio.ClosedResourceError, OSError) as exc:
            raise _failure_of(exc, is_sent=not request) from exc
        self.reusable = parser.reusable and not self._expired  # its deadline may have passed at the last moment
        return parser.answer()

    def expire(self) -> None:
        """Wake an exchange whose deadline has passed. The connection cannot be used afterwards."""
        self._expired = True
        self._wire.wake()

    def close(self) -> None:
        """Close immediately."""
        self._wire.close()


def _failure_of(exc: Exception, *, is_sent: bool) -> httpx.TransportError:
    """Return the failure for a connection that broke, or that was woken because its deadline has passed."""
    if isinstance(exc, trio.ClosedResourceError):
        if is_sent:
            return httpx.ReadTimeout("the response did not arrive in time")
        return httpx.WriteTimeout("the request could not be sent in time")
    return httpx.ReadError(f"cannot receive: {exc}") if is_sent else httpx.WriteError(f"cannot send: {exc}")


async def open_connection(
    origin: Origin, tls: ssl.SSLContext | None, parser: AnswerParser, proxy: Proxy | None = None
) -> UpstreamConnection:
    """Connect to `origin`, under TLS if a context is given, and through the proxy if there is one.

    Raises:
        httpx.ConnectError: The connection cannot be established.
        httpx.ProxyError: The proxy failed.
    """
    return UpstreamConnection(await open_wire(origin, tls, proxy), parser)
