"""Takes connections from listeners, whichever engine serves them."""

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
    """Run `accept` on every listener until `shutdown`; close the listeners however this ends.

    Of what a client does not read, the kernel takes about `unsent_bytes`.
    Who had connected before is still taken, for `BACKLOG_S` at most: closing a listener resets all that wait in it,
    and their requests may be there already.
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
    """The listener's next connection, TCP_NODELAY set; running out of descriptors or memory ends nothing."""
    told = False
    while True:
        try:
            return await listener.accept()
        except OSError as exc:
            if not told:
                _logger.warning("No connection can be accepted for now: %s", exc)
            told = True
            await trio.sleep(ACCEPT_RETRY_S)


def _bound_kernel(listener: trio.SocketListener, unsent_bytes: int) -> None:
    """Bound what the kernel keeps to send on the listener's connections, which inherit it.

    Not by their send buffers: those also hold what is on its way, and bounding that would slow long fast lines.
    """
    sock = listener.socket
    if _NOTSENT_LOWAT is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, unsent_bytes)


def _is_waited_for(listener: trio.SocketListener) -> bool:
    poll = select.poll()
    poll.register(listener.socket, select.POLLIN)
    return bool(poll.poll(0))
