"""Requests as bytes and the one correct response. Where RFC 9112 leaves a choice, it is the stricter one."""

import pytest
import trio

from tests.gateway.server.apps import PathApp
from tests.gateway.server.conformance import corners, framing, heads, targets
from tests.gateway.server.conformance.case import HOST, PROBE, Case
from tests.gateway.server.raw_client import open_served, responses, statuses

CASES = framing.CASES | heads.CASES | targets.CASES | corners.CASES


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_request_case_has_its_expected_response(case: Case):
    """A rejection also names its reason and closes the connection."""
    app = PathApp()
    async with open_served(app) as served, await served.connect() as client:
        await client.send(case.sent + PROBE)
        answers = await responses(client)
        assert tuple(answer.status for answer in answers) == case.statuses
        assert "GET /smuggled" not in app.asked
        assert ("GET /next" in app.asked) == (case.statuses[-1] == 404)
        if case.statuses[-1] not in (200, 404):
            assert answers[-1].header(b"connection") == b"close"
            assert answers[-1].body.startswith(b"edge %d: " % case.statuses[-1])


def stable_statuses(answers: tuple[int, ...]) -> list[int]:
    """Return the statuses that must not depend on packets: a 501 for a method may become a 400 for its first bytes."""
    return [400 if status == 501 else status for status in answers if status != 100]


async def test_request_case_has_the_same_response_byte_by_byte():
    """Goal: no response depends on how its request arrives. Method: all short cases concurrently, one byte per packet.

    Bodies that the app leaves unread are left out, because there the response depends on it: the connection ends unless
    the body has arrived.
    """

    async def drip(case: Case) -> None:
        async with await served.connect() as client:
            async with trio.open_nursery() as sending:
                sending.start_soon(send, client.stream, case.sent + PROBE)
                dripped = await statuses(client)
                sending.cancel_scope.cancel()
            assert stable_statuses(dripped) == stable_statuses(case.statuses), case

    async def send(stream: trio.SocketStream, data: bytes) -> None:
        try:
            for at in range(len(data)):
                await stream.send_all(data[at : at + 1])
                await trio.lowlevel.checkpoint()
        except trio.BrokenResourceError:
            pass  # rejected before the end

    async with open_served(PathApp()) as served, trio.open_nursery() as nursery:
        for case in [case for name, case in CASES.items() if name not in corners.UNASKED]:
            if len(case.sent) < 1_000:
                nursery.start_soon(drip, case)


async def test_upgrade_request_with_a_body_is_a_plain_request():
    async with open_served(PathApp()) as served, await served.connect() as client:
        upgrade = HOST + b"Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc"
        assert (await client.ask(b"POST /echo HTTP/1.1\r\n" + upgrade)).body == b"abc"
        assert (await client.ask(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")).status == 200


async def test_options_accepts_the_asterisk_target():
    async with open_served(app := PathApp()) as served, await served.connect() as client:
        await client.ask(b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n")
        assert app.asked == ["OPTIONS *"]


async def test_first_trailer_may_be_as_long_as_later_ones():
    head = b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: "
    async with open_served(PathApp()) as served, await served.connect() as client:
        assert (await client.ask(head + b"a" * 4_000 + b"\r\n\r\n")).status == 200


async def test_disconnect_at_any_byte_of_a_request_is_harmless():
    request = b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"
    async with open_served(PathApp()) as served:
        for end in range(len(request)):
            async with await served.connect() as client:
                await client.send(request[:end])
                if end % 2:
                    await client.stream.send_eof()
                    with trio.fail_after(2):
                        await client.answers_until_close()
        async with await served.connect() as client:
            assert (await client.ask(request)).body == b"abc"


async def test_half_closed_client_gets_all_its_responses():
    async with open_served(app := PathApp()) as served, await served.connect() as client:
        await client.send((b"GET / HTTP/1.1\r\n" + HOST + b"\r\n") * 3)
        await client.stream.send_eof()
        assert await statuses(client) == (200, 200, 200)
        assert app.asked == ["GET /"] * 3
