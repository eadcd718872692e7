"""Section 8: the limits of a key, applied exactly, with small numbers in config.toml."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from gateway.admin.operations import OperationRefused
from gateway.config.settings import Config
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.upstream_server import until
from tests.spec.raw import raw_request
from tests.spec.refusals import assert_refused

PROFILE = "/v1/github/profile?handle=octocat"
FREE = "/v1/credits/balance"


def test_defaults_match_the_specification() -> None:
    assert Config().limits.requests_per_minute == 600
    assert Config().limits.concurrent_requests == 50
    assert Config().limits.long_polls == 5
    assert Config().events.retention_days == 30


async def test_window_admits_its_limit_and_rejects_the_next(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits={"requests_per_minute": 60}) as node:
        for number in range(60):
            answer = await node.get(PROFILE if number % 2 else FREE)
            assert answer.status == 200
            assert answer.headers["x-ratelimit-remaining"] == str(59 - number)
            assert 1 <= int(answer.headers["x-ratelimit-reset"]) <= 60
        for _ in range(3):
            assert_refused(await node.get(FREE), "RATE_LIMITED", 429)
        assert await node.money() == (99_999, 0)


async def test_window_admits_600_concurrent_requests_and_rejects_the_601st(tmp_path: Path) -> None:
    """The real limit of 600, from ten concurrent connections."""
    statuses: list[int] = []
    async with open_test_node(tmp_path) as node:

        async def client() -> None:
            statuses.extend([(await node.get(FREE)).status for _ in range(61)])

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(client)
    assert (statuses.count(200), statuses.count(429)) == (600, 10)


async def test_concurrency_admits_50_requests_and_rejects_the_51st(tmp_path: Path) -> None:
    """The real limit of 50."""
    async with open_test_node(tmp_path) as node:
        async with running(node, 50):
            refused = await node.get(FREE)
            assert_refused(refused, "CONCURRENCY_LIMIT", 429)
            assert refused.headers["x-concurrency-limit"] == "50"
        assert (await node.get(FREE)).headers["x-ratelimit-remaining"] == "549"
        assert await node.money() == (100_000 - 50, 0)


async def test_rejected_requests_are_not_counted(tmp_path: Path) -> None:
    """Requests without a valid key, and those over a limit, do not use up any window."""
    limits = {"requests_per_minute": 3, "concurrent_requests": 1}
    async with open_test_node(tmp_path, limits=limits) as node:
        for key in (None, "nonsense", "sl_" + "a" * 43):
            assert (await node.get(PROFILE, key=key)).status == 401
        async with running(node, 1):
            for _ in range(5):
                refused = await node.get(FREE)
                assert_refused(refused, "CONCURRENCY_LIMIT", 429)
                assert "x-ratelimit-remaining" not in refused.headers
        assert (await node.get(FREE)).headers["x-ratelimit-remaining"] == "1"
        assert (await node.get(FREE)).headers["x-ratelimit-remaining"] == "0"
        assert_refused(await node.get(FREE), "RATE_LIMITED", 429)
        other, _ = await node.new_key(node.account)
        assert (await node.get(FREE, key=other)).headers["x-ratelimit-remaining"] == "2"


@asynccontextmanager
async def running(node: OpenNode, count: int) -> AsyncIterator[None]:
    """Run this number of requests of the node's key, all answered when the block ends."""
    asked = len(node.upstream.requests)
    async with trio.open_nursery() as nursery:
        with node.upstream.holding():
            for number in range(count):
                nursery.start_soon(node.get, f"/v1/github/profile?handle=slow{asked + number}")
            await until(lambda: len(node.upstream.requests) == asked + count)
            yield


async def test_leases_match_the_limit_and_are_all_released(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits={"concurrent_requests": 3}) as node:
        for _ in range(2):
            async with running(node, 3):
                answer = await node.get(FREE)
                assert_refused(answer, "CONCURRENCY_LIMIT", 429)
                assert answer.headers["x-concurrency-limit"] == "3"
                assert answer.headers["x-concurrency-remaining"] == "0"
                other, _ = await node.new_key(node.account)
                assert (await node.get(FREE, key=other)).status == 200
                await node.operate("key.revoke", key=(await node.operate("key.list", account=node.account))[-1]["id"])
            assert (await node.get(FREE)).status == 200
        await node.assert_sound()


async def test_rejected_request_releases_its_lease(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits={"concurrent_requests": 1}) as node:
        for target in ("/v1/github/profile?handle=missing", "/v1/github/profile", "/v1/odd/path"):
            for _ in range(3):
                assert (await node.get(target)).status in {400, 404}
            assert (await node.get(FREE)).status == 200


async def test_body_over_1_mb_is_rejected_before_reading(tmp_path: Path) -> None:
    """Method: only the head is sent, so waiting for the body would never end."""
    async with open_test_node(tmp_path) as node:
        key = f"x-api-key: {node.key}"
        for method, target in (("GET", PROFILE), ("GET", FREE)):
            lines = (f"{method} {target} HTTP/1.1", key, "content-length: 1000001")
            assert_refused(await raw_request(node.url, lines), "PAYLOAD_TOO_LARGE", 413)
            assert_refused(await raw_request(node.url, (*lines, "expect: 100-continue")), "PAYLOAD_TOO_LARGE", 413)
        at_the_limit = (f"GET {FREE} HTTP/1.1", key, "content-length: 1000000")
        assert (await raw_request(node.url, at_the_limit)).status == 200, (
            "the node does not wait for a body that it does not read"
        )
        assert await node.money() == (100_000, 0)


async def test_welcome_is_100_credits_and_five_keys(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        account = await node.operate("account.create", name="new")
        assert account["balance"] == 100
        keys = [await node.new_key(account["id"]) for _ in range(5)]
        with pytest.raises(OperationRefused):
            await node.new_key(account["id"])
        await node.operate("key.revoke", key=keys[0][1])
        await node.new_key(account["id"])


async def test_cache_is_shared_by_accounts_and_can_be_disabled(tmp_path: Path) -> None:
    """A cache of zero bytes stores nothing."""
    async with open_test_node(tmp_path) as node:
        stranger = await node.new_account(5)
        key, _ = await node.new_key(stranger)
        assert (await node.get(PROFILE)).json["cached"] is False
        answer = (await node.get(PROFILE, key=key)).json
        assert (answer["cached"], answer["credits_used"], answer["credits_remaining"]) == (True, 0, 5)
    async with open_test_node(tmp_path / "off", cache={"max_bytes": 0}) as node:
        assert [(await node.get(PROFILE)).json["cached"] for _ in range(2)] == [False, False]
