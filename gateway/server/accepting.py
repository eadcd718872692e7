"""Accepting connections from listeners, for both engines."""

import logging
import select
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio

from storage.supervision import Keep

ACCEPT_RETRY_S = 0.1
BACKLOG_S = 0.5
_NOTSENT_LOWAT: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)
_logger = logging.getLogger("sluice.server")


async def accept_until(
    shutdown: trio.Event,
    listeners: Sequence[trio.SocketListener],
    accept: Callable[[trio.SocketListener], Awaitable[None]],
    *,
    unsent_bytes: int,
    keep: Keep,
) -> None:
    """Run `accept` on every listener until `shutdown`, and close the listeners in any case.

    The kernel buffers about `unsent_bytes` of data that a client does not read. Connections that were established
    before the shutdown are still accepted, for at most `BACKLOG_S`: closing a listener resets all connections that wait
    in it, and their requests may have arrived already.
    """
    try:
        async with trio.open_nursery() as accepting:
            for listener in listeners:
                _bound_kernel(listener, unsent_bytes)
                accepting.start_soon(keep, "accept", partial(accept, listener))
            await shutdown.wait()
            with trio.move_on_after(BACKLOG_S):
                while any(_is_waited_for(listener) for listener in listeners):  # noqa: ASYNC110 - no event tells of it
                    await trio.sleep(BACKLOG_S / 100)
            accepting.cancel_scope.cancel()
    finally:
        for listener in listeners:
            listener.socket.close()


async def accept_one(listener: trio.SocketListener) -> trio.SocketStream:
    """Return the listener's next connection with TCP_NODELAY set. A lack of descriptors or memory is not fatal."""
    told = False
    while True:
        try:
            return await listener.accept()
        except OSError as exc:
            if not told:
                _logger.warning("Cannot accept connections at the moment: %s", exc)
            told = True
            await trio.sleep(ACCEPT_RETRY_S)


def _bound_kernel(listener: trio.SocketListener, unsent_bytes: int) -> None:
    """Limit the unsent data in the kernel for the listener's connections, which inherit the setting.

    The send buffers are not limited, because they also hold data in flight, and that would slow down long fast links.
    """
    sock = listener.socket
    if _NOTSENT_LOWAT is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, unsent_bytes)


def _is_waited_for(listener: trio.SocketListener) -> bool:
    poll = select.poll()
    poll.register(listener.socket, select.POLLIN)
    return bool(poll.poll(0))
