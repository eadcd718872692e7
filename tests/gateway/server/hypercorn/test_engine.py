"""The TLS port: clients without a handshake, cleartext clients, and a stop while responses are in progress."""

import logging
from contextlib import suppress

import pytest
import trio
import trio.testing

from gateway.server.bounds import Bounds
from tests.gateway.server.apps import PathApp
from tests.gateway.server.hypercorn.h2_client import h2_client, open_tls_served, secured
from tests.gateway.server.raw_client import Client

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("protocol", ["http/1.1", "http/1.0"])
async def test_http_1_1_works_over_tls(protocol: str) -> None:
    async with open_tls_served(PathApp()) as served:
        client = Client(await secured(served, protocol))
        async with client:
            assert (await client.ask(HEAD)).body == b"ok"
            assert b'"scheme": "https"' in (await client.ask(HEAD.replace(b"/ ", b"/scope "))).body


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"])
async def test_unanswered_handshake_times_out(said: bytes) -> None:
    async with open_tls_served(PathApp(), bounds=Bounds(header_s=0.3)) as served, await served.connect() as silent:
        await silent.send(said)
        async with h2_client(served) as client:
            assert (await client.answer("/")).body == b"ok"
        with trio.fail_after(5):
            assert await silent.closed()


async def test_failed_handshakes_free_their_slots() -> None:
    bounds = Bounds(header_s=0.3, connections=2)
    async with (
        open_tls_served(PathApp(), bounds=bounds) as served,
        await served.connect(),
        await served.connect(),
        h2_client(served) as client,
    ):
        assert (await client.answer("/")).body == b"ok"


async def test_cleartext_connection_to_the_tls_port_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async with open_tls_served(PathApp()) as served, h2_client(served) as bystander:
        for said in (HEAD, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes(range(256)) * 100):
            async with await served.connect() as client:
                await client.send(said)
                with trio.fail_after(5), suppress(trio.BrokenResourceError):
                    assert b"HTTP" not in await client.stream.receive_some(
                        1_000
                    )  # a TLS alert, or the end of the stream
        assert (await bystander.answer("/")).body == b"ok"
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_stop_sends_goaway_to_idle_connections() -> None:
    async with open_tls_served(PathApp(), drain_s=6) as served, h2_client(served) as idle:
        assert (await idle.answer("/")).body == b"ok"
        served.shutdown.set()
        with trio.fail_after(4), pytest.raises(EOFError):
            await idle.until(lambda: False)
        assert idle.goodbye == 0


async def test_response_completes_before_the_goaway() -> None:
    app = PathApp()
    async with open_tls_served(app, drain_s=30) as served, h2_client(served) as client:
        parked = await client.ask("/park")
        with trio.fail_after(10):
            await app.parked.wait()
            served.shutdown.set()
            await trio.testing.wait_all_tasks_blocked(0.05)
            app.release.set()
            await client.until(lambda: parked.ended)
            assert parked.status == 200
            with pytest.raises(EOFError):
                await client.until(lambda: False)
        assert client.goodbye == 0


async def test_drain_timeout_aborts_open_requests() -> None:
    async with open_tls_served(PathApp(), drain_s=0.2) as served, h2_client(served) as client:
        parked = await client.ask("/park")
        served.shutdown.set()
        with trio.fail_after(5):
            await served.ended.wait()
        assert not parked.ended
