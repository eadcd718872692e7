"""A whole node with its state in a real Redis, over sockets: admission, outages of Redis, reload, and metrics."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from limits.shared_gate import SharedGate
from tests.fakes.calling import Answered
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.node import OpenNode, open_test_node
from tests.gateway.calls.test_execute import PROFILE, ask_in_this_task, assert_nothing_runs
from tests.servers.redis import RedisServer
from tests.servers.waiting import until
from tests.spec.refusals import assert_free, assert_refused

FREE = "/v1/utility/endpoints"
ROOMY = {"requests_per_minute": 100_000, "concurrent_requests": 10}


@pytest.fixture
async def node(empty_redis: RedisServer, tmp_path: Path) -> AsyncIterator[OpenNode]:
    async with open_test_node(tmp_path, state={"url": empty_redis.url}, limits=ROOMY) as opened:
        await up(opened)
        yield opened


async def up(node: OpenNode) -> None:
    """Wait until the link to Redis is up. On a busy machine it may time out, but it reconnects within a second."""
    await until(
        lambda: isinstance(node.node.admission.gate, SharedGate) and node.node.admission.gate._state.fault is None
    )


async def readiness(node: OpenNode) -> tuple[int, str]:
    answer = await node.client.get(f"{node.admin_url}/readyz")
    return answer.status_code, answer.text


def assert_away(answer: Answered) -> None:
    assert assert_refused(answer, "SERVICE_UNAVAILABLE", 503) == {}
    assert answer.headers["retry-after"] == "1"
    assert (answer.json["credits_used"], answer.json["credits_remaining"]) == (0, None)
    assert answer.headers["x-credits-used"] == "0"
    assert not {"x-credits-remaining", "x-ratelimit-limit"} & answer.headers.keys()


async def test_request_is_counted_in_redis_and_its_lease_released(node: OpenNode, empty_redis: RedisServer) -> None:
    answer = await node.get(PROFILE)
    assert (answer.status, answer.json["credits_used"]) == (200, 1)
    assert answer.headers["x-ratelimit-limit"] == "100000"
    assert answer.headers["x-ratelimit-remaining"] == "99999"
    assert answer.headers["ratelimit-policy"] == '"key";q=100000;w=60'
    place = f"sluice:{{{node.account}}}:%s:{node.key_id}"
    assert empty_redis.ask("LLEN", place % "window") == 1
    await until(lambda: empty_redis.ask("ZCARD", place % "leases") == 0)
    hit = await node.get(PROFILE)
    assert (hit.json["cached"], hit.json["credits_remaining"]) == (True, answer.json["credits_remaining"])
    await node.assert_sound()


async def test_window_and_lease_rejections_match_a_single_node(empty_redis: RedisServer, tmp_path: Path) -> None:
    limits = {"requests_per_minute": 2, "concurrent_requests": 1}
    async with open_test_node(tmp_path, state={"url": empty_redis.url}, limits=limits) as node:
        await up(node)
        held = await node.node.admission.gate.admit(node.account, node.key_id)
        reached = await node.get(FREE)
        assert_refused(reached, "CONCURRENCY_LIMIT", 429)
        assert (reached.headers["retry-after"], reached.headers["x-concurrency-limit"]) == ("1", "1")
        assert "x-ratelimit-limit" not in reached.headers
        held.lease.release()
        assert (await node.get(FREE)).status == 200
        full = await node.get(FREE)
        assert_refused(full, "RATE_LIMITED", 429)
        assert 50 <= int(full.headers["retry-after"]) <= 60
        assert full.headers["x-ratelimit-reset"] == full.headers["retry-after"]
        assert (full.headers["x-ratelimit-limit"], full.headers["x-ratelimit-remaining"]) == ("2", "0")


async def test_requests_are_rejected_unbilled_during_a_redis_outage(node: OpenNode, empty_redis: RedisServer) -> None:
    assert (await node.get(PROFILE)).status == 200
    before, asked = await node.money(), len(node.upstream.requests)
    empty_redis.kill()
    for target in (PROFILE, FREE, "/v1/github/profile?handle=hubot"):
        assert_away(await node.get(target))
    assert (await node.money(), len(node.upstream.requests)) == (before, asked)
    status, reason = await readiness(node)
    assert (status, reason[:12]) == (503, "state down: ")
    assert_refused(await node.get(FREE, key="not a key"), "INVALID_API_KEY", 401)
    assert (await node.get("/v1/status", key=None)).status == 200
    assert await node.gauge("sluice_state_up") == 0
    empty_redis.start()
    await up(node)
    answer = await node.get(PROFILE)
    assert (answer.status, answer.json["cached"], answer.json["credits_remaining"]) == (200, True, before[0])
    assert await readiness(node) == (200, "ready\n")
    await assert_nothing_runs(node)
    await node.assert_sound()


async def test_no_call_is_charged_while_redis_is_frozen(node: OpenNode, empty_redis: RedisServer) -> None:
    assert (await node.get(PROFILE)).status == 200
    empty_redis.freeze()
    try:
        answers = [await node.get(PROFILE) for _ in range(3)]
    finally:
        empty_redis.thaw()
    for answer in answers:
        assert_away(answer)
    await up(node)
    assert (await node.get(FREE)).status == 200
    for answer in answers:
        await assert_free(node, answer)
    await node.assert_sound()


async def test_key_revoked_by_the_operator_is_rejected_immediately(node: OpenNode) -> None:
    key, key_id = await node.new_key(node.account)
    assert (await node.get(FREE, key=key)).status == 200
    await node.operate("key.revoke", key=key_id)
    refused = await node.get(FREE, key=key)
    assert_refused(refused, "INVALID_API_KEY", 401)
    assert refused.json["credits_remaining"] is None
    assert "x-credits-used" not in refused.headers


async def test_reloaded_limits_apply(node: OpenNode, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(re.sub("100000", "3", file.read_text()))
    done = await node.operate("reload")
    assert done == {"applied": ["limits.requests_per_minute"], "needs_restart": []}
    assert [(await node.get(FREE)).status for _ in range(4)] == [200, 200, 200, 429]


async def test_metrics_report_state_and_gate(node: OpenNode) -> None:
    for _ in range(5):
        await node.get(FREE)
    assert await node.gauge("sluice_state_up") == 1
    assert await node.gauge("sluice_state_calls_total") >= 10  # five admissions and five releases of a lease
    assert await node.gauge("sluice_state_round_trips_total") >= 5
    assert await node.gauge("sluice_state_connects_total") >= 1
    assert await node.gauge("sluice_leases") == 0
    text = (await node.client.get(f"{node.admin_url}/metrics")).text
    assert "sluice_window_keys" not in text, "only Redis has the number of windows"


@pytest.mark.parametrize("target", [PROFILE, FREE])
async def test_cancelled_request_is_recorded_completely_or_not_at_all(
    node: OpenNode, empty_redis: RedisServer, target: str
) -> None:
    leases = f"sluice:{{{node.account}}}:leases:{node.key_id}"

    async def check(_got_through: bool) -> None:
        await assert_nothing_runs(node)
        await until(lambda: empty_redis.ask("ZCARD", leases) == 0)
        await node.assert_sound()

    with trio.fail_after(25):
        assert await cancel_everywhere(lambda: ask_in_this_task(node, target), check) >= 1


async def test_node_starts_without_redis_and_serves_later(empty_redis: RedisServer, tmp_path: Path) -> None:
    empty_redis.kill()
    async with open_test_node(tmp_path, state={"url": empty_redis.url}) as node:
        assert_away(await node.get(FREE))
        empty_redis.start()
        await up(node)
        assert (await node.get(FREE)).status == 200
