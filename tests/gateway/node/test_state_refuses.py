"""A Redis that rejects writes: it is full, or a read-only replica. No request is admitted, and the log stays short."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.fakes.node import OpenNode, open_test_node
from tests.servers.redis import RedisServer

BALANCE = "/v1/credits/balance"
REQUESTS = 100
LINES_MAX = 6
"""The maximum number of log lines for `REQUESTS` rejected requests: the rejections, and that the link is down."""
FAULTS = {
    "OOM": ([("CONFIG", "SET", "maxmemory", 1)], [("CONFIG", "SET", "maxmemory", 0)]),
    "READONLY": ([("REPLICAOF", "127.0.0.1", 1)], [("REPLICAOF", "NO", "ONE")]),
}


@contextmanager
def refusing(server: RedisServer, fault: str) -> Iterator[None]:
    begin, end = FAULTS[fault]
    for command in begin:
        server.ask(*command)
    try:
        yield
    finally:
        for command in end:
            server.ask(*command)


async def readiness(node: OpenNode) -> tuple[int, str]:
    answer = await node.client.get(f"{node.admin_url}/readyz")
    return answer.status_code, answer.text


async def until_served(node: OpenNode) -> None:
    while (await node.get(BALANCE)).status != 200 or (await readiness(node))[0] != 200:  # noqa: ASYNC110 - a server sets no event
        await trio.sleep(0.05)


@pytest.mark.parametrize("fault", FAULTS)
async def test_redis_that_rejects_writes_makes_the_node_unready_with_a_short_log(
    fault: str, tmp_path: Path, empty_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Method: requests and grants in turn, so that Redis rejects several kinds of commands."""
    async with open_test_node(tmp_path, state={"url": empty_redis.url}) as node:
        await until_served(node)
        with refusing(empty_redis, fault):
            caplog.clear()
            answers: list[Any] = []
            for _ in range(REQUESTS):
                answers.append(await node.get(BALANCE))
                await node.operate("credits.grant", account=node.account, amount=1)
                await trio.sleep(0.02)
            said = [record.getMessage() for record in caplog.records]
            status, words = await readiness(node)
        assert {answer.status for answer in answers} == {503}
        assert all("retry-after" in answer.headers for answer in answers)
        assert 1 <= len(said) <= LINES_MAX, said
        assert (status, "state down" in words) == (503, True)
        await until_served(node)
