"""A connection that one task half-closes while another closes it."""

from __future__ import annotations

from typing import Any, cast

import trio
from hypercorn.config import Config

from gateway.server.hypercorn.protocol import GuardedConnection, HalfClosed

ATTEMPTS = 50


async def test_half_close_of_a_stream_that_is_being_closed_is_no_failure() -> None:
    """Trio refuses a second `send_eof` at the same time. Which task comes first is chance, hence the repetitions."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    unused: Any = None
    async with listener:
        for _ in range(ATTEMPTS):
            async with await trio.open_tcp_stream("127.0.0.1", port) as client, await listener.accept() as stream:
                connection = GuardedConnection(
                    unused, Config(), unused, state=unused, stream=stream, reading=unused, upgrades=unused
                )
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(connection.protocol_send, HalfClosed())
                    nursery.start_soon(cast(Any, connection)._close)
                assert await client.receive_some() == b""
