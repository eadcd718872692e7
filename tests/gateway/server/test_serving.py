"""The native server as a well-behaved client sees it, and its clients as the app sees them."""

import logging

import pytest
import trio

from gateway.server.asgi import Receive, Scope, Send
from gateway.server.bounds import Bounds
from gateway.server.errors import Headers
from gateway.server.wire import HANGUP_POLL_S
from tests.gateway.server.apps import BIG, STREAMED, PathApp, answer
from tests.gateway.server.raw_client import open_served

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /%b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b"


def post(path: bytes, body: bytes) -> bytes:
    return POST % (path, len(body), body)


async def test_connection_is_reused_for_many_requests():
    async with open_served(PathApp()) as served, await served.connect() as client:
        for path, body in [(b"", b"ok"), (b"stream", b"".join(STREAMED)), (b"big", BIG), (b"nowhere", b"missing")]:
            assert (await client.ask(GET % path)).body == body
            assert (await client.ask(post(b"echo", b"abc"))).body == b"abc"


async def test_pipelined_requests_are_answered_in_order():
    requests = GET % b"" + post(b"echo", b"one") + GET % b"nowhere" + post(b"unread", b"x") + GET % b"big"
    chunked = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n"
    async with open_served(PathApp()) as served, await served.connect() as client:
        await client.send(requests + chunked + GET % b"closing" + GET % b"never")
        bodies = [answer.body for answer in await client.answers_until_close()]
        assert bodies == [b"ok", b"one", b"missing", b"not read", BIG, b"two", b"ok"]


async def test_thousand_pipelined_requests_are_answered():
    async with open_served(PathApp()) as served, await served.connect() as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.send, GET % b"" * 1_000)
        for _ in range(1_000):
            assert (await client.answer()).status == 200


async def test_response_has_date_server_and_length():
    async with open_served(PathApp()) as served, await served.connect() as client:
        answer = await client.ask(GET % b"")
        assert answer.header(b"server") == b"sluice"
        assert (answer.header(b"date") or b"").endswith(b" GMT")
        assert answer.header(b"content-length") == b"2"
        assert answer.header(b"x-app") == b"yes"
        assert (await client.ask(GET % b"stream")).header(b"transfer-encoding") == b"chunked"


async def test_apps_own_date_and_server_are_kept():
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, headers=[(b"Date", b"then"), (b"Server", b"mine"), (b"Content-Length", b"2")])

    async with open_served(app) as served, await served.connect() as client:
        response = await client.ask(GET % b"")
        assert (response.header(b"date"), response.header(b"server")) == (b"then", b"mine")
        assert response.header(b"content-length") == b"2"


async def test_head_response_has_a_length_and_no_body():
    head = b"HEAD /%b HTTP/1.1\r\nHost: a\r\n\r\n"
    async with open_served(PathApp()) as served, await served.connect() as client:
        for path, length in [(b"", b"2"), (b"big", b"%d" % len(BIG)), (b"stream", None), (b"nowhere", b"7")]:
            answer = await client.ask(head % path, head=True)
            assert answer.header(b"content-length") == length
            assert answer.header(b"transfer-encoding") is None
        assert (await client.ask(GET % b"")).body == b"ok"


async def test_bodyless_responses_send_no_body():
    async with open_served(PathApp()) as served, await served.connect() as client:
        empty = await client.ask(GET % b"empty")
        assert (empty.status, empty.header(b"content-length")) == (204, None)
        unchanged = await client.ask(GET % b"unchanged")
        assert (unchanged.status, unchanged.header(b"content-length")) == (304, b"40")
        assert (await client.ask(GET % b"")).body == b"ok"


async def test_http_1_0_closes_without_keep_alive():
    async with open_served(PathApp()) as served:
        answers = await served.ask(b"GET / HTTP/1.0\r\n\r\n")
        assert [(answer.body, answer.header(b"connection")) for answer in answers] == [(b"ok", b"close")]
        streamed = await served.ask(b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert streamed[0].body == b"".join(STREAMED)
        assert streamed[0].header(b"transfer-encoding") is None
        async with await served.connect() as client:
            for _ in range(2):
                kept = await client.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                assert kept.header(b"connection") == b"keep-alive"


async def test_connection_close_is_honored_from_either_side():
    async with open_served(PathApp()) as served:
        for request in (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", GET % b"closing"):
            answers = await served.ask(request)
            assert [answer.header(b"connection") for answer in answers] == [b"close"]


async def test_large_body_streams_in_both_directions():
    async with open_served(PathApp()) as served, await served.connect() as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.send, post(b"echo", BIG))
        assert (await client.answer()).body == BIG


async def test_100_continue_is_sent_only_when_the_app_reads_the_body():
    head = b"POST /%b HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n"
    async with open_served(PathApp()) as served:
        async with await served.connect() as client:
            assert (await client.ask(head % b"echo")).status == 100
            assert (await client.ask(b"abc")).body == b"abc"
            assert (await client.ask(GET % b"")).body == b"ok"
        answers = await served.ask(head % b"unread")
        assert [(answer.status, answer.header(b"connection")) for answer in answers] == [(200, b"close")]


async def test_connection_stays_open_after_a_short_unread_body():
    async with open_served(PathApp()) as served, await served.connect() as client:
        for _ in range(2):
            assert (await client.ask(post(b"unread", b"a" * 10_000))).header(b"connection") is None


async def test_connection_closes_after_a_long_unread_body():
    async with open_served(PathApp()) as served, await served.connect() as client:
        await client.send(POST % (b"unread", 10_000_000, b"a" * 1_000))
        answers = await client.answers_until_close()
        assert [(answer.body, answer.header(b"connection")) for answer in answers] == [(b"not read", b"close")]


@pytest.mark.parametrize("size", [30, 20_000])
async def test_disconnect_after_pipelined_bytes_is_harmless(size: int):
    app = PathApp()
    async with open_served(app, bounds=Bounds(pipelined_bytes=1_000)) as served:
        async with await served.connect() as client:
            await client.send(GET % b"park")
            await app.parked.wait()
            await client.send(b"x" * size)
            await trio.sleep(0.05)
        with trio.fail_after(HANGUP_POLL_S * 2):
            await app.left.wait()


async def test_truncated_body_gets_400():
    app = PathApp()
    async with open_served(app) as served, await served.connect() as client:
        await client.send(POST % (b"echo", 10, b"abc"))
        await client.stream.send_eof()
        assert [answer.status for answer in await client.answers_until_close()] == [400]


async def test_receive_returns_disconnect_after_the_response():
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send)
        seen.append((await receive())["type"])

    async with open_served(app) as served, await served.connect() as client:
        assert (await client.ask(GET % b"")).status == 200
        assert (await client.ask(GET % b"")).status == 200
        assert seen[0] == "http.disconnect"


@pytest.mark.parametrize("path", [b"boom", b"silent", b"split", b"too-long"])
async def test_app_failure_before_its_response_returns_500(path: bytes, caplog: pytest.LogCaptureFixture):
    async with open_served(PathApp()) as served:
        answers = await served.ask(GET % path + GET % b"")
        assert [(answer.status, answer.header(b"connection")) for answer in answers] == [(500, b"close")]
        assert [record.name for record in caplog.records if record.levelno >= logging.ERROR] == ["sluice.server"]
        assert (await served.ask(GET % b"closing"))[0].status == 200


async def test_failure_outside_the_app_ends_only_its_connection(caplog: pytest.LogCaptureFixture):
    def fail(status: int, sentence: str) -> tuple[Headers, bytes]:
        raise ZeroDivisionError

    async with open_served(PathApp(), answer_of_edge=fail) as served:
        async with await served.connect() as client:
            await client.send(b"GET / HTTP/1.1\r\n\r\n")
            assert await client.closed()
        assert (await served.ask(GET % b"closing"))[0].status == 200
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == ["A connection failed"]


async def test_app_failure_within_its_response_aborts_the_connection():
    async with open_served(PathApp()) as served, await served.connect() as client:
        await client.send(GET % b"boom-late")
        with pytest.raises((trio.BrokenResourceError, EOFError)):
            await client.answer()


async def test_send_to_a_disconnected_client_raises_oserror(caplog: pytest.LogCaptureFixture):
    app = PathApp()
    async with open_served(app) as served:
        async with await served.connect() as client:
            await client.send(GET % b"flood")
            await client.stream.receive_some(1)
        await app.left.wait()
        assert app.seen == ["ClientGone"]
    assert not caplog.records
