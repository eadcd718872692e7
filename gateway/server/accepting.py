"""Accepts connections from listeners, for both engines."""

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
    """Run `accept` on every listener until `shutdown` is set. Always close the listeners, even after an error.

    The kernel buffers about `unsent_bytes` of data that a client does not read. After the shutdown begins, connections
    that are already in the backlog are still accepted, for at most `BACKLOG_S`. Closing the listener would reset them,
    although their requests may have arrived already.
    """
    try:
        async with trio.open_nursery() as accepting:
            for listener in listeners:
                _bound_kernel(listener, unsent_bytes)
                accepting.start_soon(keep, "accept", partial(accept, listener))
            await shutdown.wait()
            with trio.move_on_after(BACKLOG_S):
                while any(_is_waited_for(listener) for listener in listeners):  # noqa: ASYNC110 - no event announces it
                    await trio.sleep(BACKLOG_S / 100)
            accepting.cancel_scope.cancel()
    finally:
        for listener in listeners:
            listener.socket.close()


async def accept_one(listener: trio.SocketListener) -> trio.SocketStream:
    """Return the listener's next connection, with TCP_NODELAY set.

    Retry if the system has no descriptors or memory left.
    """
    is_logged = False
    while True:
        try:
            return await listener.accept()
        except OSError as exc:
            if not is_logged:
                _logger.warning("Cannot accept connections at the moment: %s", exc)
            is_logged = True
            await trio.sleep(ACCEPT_RETRY_S)


def _bound_kernel(listener: trio.SocketListener, unsent_bytes: int) -> None:
    """Limit the unsent data that the kernel buffers per connection. Accepted connections inherit the setting.

    The size of the send buffers is not limited, because they also contain data in flight, and a limit would slow down
    fast links with a high latency.
    """
    sock = listener.socket
    if _NOTSENT_LOWAT is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, unsent_bytes)


def _is_waited_for(listener: trio.SocketListener) -> bool:
    poll = select.poll()
    poll.register(listener.socket, select.POLLIN)
    return bool(poll.poll(0))
