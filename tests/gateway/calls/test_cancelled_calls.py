"""Cancel shared calls and their waiting followers at each checkpoint: one charge, and all others are served.

`test_execute` does the same for a single call, `test_claimed_calls` for a call with an idempotency key.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

import trio

from tests.fakes.calling import Answered
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.fakes.upstream_server import until
from tests.gateway.calls.test_execute import ROOMY, ask_in_this_task, assert_nothing_runs

BODY = json_answer({"id": 1, "login": "octocat"}).body
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
        node.upstream.always(ScriptedAnswer(200, BODY, delay_s=0.05))
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
            return ScriptedAnswer(200, BODY, delay_s=0.03)

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
