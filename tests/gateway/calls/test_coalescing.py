"""Concurrent identical misses: one upstream call, one charge, and no cost for the followers (decisions 8).

Shared calls and their waiting followers are also cancelled at each checkpoint: one charge, and all others are served.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import trio

from tests.fakes.calling import Answered
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.fakes.upstream_server import until
from tests.gateway.api.routes.asking import at_once
from tests.gateway.calls.test_execute import ROOMY, ask_in_this_task, assert_nothing_runs
from upstreams.transport.http import HttpCall, origin_of
from upstreams.transport.pooled import open_transport

PROFILE = "/v1/github/profile?handle=octocat"
SLOW = replace(json_answer({"login": "octocat", "id": 1}), delay_s=0.3)
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


async def test_many_identical_misses_make_one_call_and_charge(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=1_000, **MANY) as node:
        node.upstream.always(replace(SLOW, delay_s=0.5))
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
        answers = await at_once(node, *[PROFILE] * 20)
        assert Counter(answer.status for answer in answers) == {502: 2, 200: 18}
        assert len(node.upstream.requests) == 3
        assert await node.money() == (0, 0)
        await node.assert_sound()


async def test_billed_refresh_shares_calls_only_with_refreshes(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=100) as node:
        node.upstream.always(SLOW)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(at_once, node, *[PROFILE] * 5)
            nursery.start_soon(partial(at_once, node, *[PROFILE] * 5, cache_control="no-cache"))
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


FROM_CACHE = (b"cache-control", b"")
FOLLOWERS = 3


def profile(number: int) -> str:
    """Return the URL of a profile that was not requested before."""
    return f"/v1/github/profile?handle=user{number}"


async def spent(node: OpenNode) -> int:
    """Check that no credits are held, and return the credits spent so far."""
    balance, held = await node.money()
    assert held == 0
    return 100_000 - balance


async def test_cancelled_hit_costs_nothing_and_reserves_nothing(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **ROOMY) as node:
        await node.get(profile(0))

        async def check(_got_through: bool) -> None:
            assert await spent(node) == 1
            await assert_nothing_runs(node)

        await cancel_everywhere(lambda: ask_in_this_task(node, profile(0), FROM_CACHE), check)
        assert len(node.upstream.requests) == 1


async def test_cancelled_follower_does_not_affect_leader(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **ROOMY) as node, trio.open_nursery() as nursery:
        node.upstream.always(replace(SLOW, delay_s=0.05))
        numbers, led = count(), list[Answered]()

        async def lead(number: int) -> None:
            led.append(await node.get(profile(number)))

        async def begin() -> int:
            """Start a call that the next call can follow, and return its number."""
            number = next(numbers)
            nursery.start_soon(lead, number)
            await until(lambda: len(node.upstream.requests) == number + 1)
            return number

        async def check(_got_through: bool) -> None:
            await until(lambda: len(led) == under_way[0] + 1)
            assert led[-1].json["credits_used"] == 1
            assert await spent(node) == len(led) == len(node.upstream.requests)
            await assert_nothing_runs(node)
            under_way[0] = await begin()

        under_way = [await begin()]
        waits = await cancel_everywhere(lambda: ask_in_this_task(node, profile(under_way[0]), FROM_CACHE), check)
        assert waits >= 1
        assert await node.gauge("sluice_cache_coalesced_total") >= 1
        await until(lambda: len(led) == under_way[0] + 1)
        await node.assert_sound()


async def test_cancelled_leader_is_replaced_by_one_charged_follower(tmp_path: Path) -> None:
    """The follower that gets the response pays for it; the others are served from its response."""
    async with open_test_node(tmp_path, **ROOMY) as node, trio.open_nursery() as nursery:
        numbers, followed = count(), list[Answered]()
        number, following = [next(numbers)], [0]

        async def follow() -> None:
            followed.append(await node.get(profile(number[0])))

        def send_followers() -> None:
            while following[0] < FOLLOWERS:
                following[0] += 1
                nursery.start_soon(follow)

        def script(_asked: str) -> ScriptedAnswer:
            send_followers()
            return replace(SLOW, delay_s=0.03)

        async def check(_got_through: bool) -> None:
            send_followers()
            await until(lambda: len(followed) == FOLLOWERS)
            assert all(answer.status == 200 for answer in followed)
            assert await spent(node) == number[0] + 1
            await assert_nothing_runs(node)
            number[0], following[0] = next(numbers), 0
            followed.clear()

        node.upstream.script = script
        waits = await cancel_everywhere(lambda: ask_in_this_task(node, profile(number[0]), FROM_CACHE), check)
        assert waits >= 3
        assert await node.gauge("sluice_cache_coalesced_total") >= FOLLOWERS
        await node.assert_sound()
