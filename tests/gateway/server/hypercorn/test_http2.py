"""HTTP/2 on one connection: no stream ends or delays the others, or keeps an app running after its client left."""

import logging
from contextlib import suppress

import pytest
import trio

from gateway.server.asgi import HTTPScope, Receive, Send
from gateway.server.hypercorn.http2 import APPS_MAX
from tests.gateway.server.apps import PathApp
from tests.gateway.server.hypercorn.h2_client import h2_client, open_tls_served
from tests.gateway.server.raw_client import edge_answer


async def test_body_data_after_its_response_does_not_end_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Goal: pgjones/hypercorn#329 stays fixed. Method: a body in pieces continues after its response."""
    async with open_tls_served(PathApp()) as served, h2_client(served) as client:
        parked = await client.ask("/park")
        early = await client.ask("/unread", method="POST", body=None)
        await client.until(lambda: early.ended)
        assert early.body == b"not read"
        for _ in range(20):  # more than one window, so the window of dropped data must be given back
            await client.until(lambda: client.h2.local_flow_control_window(client.number_of(early)) >= 16_000)
            client.h2.send_data(client.number_of(early), bytes(16_000))
            await client.flush()
            assert (await client.answer("/")).body == b"ok"
        client.h2.end_stream(client.number_of(early))
        assert (await client.answer("/echo", method="POST", body=b"abc")).body == b"abc"
        assert parked.status == 0
        assert not parked.ended
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


class DeafApp(PathApp):
    """Has a path that never calls `receive`, so it does not notice data or a disconnect."""

    def __init__(self) -> None:
        super().__init__()
        self.running = 0

    async def deaf(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        self.running += 1
        await trio.sleep_forever()


async def test_app_that_does_not_read_delays_no_other_stream() -> None:
    app = DeafApp()
    async with open_tls_served(app, drain_s=0.1) as served, h2_client(served) as client:
        deaf = await client.ask("/deaf", method="POST", body=None)
        for _ in range(30):
            client.h2.send_data(client.number_of(deaf), bytes(1_000))
        await client.flush()
        assert (await client.answer("/echo", method="POST", body=b"x" * 20_000)).body == b"x" * 20_000
        client.h2.reset_stream(client.number_of(deaf))
        await client.flush()
        await client.until(lambda: client.h2.outbound_flow_control_window > 40_000)
        assert (await client.answer("/echo", method="POST", body=b"y" * 40_000)).body == b"y" * 40_000


async def test_body_beyond_the_window_arrives_as_the_app_reads() -> None:
    async with open_tls_served(PathApp()) as served, h2_client(served) as client:
        stream = await client.ask("/echo", method="POST", body=None)
        number = client.number_of(stream)
        for _ in range(30):
            await client.until(lambda: client.h2.local_flow_control_window(number) >= 16_000)
            client.h2.send_data(number, b"z" * 16_000)
            await client.flush()
        client.h2.end_stream(number)
        await client.flush()
        await client.until(lambda: stream.ended)
        assert stream.body == b"z" * 30 * 16_000


async def test_client_that_resets_streams_is_disconnected() -> None:
    """Goal: CVE-2023-44487. Method: the apps notice no disconnect, so each reset leaves one running."""
    app = DeafApp()
    async with open_tls_served(app, drain_s=0.1) as served, h2_client(served) as client:
        for _ in range(APPS_MAX + 1):
            stream = await client.ask("/deaf")
            client.h2.reset_stream(client.number_of(stream))
            await client.flush()
        with suppress(EOFError, trio.BrokenResourceError):
            await client.until(lambda: client.goodbye is not None)
        assert client.goodbye == 0xB  # ENHANCE_YOUR_CALM
        assert app.running == APPS_MAX


async def test_pending_send_ends_when_the_client_disconnects() -> None:
    """Method: the client reads only one window of an endless response, and leaves."""
    app = PathApp()
    async with open_tls_served(app) as served:
        async with h2_client(served, reads=False) as client:
            flood = await client.ask("/flood")
            await client.until(lambda: len(flood.body) > 30_000)
        await app.left.wait()
    assert app.seen == ["ClientGone"]


async def test_malformed_request_is_rejected_and_connection_stays(caplog: pytest.LogCaptureFixture) -> None:
    async with open_tls_served(PathApp()) as served, h2_client(served) as client:
        odd = await client.ask("/caf\u00e9")
        await client.until(lambda: odd.reset is not None)
        proxied = client.h2.get_next_available_stream_id()
        client.h2.config.validate_outbound_headers = False
        client.h2.send_headers(proxied, [(":method", "CONNECT"), (":authority", "a:443")], end_stream=True)
        client.streams[proxied] = odd
        await client.flush()
        await client.until(lambda: odd.status == 501)
        client.h2.prioritize(97, weight=5, depends_on=99)
        assert (await client.answer("/")).body == b"ok"
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_failing_app_returns_500_and_connection_stays() -> None:
    async with open_tls_served(PathApp()) as served, h2_client(served) as client:
        failed = await client.answer("/boom")
        assert (failed.status, failed.body) == (500, edge_answer(500, "The server failed on this request.")[1])
        assert (await client.answer("/")).body == b"ok"
