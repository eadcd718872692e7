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
from tests.gateway.api.routes.asking import all_settled

PROFILE = "/v1/github/profile?handle=octocat"
ENGINES = ("native", "hypercorn")
FREE = "/v1/credits/balance"
FLOOD = 3 * HELD
"""Concurrent callers: a third of them are in progress at any time, the rest wait for the upstream.

The third must be more than the node always accepts (`FEW`).
"""


def server(engine: str = "native", **more: object) -> dict[str, object]:
    return {"port": 0, "drain_s": 1, "engine": engine, **more}


async def shed_one(node: OpenNode, target: str = FREE, **request: object) -> httpx.Response:
    """Send a request until it is rejected, check that this changed no counter, and return the response.

    Some of the requests may be served, because the node may have room for one between two stalls of its loop.
    """
    sending = {"method": "GET", "headers": {"x-api-key": node.key}, "timeout": 60, **request}
    admission = node.node.admission
    while True:
        before = dict(admission.counts), admission.gate.statistics()
        answer = await node.client.request(url=node.url + target, **sending)  # type: ignore[arg-type] - httpx
        if answer.status_code == 503:
            assert (admission.counts, admission.gate.statistics()) == before
            return answer


async def stall_s() -> float:
    """Return the duration of the longest of several passes of the loop, on the node's clock."""
    passes = []
    for _ in range(6):
        began = trio.current_time()
        await trio.lowlevel.checkpoint()
        passes.append(trio.current_time() - began)
    return max(passes)


async def gauges(node: OpenNode) -> dict[str, float]:
    """Return the values of all metrics at one moment."""
    lines = (await node.client.get(f"{node.admin_url}/metrics")).text.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


@pytest.mark.parametrize("engine", ENGINES)
async def test_overloaded_node_sheds_requests_but_answers_status_events_and_health(tmp_path: Path, engine: str) -> None:
    assert BLOCKED_S > LAG_S
    async with open_test_node(tmp_path, limits=ROOM, server=server(engine), cache={"max_bytes": 0}) as node:
        assert (await node.get(PROFILE)).status == 200
        assert (await node.get("/v1/events")).status == 200
        async with open_overload(node) as answers:
            refused, again = await shed_one(node), await shed_one(node)
            head = await shed_one(node, method="HEAD")
            posted = await shed_one(node, method="POST", content=b"a body")
            assert (await node.get("/v1/status", key=None)).status == 200
            assert (await node.get("/v1/events")).status == 200
            assert (await node.get("/v1/events/consumers")).status == 200
            assert (await node.client.get(f"{node.admin_url}/healthz")).status_code == 200
            # Shedding ends if no request is rejected for half a second, and begins again while the overload lasts.
            while not (found := await gauges(node))["sluice_shedding"]:
                await shed_one(node)
            assert found['sluice_shed_total{key="known"}'] >= 4
            assert found["sluice_shed_limit"] > 0
            assert found["sluice_loop_lag_seconds"] > max(LAG_S, await stall_s() / 4)
        body = refused.json()
        assert body["error"]["type"] == "SERVICE_UNAVAILABLE"
        assert (body["success"], body["credits_used"], body["credits_remaining"]) == (False, 0, None)
        assert body["request_id"] == refused.headers["x-request-id"] != again.headers["x-request-id"]
        assert (refused.headers["retry-after"], refused.headers["content-type"]) == ("1", "application/json")
        assert "x-credits-remaining" not in refused.headers
        assert {"date", "server"} <= set(refused.headers)
        assert (head.content, head.headers["retry-after"]) == (b"", "1")
        assert posted.json()["error"]["type"] == "SERVICE_UNAVAILABLE"
        assert [answer.status for answer in answers] == [200] * HELD, "requests in progress are finished"
        await node.assert_sound()


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


async def test_node_without_shedding_serves_every_request(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits=ROOM, server=server(shed=False)) as node:
        async with open_overload(node, sheds=False) as answers:
            for _ in range(5):
                assert (await node.get(FREE)).status == 200
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
        await all_settled(node)
        await node.assert_sound()
