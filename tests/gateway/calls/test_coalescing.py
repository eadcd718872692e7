"""Concurrent identical misses: one upstream call, one charge, and no cost for the followers (decisions 8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import trio

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from upstreams.transport.http import HttpCall, origin_of
from upstreams.transport.pooled import open_transport

PROFILE = "/v1/github/profile?handle=octocat"
BODY = {"login": "octocat", "id": 1}
SLOW = ScriptedAnswer(200, json_answer(BODY).body, delay_s=0.3)
MISSES = 500
"""More than any limit of the node on concurrent work, such as connections to an upstream."""
MANY = {"limits": {"concurrent_requests": 2000, "requests_per_minute": 10_000}, "server": {"shed": False}}


async def ask_all(node: OpenNode, targets: Sequence[str]) -> list[Answered]:
    """Send all requests concurrently, each over its own connection."""
    answers: list[Answered] = []
    origin, _ = origin_of(node.url)
    async with open_transport(max_connections=len(targets)) as transport, trio.open_nursery() as nursery:

        async def ask(target: str) -> None:
            call = HttpCall("GET", origin, target, (("x-api-key", node.key),))
            answer = await transport.exchange(call, trio.current_time() + 25)
            answers.append(Answered(answer.status, answer.headers, answer.body))

        for target in targets:
            nursery.start_soon(ask, target)
    return answers


async def ask_at_once(node: OpenNode, count: int, **headers: str) -> list[Answered]:
    answers: list[Answered] = []

    async def ask() -> None:
        answers.append(await node.get(PROFILE, headers=headers))

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(ask)
    return answers


async def test_many_identical_misses_make_one_call_and_charge(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=1_000, **MANY) as node:
        node.upstream.always(ScriptedAnswer(200, json_answer(BODY).body, delay_s=0.5))
        answers = await ask_all(node, [PROFILE] * MISSES)
        assert Counter(answer.status for answer in answers) == {200: MISSES}
        assert len(node.upstream.requests) == 1
        assert sum(answer.json["credits_used"] for answer in answers) == 1
        hits = [answer for answer in answers if answer.json["cached"]]
        assert len(hits) == MISSES - 1
        assert {answer.headers["x-cache"] for answer in hits} == {"HIT"}
        assert {answer.headers["x-credits-used"] for answer in hits} == {"0"}
        assert await node.money() == (999, 0)
        await node.assert_sound()


async def test_followers_of_failed_leader_retry_one_at_a_time(tmp_path: Path) -> None:
    """The followers of the one that succeeds are served for free, although no credit is left."""
    async with open_test_node(tmp_path, credits=1, upstreams={"defaults": {"retries": 0}}) as node:
        waiting = [replace(SLOW, status=500), replace(SLOW, status=500), SLOW]
        node.upstream.script = lambda _asked: waiting.pop(0)
        answers = await ask_at_once(node, 20)
        assert Counter(answer.status for answer in answers) == {502: 2, 200: 18}
        assert len(node.upstream.requests) == 3
        assert await node.money() == (0, 0)
        await node.assert_sound()


async def test_billed_refresh_shares_calls_only_with_refreshes(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=100) as node:
        node.upstream.always(SLOW)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_at_once, node, 5)
            nursery.start_soon(partial(ask_at_once, node, 5, **{"cache-control": "no-cache"}))
        assert len(node.upstream.requests) == 2
        assert await node.money() == (98, 0)


async def test_last_credit_serves_one_of_many_calls(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=1, **MANY) as node:
        answers = await ask_all(node, [f"/v1/github/profile?handle=user{number}" for number in range(MISSES)])
        statuses = Counter(answer.status for answer in answers)
        assert (statuses[200], statuses[402] + statuses[429]) == (1, MISSES - 1), (
            "429 while another call holds the credit"
        )
        assert len(node.upstream.requests) == 1
        assert await node.money() == (0, 0)
        await node.assert_sound()


async def test_disconnected_leader_still_serves_followers(tmp_path: Path) -> None:
    """The server finishes the call of a client that left, so its followers are not affected."""
    async with open_test_node(tmp_path, credits=100) as node:
        node.upstream.always(SLOW)
        for number, moment_s in enumerate((0.02, 0.07, 0.22)):
            target = f"{PROFILE}{number}"
            async with trio.open_nursery() as nursery:
                with trio.move_on_after(moment_s):
                    await node.get(target)
                for _ in range(3):
                    nursery.start_soon(node.get, target)
            await node.assert_sound()
            assert (await node.get(target)).json["cached"] is True
        assert await node.money() == (100 - len(node.upstream.requests), 0)
