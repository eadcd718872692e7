"""A whole node under more load than it can handle, over sockets: what it rejects, how, and what it still serves."""

from __future__ import annotations

import itertools
from pathlib import Path

import httpx
import pytest
import trio

from bench.load.request_spec import whole_head
from gateway.api.overload import LAG_S
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.overloading import BLOCKED_S, HELD, ROOM, open_overload, open_slow_loop

PROFILE = "/v1/github/profile?handle=octocat"
ENGINES = ("native", "hypercorn")
FLOOD = 5 * HELD
"""Concurrent callers: a third of them are in progress at any time, the rest wait for the upstream.

The third must be more than a few requests.
"""


def server(engine: str = "native", **more: object) -> dict[str, object]:
    return {"port": 0, "drain_s": 1, "engine": engine, **more}


async def shed_one(node: OpenNode, target: str = PROFILE, **request: object) -> httpx.Response:
    """Send requests until one is rejected, then send this request and return its response.

    The first requests are served while the key is below its share.
    """
    while True:
        answer = await node.client.request("GET", node.url + target, headers={"x-api-key": node.key}, timeout=60)
        if answer.status_code == 503:
            break
    sending = {"method": "GET", "headers": {"x-api-key": node.key}, "timeout": 60, **request}
    return await node.client.request(url=node.url + target, **sending)  # type: ignore[arg-type] - httpx


@pytest.mark.parametrize("engine", ENGINES)
async def test_shed_request_gets_an_envelope_and_changes_no_counter(tmp_path: Path, engine: str) -> None:
    assert BLOCKED_S > LAG_S
    async with open_test_node(tmp_path, limits=ROOM, server=server(engine), cache={"max_bytes": 0}) as node:
        assert (await node.get(PROFILE)).status == 200
        async with open_overload(node) as answers:
            admitted, before = dict(node.node.admission.counts), node.node.admission.gate.statistics()
            refused = await shed_one(node)
            again = await shed_one(node)
            head = await shed_one(node, method="HEAD")
            posted = await shed_one(node, method="POST", content=b"a body")
            assert dict(node.node.admission.counts) == admitted
            assert node.node.admission.gate.statistics() == before
        body = refused.json()
        assert (refused.status_code, body["error"]["type"]) == (503, "SERVICE_UNAVAILABLE")
        assert (body["success"], body["credits_used"], body["credits_remaining"]) == (False, 0, None)
        assert body["request_id"] == refused.headers["x-request-id"] != again.headers["x-request-id"]
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["content-type"] == "application/json"
        assert "x-credits-remaining" not in refused.headers
        assert {"date", "server"} <= set(refused.headers)
        assert (head.status_code, head.content, head.headers["retry-after"]) == (503, b"", "1")
        assert (posted.status_code, posted.json()["error"]["type"]) == (503, "SERVICE_UNAVAILABLE")
        assert [answer.status for answer in answers] == [200] * HELD, "requests in progress are finished"
        await node.assert_sound()


@pytest.mark.parametrize("engine", ENGINES)
async def test_status_events_health_and_metrics_answer_during_overload(tmp_path: Path, engine: str) -> None:
    async with open_test_node(tmp_path, limits=ROOM, server=server(engine)) as node:
        assert (await node.get("/v1/events")).status == 200
        async with open_overload(node):
            assert (await shed_one(node, "/v1/credits/balance")).status_code == 503
            assert (await node.get("/v1/status", key=None)).status == 200
            assert (await node.get("/v1/events")).status == 200
            assert (await node.get("/v1/events/consumers")).status == 200
            assert (await node.client.get(f"{node.admin_url}/healthz")).status_code == 200
            assert await node.gauge("sluice_shedding") == 1
            assert await node.gauge('sluice_shed_total{key="known"}') >= 2
            assert await node.gauge("sluice_loop_lag_seconds") > LAG_S
            assert await node.gauge("sluice_shed_limit") > 0


async def test_overload_ends_automatically_with_two_log_lines(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits=ROOM) as node:
        async with open_overload(node):
            for _ in range(3):
                await shed_one(node)
            while not node.log_events("overload_began"):  # noqa: ASYNC110 - the node sets no event
                await trio.sleep(0.001)
        while node.node.overload.active:  # noqa: ASYNC110 - the node sets no event
            await trio.sleep(0.001)
        assert (await node.get(PROFILE)).status == 200
        assert await node.gauge("sluice_shed_limit") == 0
        assert len(node.log_events("overload_began")) == len(node.log_events("overload_ended")) == 1
        assert node.log_events("overload_ended")[0]["refused"] >= 3
        refusals = [event for event in node.log_events("request") if event["code"] == "SERVICE_UNAVAILABLE"]
        assert refusals == [], "shed requests write no log lines"


@pytest.mark.parametrize("engine", ENGINES)
async def test_node_without_shedding_serves_every_request(tmp_path: Path, engine: str) -> None:
    async with open_test_node(tmp_path, limits=ROOM, server=server(engine, shed=False)) as node:
        async with open_overload(node, sheds=False) as answers:
            for _ in range(5):
                assert (await node.get("/v1/credits/balance")).status == 200
            assert await node.gauge("sluice_shedding") == 0
        assert [answer.status for answer in answers] == [200] * HELD


async def test_quiet_key_is_served_during_another_keys_flood(tmp_path: Path) -> None:
    """Method: callers that repeat requests immediately share one key, on a slow loop; another key sends a few requests.

    The other key starts after each caller was rejected once, because at the start more requests may be in progress than
    the node has room for.
    """
    flood, refused, quiet_ones = list[str](), set[int](), list[int]()

    async def hammer(node: OpenNode, number: int) -> None:
        host, port = node.url.removeprefix("http://").split(":")
        async with await trio.open_tcp_stream(host, int(port)) as line:
            for n in itertools.count():
                target = f"/v1/github/profile?handle=flood{number}x{n}"
                asked = f"GET {target} HTTP/1.1\r\nhost: {host}\r\nx-api-key: {node.key}\r\n\r\n"
                await line.send_all(asked.encode())
                received = b""
                while (head := whole_head(received)) is None:
                    received += await line.receive_some()
                flood.append(head[9:12].decode())
                if flood[-1] == "503":
                    refused.add(number)

    async with open_test_node(tmp_path, limits=ROOM) as node:
        quiet = (await node.new_key(await node.new_account()))[0]
        assert (await node.get(PROFILE, key=quiet)).status == 200
        assert (await node.get(PROFILE)).status == 200
        async with trio.open_nursery() as nursery, open_slow_loop():
            for number in range(FLOOD):
                nursery.start_soon(hammer, node, number)
            while len(refused) < FLOOD:  # noqa: ASYNC110 - the node sets no event
                await trio.sleep(0.001)
            flood.clear()
            for n in range(5):
                quiet_ones.append((await node.get(f"/v1/github/profile?handle=q{n}", key=quiet)).status)
            nursery.cancel_scope.cancel()
        assert quiet_ones == [200] * 5
        assert set(flood) == {"200", "503"}, "the flooding key is served in part and rejected otherwise"
        with trio.fail_after(60):  # calls end after their clients have left
            while (await node.money())[1]:  # noqa: ASYNC110 - the node sets no event
                await trio.sleep(0.01)
        await node.assert_sound()
