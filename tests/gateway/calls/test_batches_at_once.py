"""Many concurrent batches whose rows succeed, fail or hang: calls are shared, and credits are conserved."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import trio

from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.fakes.upstream_server import until
from tests.gateway.api.routes.asking import all_settled
from tests.gateway.calls.test_batches import NO_RETRIES, STATS, STORY, assert_billed, post, posted

AT_ONCE, KEY_MAX = 200, 50
ROOMY: dict[str, Any] = {"limits": {"requests_per_minute": 100_000}}


async def test_concurrent_batches_share_calls_and_respect_the_limit_per_key(tmp_path: Path) -> None:
    """Goal: 200 batches of the same five rows make five paid calls; 50 batches run, the others are rejected."""
    body = {"urls": [STORY.format(8_863 + place) for place in range(5)] * 2}
    answers: list[int] = []
    paid: list[int] = []

    async with open_test_node(tmp_path, upstreams=NO_RETRIES, **ROOMY) as node:

        async def one() -> None:
            answer = await post(node, STATS, body)
            answers.append(answer.status)
            if answer.status == 200:
                paid.append(answer.json["credits_used"])

        with node.upstream.holding():
            async with trio.open_nursery() as nursery:
                for _ in range(AT_ONCE):
                    nursery.start_soon(one)
                await until(lambda: len(answers) == AT_ONCE - KEY_MAX)
                assert set(answers) == {429}
                assert len(node.upstream.requests) == 5
                node.upstream.hold_no_more()
                node.upstream.release()
        assert answers.count(200) == KEY_MAX
        assert sum(paid) == 5
        await node.assert_sound()


KINDS: dict[str, ScriptedAnswer | None] = {
    "ok": None,
    "gone": json_answer({"error": "x"}, 404),
    "broken": json_answer({"error": "x"}, 500),
    "cut": ScriptedAnswer(200, b"{"),
    "slow": ScriptedAnswer(404, delay_s=0.2),
    "hung": ScriptedAnswer(delay_s=30.0),
}
STATUSES = {
    "ok": {"ok"},
    "gone": {"not_found"},
    "slow": {"not_found", "deferred", "failed"},  # a machine that stalls for a second makes the leg late
    "hung": {"deferred", "failed"},
}


async def test_credits_are_conserved_for_any_row_and_client_outcome(tmp_path: Path) -> None:
    """Goal: actual + refunded = reserved, and a client pays at most for the rows it received.

    Method: concurrent batches with any mix of rows, half of them streamed, whose clients disconnect after any row.
    """
    random, kinds = Random(20), dict[int, str]()

    def script(asked: str) -> ScriptedAnswer | None:
        number = asked.rpartition("/")[2].partition(".")[0].partition("?")[0]
        return KINDS[kinds[int(number)]] if number.isdecimal() and int(number) in kinds else None

    # A busy machine needs most of a second for all these batches, and a row past the limit would be `deferred`.
    hurried: Any = {"server": {"request_timeout_s": 3}, "breaker": {"failures": 10_000}, **ROOMY}
    async with open_test_node(tmp_path, upstreams=NO_RETRIES, **hurried) as node:
        node.upstream.script = script
        before, spent, paid_at_most = (await node.money())[0], [0], [0]

        async def waiting(numbers: list[int]) -> None:
            answer = await post(node, STATS, {"urls": [STORY.format(one) for one in numbers]})
            data = await assert_billed(node, answer, is_alone=False)
            for number, row in zip(numbers, data["results"], strict=True):
                assert row["status"] in STATUSES.get(kinds[number], {"failed"}), (kinds[number], row)
            spent[0] += data["summary"]["credits_charged"]

        async def leaving(numbers: list[int], rows: int) -> None:
            paid_at_most[0] += sum(kinds[one] == "ok" for one in numbers)
            await _leave_after(node, {"urls": [STORY.format(one) for one in numbers]}, rows)

        async with trio.open_nursery() as nursery:
            for batch in range(24):
                numbers = [1_000_000 + batch * 100 + place for place in range(random.randint(1, 8))]
                kinds.update({one: random.choice(list(KINDS)) for one in numbers})
                if batch % 2:
                    nursery.start_soon(leaving, numbers, random.randint(0, 4))
                else:
                    nursery.start_soon(waiting, numbers)
        await all_settled(node)
        cost = before - (await node.money())[0]
        assert spent[0] <= cost <= spent[0] + paid_at_most[0]
        await node.assert_sound()


async def _leave_after(node: OpenNode, body: Any, rows: int) -> None:
    """Stream a batch, and disconnect after some rows or at the end of the stream."""
    async with posted(node, body, "text/event-stream") as stream:
        received = b""
        with trio.move_on_after(5):
            while received.count(b"event: row") < rows and b"event: result" not in received:
                if not (piece := await stream.receive_some()):
                    return
                received += piece
