"""A server that responds immediately, except for one stall at a known point."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio

from tests.bench.scripted_server import OK


class Stall:
    """Starts with the first request after `after` others, and delays every response until it is over."""

    def __init__(self, after: int, stall_s: float) -> None:
        self._left = after
        self._stall_s = stall_s
        self._over_at: float | None = None

    async def pass_through(self) -> None:
        self._left -= 1
        if self._left < 0:
            self._over_at = self._over_at or trio.current_time() + self._stall_s
            await trio.sleep_until(self._over_at)


@asynccontextmanager
async def open_stalling(*, after: int, stall_s: float) -> AsyncIterator[str]:
    """Serve on a free port until the block ends, and yield the address."""
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, partial(_serve, Stall(after, stall_s)), 0, host="127.0.0.1", backlog=1_024)
        listeners = await nursery.start(serve)
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def _serve(stall: Stall, stream: trio.SocketStream) -> None:
    received = b""
    async with stream:
        with suppress(trio.BrokenResourceError):  # the load generator closes its connections at the end
            async for data in stream:
                received += data
                while b"\r\n\r\n" in received:
                    received = received.partition(b"\r\n\r\n")[2]
                    await stall.pass_through()
                    await stream.send_all(OK)
