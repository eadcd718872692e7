"""One connection to an upstream: a call's bytes out, its answer in, one exchange at a time."""

import ssl

import httpx
import trio

from upstreams.transport.answer_parser import AnswerParser
from upstreams.transport.http import HttpAnswer, Origin
from upstreams.transport.phases import PhaseDeadline
from upstreams.transport.wire import Wire, open_wire


class Connection:
    """A connection that carries one exchange after the other. Mutable, owned by whoever took it from the pool."""

    __slots__ = ("_expired", "_parser", "_wire", "heard", "rested_at", "spoke")

    def __init__(self, wire: Wire, parser: AnswerParser) -> None:
        self._wire = wire
        self._parser = parser
        self._expired = False
        self.spoke = False
        """Bytes of the latest call were sent."""
        self.heard = False
        """Bytes of the latest answer were received."""
        self.rested_at = 0.0

    async def exchange(self, method: str, request: bytes, *, phases: PhaseDeadline | None) -> HttpAnswer:
        """Send `request` and give its answer. Afterwards `reusable` tells whether another exchange may follow.

        Raises:
            httpx.WriteError, httpx.ReadError: the connection broke.
            httpx.WriteTimeout, httpx.ReadTimeout: its deadline passed.
            httpx.RemoteProtocolError, httpx.DecodingError, ResponseTooLarge: the answer is not usable.
        """
        self._parser.begin(method)
        self.spoke = self.heard = False
        await self._send(request, phases)
        await self._receive(phases)
        return self._parser.answer()

    def expire(self) -> None:
        """The exchange's time is up: end its wait. The connection is of no further use."""
        self._expired = True
        self._wire.wake()

    @property
    def reusable(self) -> bool:
        """The latest exchange ended cleanly and in time, and the peer keeps the connection open."""
        return self._parser.reusable and not self._expired  # it may have expired in the moment the answer came

    def is_quiet(self) -> bool:
        """The peer neither closed the connection nor sent anything that nobody asked for."""
        return self._wire.is_quiet()

    def close(self) -> None:
        """Close at once."""
        self._wire.close()
        self._parser.close()

    async def _send(self, request: bytes, phases: PhaseDeadline | None) -> None:
        try:
            while request:
                if phases is not None:
                    phases.enter("write")
                if self._expired:
                    raise httpx.WriteTimeout("the request could not be sent in time")
                sent_bytes = await self._wire.send_some(request)
                self.spoke = True
                request = request[sent_bytes:]
        except trio.ClosedResourceError as exc:
            raise httpx.WriteTimeout("the request could not be sent in time") from exc
        except OSError as exc:
            raise httpx.WriteError(f"cannot send: {exc}") from exc

    async def _receive(self, phases: PhaseDeadline | None) -> None:
        parser = self._parser
        try:
            while not parser.complete:
                if phases is not None:
                    phases.enter("read")
                if self._expired:
                    raise httpx.ReadTimeout("the answer did not come in time")
                if data := await self._wire.receive_some():
                    self.heard = True
                    parser.feed(data)
                else:
                    parser.end()
        except trio.ClosedResourceError as exc:
            raise httpx.ReadTimeout("the answer did not come in time") from exc
        except OSError as exc:
            raise httpx.ReadError(f"cannot receive: {exc}") from exc


async def open_connection(origin: Origin, tls: ssl.SSLContext | None, parser: AnswerParser) -> Connection:
    """Connect to `origin`, under TLS when a context is given.

    Raises:
        httpx.ConnectError: there is no way to it.
    """
    return Connection(await open_wire(origin, tls), parser)
