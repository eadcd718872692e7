"""Runs the app's lifespan: startup before the server starts, shutdown after it stops (ASGI 3, lifespan)."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from gateway.server.asgi import ASGIApp, LifespanRequest, LifespanScope, SendMessage, State
from gateway.server.errors import AppMisbehaved, LifespanFailed

_logger = logging.getLogger("sluice.server")


class _Lifespan:
    """The lifespan task of an app, and its progress.

    The app receives the startup event immediately, and the shutdown event when the server stops.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._received = 0
        self.state: State = {}
        self.started = trio.Event()
        self.stopping = trio.Event()
        self.stopped = trio.Event()
        self.supported = False
        self.failure: str | None = None

    async def run(self) -> None:
        scope: LifespanScope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        try:
            await self._app(scope, self.receive, self.send)
        except Exception:  # last resort: an app that raises before it has responded is served without lifespan
            if self.supported:
                _logger.exception("The app's lifespan failed; it continues to be served")
            else:
                _logger.info("The app does not support lifespan", exc_info=True)
        finally:
            self.started.set()
            self.stopped.set()

    async def receive(self) -> LifespanRequest:
        self._received += 1
        if self._received == 1:
            await trio.lowlevel.checkpoint()
            return {"type": "lifespan.startup"}
        if self._received == 2:
            await self.stopping.wait()
            return {"type": "lifespan.shutdown"}
        return await trio.sleep_forever()

    async def send(self, message: SendMessage) -> None:
        await trio.lowlevel.checkpoint()
        self.supported = True
        if message["type"] == "lifespan.startup.complete":
            self.started.set()
        elif message["type"] == "lifespan.shutdown.complete":
            self.stopped.set()
        elif message["type"] in {"lifespan.startup.failed", "lifespan.shutdown.failed"}:
            self.failure = str(message.get("message", "")) or "The app gave no reason."
            self.started.set()
            self.stopped.set()
        else:
            raise AppMisbehaved(f"The app sent {message['type']} in its lifespan.")


@asynccontextmanager
async def open_lifespan(app: ASGIApp) -> AsyncIterator[State | None]:
    """Start the app, yield its state, and stop the app on exit. The state is None if the app does not support lifespan.

    Raises:
        LifespanFailed: the app reports that it could not start or stop.
    """
    lifespan = _Lifespan(app)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lifespan.run)
        await lifespan.started.wait()
        if lifespan.failure is None:
            yield lifespan.state if lifespan.supported else None
            lifespan.stopping.set()
            await lifespan.stopped.wait()
        nursery.cancel_scope.cancel()
    if lifespan.failure is not None:
        raise LifespanFailed(lifespan.failure)
