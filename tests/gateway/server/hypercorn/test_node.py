"""A whole node with TLS: billed calls, long-polls and WebSockets work as on the cleartext port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import orjson
import trio
from trio_websocket import wrap_client_stream

from tests.fakes.certified import Certified, certified
from tests.fakes.node import OpenNode, open_test_node
from tests.gateway.server.hypercorn.h2_client import H2Client

PROFILE = "/v1/github/profile?handle=octocat"
POLL = "/v1/events?cursor=now&wait_s=20"


@asynccontextmanager
async def open_tls_node(folder: Path, **tables: object) -> AsyncIterator[tuple[OpenNode, httpx.AsyncClient, Certified]]:
    """A node with a certificate, and an HTTP/2 client with its key."""
    files = certified(folder / "tls")
    server = {"port": 0, "drain_s": 1, **files.settings}
    async with open_test_node(folder, server=server, **tables) as node:
        headers = {"x-api-key": node.key}
        async with httpx.AsyncClient(http2=True, verify=files.trusting(), headers=headers, timeout=60) as client:
            yield node, client, files


async def happen(node: OpenNode) -> None:
    """Revoke a key, which writes an event."""
    _, key_id = await node.new_key(node.account)
    await node.operate("key.revoke", key=key_id)


async def test_concurrent_calls_on_one_connection_are_each_billed_once(tmp_path: Path) -> None:
    answers: list[httpx.Response] = []

    async with open_tls_node(tmp_path) as (node, client, _):

        async def call(number: int) -> None:
            answers.append(await client.get(f"{node.url}/v1/github/profile?handle=user{number}"))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(call, number)
        assert {(answer.http_version, answer.status_code) for answer in answers} == {("HTTP/2", 200)}
        ids = {answer.json()["request_id"] for answer in answers}
        assert len(ids) == 20
        assert [await node.net(request_id) for request_id in ids] == [1] * 20
        await node.assert_sound()


async def test_long_poll_waits_for_an_event_while_other_calls_run(tmp_path: Path) -> None:
    polled: list[httpx.Response] = []

    async with open_tls_node(tmp_path) as (node, client, _):

        async def poll() -> None:
            polled.append(await client.get(node.url + POLL))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(poll)
            while await node.gauge("sluice_events_waiting") < 1:  # noqa: ASYNC110 - a metric sets no event
                await trio.sleep(0.01)
            assert (await client.get(node.url + PROFILE)).json()["credits_used"] == 1
            assert not polled
            await happen(node)
        (answer,) = polled
        assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)
        assert answer.json()["data"]["items"]


async def secured(node: OpenNode, files: Certified, protocol: str) -> trio.SSLStream:
    """Return a connection to the node."""
    parts = urlsplit(node.url)
    plain = await trio.open_tcp_stream(parts.hostname, parts.port)
    return trio.SSLStream(plain, files.trusting(protocol), server_hostname="127.0.0.1", https_compatible=True)


async def test_disconnected_long_poll_frees_its_slot(tmp_path: Path) -> None:
    """Method: the stream is reset, and its connection stays open."""
    async with open_tls_node(tmp_path) as (node, _, files), await secured(node, files, "h2") as stream:
        client = H2Client(stream)
        client.h2.initiate_connection()
        poll = await client.ask(POLL, key=node.key)
        while not await node.gauge("sluice_events_waiting"):  # noqa: ASYNC110 - a metric sets no event
            await trio.sleep(0.01)
        client.h2.reset_stream(client.number_of(poll))
        await client.flush()
        with trio.fail_after(10):
            while await node.gauge("sluice_events_waiting"):  # noqa: ASYNC110 - a metric sets no event
                await trio.sleep(0.01)
        assert (await client.answer(PROFILE, key=node.key)).status == 200
        await node.assert_sound()


async def test_websocket_works_over_tls(tmp_path: Path) -> None:
    async with open_tls_node(tmp_path) as (node, _, files):
        await happen(node)
        async with await secured(node, files, "http/1.1") as stream, trio.open_nursery() as nursery:
            headers = [("x-api-key", node.key)]
            socket = await wrap_client_stream(nursery, stream, "127.0.0.1", "/v1/events/ws", extra_headers=headers)
            with trio.fail_after(10):
                assert orjson.loads(await socket.get_message())["type"] == "events"
            await socket.aclose()
