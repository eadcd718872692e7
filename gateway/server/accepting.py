"""Takes connections from listeners, whichever engine serves them."""

import logging
from collections.abc import Awaitable, Callable, Sequence

import trio

ACCEPT_RETRY_S = 0.1
_logger = logging.getLogger("sluice.server")


async def accept_until(
    shutdown: trio.Event,
    listeners: Sequence[trio.SocketListener],
    accept: Callable[[trio.SocketListener], Awaitable[None]],
) -> None:
    """Run `accept` on every listener until `shutdown`; close the listeners however this ends."""
    try:
        async with trio.open_nursery() as accepting:
            for listener in listeners:
                accepting.start_soon(accept, listener)
            await shutdown.wait()
            accepting.cancel_scope.cancel()
    finally:
        for listener in listeners:
            listener.socket.close()


async def accept_one(listener: trio.SocketListener) -> trio.SocketStream:
    """The listener's next connection, TCP_NODELAY set; running out of descriptors or memory ends nothing."""
    while True:
        try:
            return await listener.accept()
        except OSError as exc:
            _logger.warning("A connection could not be accepted: %s", exc)
            await trio.sleep(ACCEPT_RETRY_S)
