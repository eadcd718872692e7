"""Hypercorn's connection with its traps closed: upgrades, sends without a bound, cut endings, failures that spread.

- A malformed upgrade request makes Hypercorn answer twice, which h11 refuses, or stumble over its headers. Here
  upgrades of HTTP/1.1 are ignored, as RFC 9110, 7.8 allows: h2c and websocket requests are answered as plain ones.
- A send is shielded from cancellation without a deadline: one client that reads nothing could hold up a stop forever.
- The app hears of its answer's end before the connection is closed or reused, in the same task: an app that then
  cancels its own tasks, as quart-trio does, cancelled that too, and the connection stayed.
- Bytes behind a request that is answered with `Connection: close` are an error to h11, for which Hypercorn gave up
  the answer.
- What still fails in one connection is logged and ends that connection alone.
"""

import logging

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState

RECYCLE_S = 5.0
_logger = logging.getLogger("sluice.server")


class _UntilClose(h11.Connection):
    """Overlooks what comes behind a connection's last request."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """The next event; none behind the last request."""
        return h11.NEED_DATA if self.their_state is h11.MUST_CLOSE else super().next_event()


class PlainH11Protocol(H11Protocol):
    """HTTP/1.1 that never becomes anything else."""

    async def initiate(self) -> None:
        """Begin to read."""
        limit = self.config.h11_max_incomplete_size
        self.connection = _UntilClose(h11.SERVER, max_incomplete_event_size=limit)

    async def _check_protocol(self, event: h11.Request) -> None:
        """Hypercorn's place for upgrades to HTTP/2: there are none."""

    async def _create_stream(self, request: h11.Request) -> None:
        kept = [(name, value) for name, value in request.headers if name != b"upgrade"]
        plain = h11.Request(
            method=request.method, headers=kept, target=request.target, http_version=request.http_version
        )
        await super()._create_stream(plain)

    async def _maybe_recycle(self) -> None:
        """Close or reuse the connection, though the app stops itself when it hears of its answer's end."""
        with trio.move_on_after(RECYCLE_S, shield=True):
            await super()._maybe_recycle()


class GuardedConnection(TCPServer):
    """One client's connection; a send may take `write_s`."""

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        *,
        state: ConnectionState,
        stream: trio.abc.Stream,
        write_s: float,
    ) -> None:
        super().__init__(app, config, context, state, stream)  # type: ignore[arg-type]  # plain ones work too
        self._write_s = write_s

    async def run(self) -> None:
        """Serve the client; whatever goes wrong ends here."""
        try:
            await super().run()
        except Exception:  # a last-resort handler: one connection's failure must not end the server
            _logger.exception("A connection failed")
        finally:
            await trio.aclose_forcefully(self.stream)  # a cancelled Hypercorn stops before this

    async def _read_data(self) -> None:
        wrapper = self.protocol
        if isinstance(wrapper.protocol, H11Protocol):
            wrapper.protocol = PlainH11Protocol(
                wrapper.app,
                wrapper.config,
                wrapper.context,
                wrapper.task_group,
                wrapper.state,
                wrapper.ssl,
                wrapper.client,
                wrapper.server,
                wrapper.send,
            )
            await wrapper.protocol.initiate()
        await super()._read_data()

    async def protocol_send(self, event: Event) -> None:
        """Carry out what the protocol asks; a client that does not read is given up after a while."""
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        async with self.send_lock:
            try:
                with trio.CancelScope(deadline=trio.current_time() + self._write_s, shield=True) as patience:
                    await self.stream.send_all(event.data)
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):  # busy: it is closing
                await self.protocol.handle(Closed())
            if patience.cancelled_caught:
                await trio.aclose_forcefully(self.stream)
                await self.protocol.handle(Closed())
