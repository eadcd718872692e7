"""Section 7.2, store unavailable: 503 with `Retry-After: 1`, before billing, with an unknown balance.

Method: another connection to the database holds its write lock longer than the node waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from tests.fakes.calling import Answered
from tests.fakes.node import open_test_node
from tests.fakes.outsider import open_outsider
from tests.fakes.stores import store_at
from tests.spec.refusals import assert_refused

CACHED = "/v1/github/profile?handle=octocat"
BILLED = "/v1/github/profile?handle=hubot"
IDEMPOTENT = {"idempotency-key": "one"}
SERVED = (CACHED, "/v1/utility/endpoints", "/v1/credits/balance", "/v1/github/profile?handle=three&dry_run=1")


@contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Hold the write lock of the node's database."""
    with open_outsider(store_at(folder / "sluice.db")) as other, other.holding_the_lock():
        yield


async def test_locked_database_rejects_only_writes(tmp_path: Path) -> None:
    """A request that must write a claim and a charge waits for the store.

    Requests without writes are served meanwhile.
    """
    async with open_test_node(tmp_path, credits=10) as node:
        assert (await node.get(CACHED)).status == 200
        before, asked = await node.money(), len(node.upstream.requests)
        answers: list[Answered] = []

        async def ask() -> None:
            answers.append(await node.get(BILLED, headers=IDEMPOTENT))

        with write_lock(tmp_path):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                for target in SERVED:
                    assert (await node.get(target)).status == 200
                assert not answers
        assert_away(answers[0])
        assert await node.entries(answers[0].json["request_id"]) == []
        assert (await node.money(), len(node.upstream.requests)) == (before, asked)
        assert (await node.get(BILLED, headers=IDEMPOTENT)).json["credits_remaining"] == 8
        await node.assert_sound()


def assert_away(answer: Answered) -> None:
    assert assert_refused(answer, "SERVICE_UNAVAILABLE", 503) == {}
    assert answer.headers["retry-after"] == "1"
    assert (answer.json["credits_used"], answer.json["credits_remaining"]) == (0, None)
    assert answer.headers["x-credits-used"] == "0"
    assert "x-credits-remaining" not in answer.headers
    assert "x-ratelimit-limit" in answer.headers
