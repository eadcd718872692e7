"""A thousand clients over sockets meet a half-open circuit: one upstream call is made, and only that one is charged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import trio

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import Upstream, json_answer, open_upstream
from upstreams.transport.http import HttpCall, origin_of
from upstreams.transport.pooled import open_transport

CLIENTS = 1000
PROFILES = [f"/v1/github/profile?handle=user{number}" for number in range(CLIENTS)]
OPEN_S = 1.0
TABLES: dict[str, dict[str, object]] = {
    "limits": {"concurrent_requests": 2 * CLIENTS, "requests_per_minute": 10 * CLIENTS},
    "breaker": {"open_s": OPEN_S},
    "server": {"shed": False},  # a thousand simultaneous requests are more than the node accepts otherwise
}


class HeldUpstream(Upstream):
    """Responds to nothing before `go` is set. The first request sets `asked`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = trio.Event()
        self.go = trio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.asked.set()
            await self.go.wait()
        await super().__call__(scope, receive, send)


async def open_the_circuit(node: OpenNode, upstream: HeldUpstream) -> None:
    """Cause five failures and wait until the circuit is half open.

    Then the upstream works again, but holds its responses.
    """
    upstream.always(json_answer({}, 500))
    upstream.go.set()
    for target in PROFILES[:5]:
        assert (await node.get(target)).status == 502
    refused = await node.get(PROFILES[0])
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    await trio.sleep(OPEN_S)
    upstream.always(None)
    upstream.requests.clear()
    upstream.asked, upstream.go = trio.Event(), trio.Event()


async def test_half_open_circuit_makes_one_call_and_charge_for_a_thousand_clients(tmp_path: Path) -> None:
    upstream = HeldUpstream()
    tables = {**TABLES, "upstreams": {"defaults": {"retries": 0, "max_connections": CLIENTS}}}
    async with (
        open_upstream(upstream) as egress,
        open_test_node(tmp_path, egress=egress, **tables) as node,
        open_transport(max_connections=CLIENTS) as transport,
    ):
        origin, _ = origin_of(node.url)

        async def ask(target: str, into: list[Answered]) -> None:
            call = HttpCall("GET", origin, target, (("x-api-key", node.key),))
            answer = await transport.exchange(call, trio.current_time() + 25)
            into.append(Answered(answer.status, answer.headers, answer.body))

        await open_the_circuit(node, upstream)
        probing: list[Answered] = []
        others: list[Answered] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, PROFILES[0], probing)
            await upstream.asked.wait()
            async with trio.open_nursery() as clients:
                for target in PROFILES[1:]:
                    clients.start_soon(ask, target, others)
            assert probing == []
            assert len(upstream.requests) == 0, "the probe was released too early"
            upstream.go.set()
        assert len(upstream.requests) == 1
        assert [answer.json["credits_used"] for answer in probing] == [1]
        assert Counter(answer.status for answer in others) == {503: CLIENTS - 1}
        for answer in others:
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.code == "SERVICE_UNAVAILABLE"
            assert answer.json["credits_used"] == 0
        assert await node.money() == (100_000 - 1, 0)
        for answer in others[::100]:
            assert await node.net(answer.json["request_id"]) == 0

        passing: list[Answered] = []
        async with trio.open_nursery() as clients:
            for target in PROFILES:
                clients.start_soon(ask, target, passing)
        assert Counter(answer.status for answer in passing) == {200: CLIENTS}
        assert Counter(answer.json["cached"] for answer in passing) == {False: CLIENTS - 1, True: 1}
        assert len(upstream.requests) == CLIENTS
        assert await node.money() == (100_000 - CLIENTS, 0)
        await node.assert_sound()
