"""HTTP/2 clients that read slowly, or stop reading, have the same limits as on the cleartext port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from gateway.server.bounds import Bounds
from gateway.server.unsent import Unsent
from tests.fakes.upstream_server import until
from tests.gateway.server.hypercorn.h2_client import H2Client, h2_client, open_tls_served
from tests.gateway.server.raw_client import Served
from tests.gateway.server.test_slow_readers import OWN_BYTES, PIECE, PIECES, app


@asynccontextmanager
async def opened(bounds: Bounds) -> AsyncIterator[tuple[Served, Unsent]]:
    unsent = Unsent(bounds, owner_headers=(b"x-api-key",))
    async with open_tls_served(app, bounds=bounds, unsent=unsent, patience_s=30) as served:
        yield served, unsent


async def end_of(client: H2Client) -> None:
    """Read until the server closes, without letting it send more."""
    with trio.fail_after(10), suppress(trio.BrokenResourceError):
        while await client.pump():
            pass


async def test_client_that_reads_nothing_loses_all_its_streams() -> None:
    async with opened(Bounds(write_s=0.3)) as (served, unsent), h2_client(served, reads=False) as client:
        streams = [await client.ask("/own") for _ in range(3)]
        await end_of(client)
        assert not any(stream.ended for stream in streams)
        assert unsent.ended["too_slow"] >= 1
        await until(lambda: (unsent.held_bytes, unsent.readers) == (0, 0))


async def test_data_waiting_for_a_window_counts_for_its_key() -> None:
    """Goal: HTTP/2 does not raise a key's limit of unread bytes. Method: two readers of a megabyte each."""
    bounds = Bounds(unsent_key_bytes=int(1.5 * OWN_BYTES))
    async with opened(bounds) as (served, unsent), h2_client(served, reads=False) as first:
        await first.ask("/own", key="greedy")
        await until(lambda: unsent.held_bytes >= OWN_BYTES)
        async with h2_client(served) as other, h2_client(served) as second:
            assert len((await other.answer("/own", key="modest")).body) == OWN_BYTES + 2
            assert len((await second.answer("/own", key="greedy")).body) == OWN_BYTES + 2
        await end_of(first)
        assert unsent.ended == {"too_slow": 0, "key_full": 1, "node_full": 0}


@pytest.mark.parametrize("path", ["/cut", "/pieces"])
async def test_reader_below_the_minimum_rate_is_disconnected(path: str) -> None:
    """Method: the client sometimes gives back a little window, always within the allowed pause."""
    bounds = Bounds(write_s=0.4, answer_bytes_per_s=1_000_000, unsent_kernel_bytes=8_192)
    async with opened(bounds) as (served, unsent), h2_client(served, reads=False) as client:
        stream = await client.ask(path)
        number = client.number_of(stream)
        with trio.fail_after(10), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while not unsent.ended["too_slow"]:
                with trio.move_on_after(0.02):
                    while await client.pump():
                        pass
                client.h2.increment_flow_control_window(1_000)
                client.h2.increment_flow_control_window(1_000, number)
                await client.flush()
        assert not stream.ended
        await until(lambda: not unsent.held_bytes)


async def test_fast_reader_gets_many_concurrent_responses() -> None:
    async with opened(Bounds(write_s=10)) as (served, unsent), h2_client(served) as client:
        streams = [await client.ask("/pieces") for _ in range(20)]
        await client.until(lambda: all(stream.ended for stream in streams))
        assert {stream.body for stream in streams} == {PIECE * PIECES}
        assert not any(unsent.ended.values())
