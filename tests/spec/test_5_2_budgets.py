"""Section 5.2, the credit limit of a key: every rule, over a socket and by the key's counter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.odd_platform import ODD
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.fakes.upstream_server import until
from tests.spec.refusals import assert_refused
from tests.spec.shared_node import check_cases

PROFILE = "/v1/github/profile?handle=octocat"
VELOCITY = "/v1/github/user/profile-velocity?handle=octocat"
FREE = ("/v1/utility/endpoints", "/v1/utility/endpoint?id=github/profile", "/v1/credits/balance")
NO_RETRIES = {"upstreams": {"defaults": {"retries": 0}}}
GOOD = ScriptedAnswer(body=json_answer({"id": 1, "login": "octocat"}).body, delay_s=0.3)


async def used(node: OpenNode, key_id: str) -> int:
    """Return the key's counter after all pending writes."""
    await node.money()
    (record,) = [one for one in await node.operate("key.list", account=node.account) if one["id"] == key_id]
    count: int = record["used"]
    return count


def profile(number: int) -> str:
    """Return the URL of a profile that was not requested before."""
    return f"/v1/github/profile?handle=user{number}"


async def assert_spent(node: OpenNode, answer: Answered, *, required: int = 1) -> None:
    """Check that the request was refused because of the key's limit, and that nothing was deducted."""
    details = assert_refused(answer, "KEY_BUDGET_EXCEEDED", 402)
    assert details == {"reason": "key_budget_reached", "credits_required": required}
    assert answer.json["credits_remaining"] == (await node.money())[0]
    assert answer.headers["x-credits-used"] == "0"
    assert await node.entries(answer.json["request_id"]) == []


async def test_limit_includes_past_usage_and_changes_apply_immediately(tmp_path: Path) -> None:
    """Add, lower, raise, reset and remove the limit, each before the next request."""
    async with open_test_node(tmp_path) as node:
        key, key_id = await node.new_key(node.account)
        served = iter(range(100))

        async def ask() -> Answered:
            return await node.get(profile(next(served)), key=key)

        for _ in range(3):
            assert (await ask()).status == 200
        await node.operate("key.update", key=key_id, credit_limit=3)
        await assert_spent(node, await ask())
        await node.operate("key.update", key=key_id, credit_limit=4)
        assert (await ask()).status == 200
        await assert_spent(node, await ask())
        await node.operate("key.update", key=key_id, credit_limit=1)
        await assert_spent(node, await ask())
        await node.operate("key.update", key=key_id, reset_usage=True)
        assert await used(node, key_id) == 0
        assert (await ask()).status == 200
        await assert_spent(node, await ask())
        await node.operate("key.update", key=key_id, credit_limit="none")
        assert (await ask()).status == 200
        assert await used(node, key_id) == 2
        assert await node.money() == (100_000 - 6, 0)


async def test_counter_is_cumulative_and_survives_restart(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        key, key_id = await node.new_key(node.account, credit_limit=2)
        assert (await node.get(profile(1), key=key)).status == 200
        account = node.account
    async with open_test_node(tmp_path) as node:
        node.account = account
        assert await used(node, key_id) == 1
        assert (await node.get(profile(2), key=key)).status == 200
        await assert_spent(node, await node.get(profile(3), key=key))


FAILURES = {
    "a 404": (PROFILE, json_answer({}, 404), 404),
    "an empty response": (PROFILE, ScriptedAnswer(200, b""), 404),
    "a 500": (PROFILE, json_answer({}, 500), 502),
    "HTML": (PROFILE, ScriptedAnswer(200, b"<html>"), 502),
    "a bug": ("/v1/odd/bug", json_answer({}), 500),
    "a throttling response": (PROFILE, json_answer({}, 429), 503),
}
"""The throttling response is last, because it pauses the source."""


async def test_refund_restores_key_counter(tmp_path: Path) -> None:
    """A key with one credit left can retry any number of times."""
    await check_cases(FAILURES, _refund_restores_key_counter, tmp_path, platforms=(ODD,), **NO_RETRIES)


async def _refund_restores_key_counter(node: OpenNode, case: tuple[str, ScriptedAnswer, int]) -> None:
    target, answer, status = case
    key, key_id = await node.new_key(node.account, credit_limit=1)
    node.upstream.always(answer)
    assert (await node.get(target, key=key)).status == status
    assert await used(node, key_id) == 0
    node.upstream.always(None)
    assert (await node.get("/v1/bluesky/profile?handle=a.test", key=key)).status == 200
    assert await used(node, key_id) == 1


async def test_partial_refund_restores_counter_partially(tmp_path: Path) -> None:
    """A composite with less than half of its legs costs half, rounded down."""
    async with open_test_node(tmp_path, platforms=(ODD,), **NO_RETRIES) as node:
        key, key_id = await node.new_key(node.account, credit_limit=5)
        node.upstream.script = lambda asked: json_answer({}) if asked.endswith("/leg/1") else json_answer({}, 500)
        assert (await node.get("/v1/odd/legs", key=key)).json["credits_used"] == 2
        assert await used(node, key_id) == 2
        await assert_spent(node, await node.get("/v1/odd/legs", key=key), required=5)


async def test_rejection_by_an_open_circuit_restores_the_key_counter(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, breaker={"failures": 1}, **NO_RETRIES) as node:
        key, key_id = await node.new_key(node.account, credit_limit=1)
        node.upstream.always(json_answer({}, 500))
        assert [(await node.get(profile(n), key=key)).status for n in range(3)] == [502, 503, 503]
        assert await used(node, key_id) == 0


AskWith = Callable[[OpenNode, str], Awaitable[Answered]]
COSTS_NOTHING: dict[str, AskWith] = {
    "a cache hit": lambda node, key: node.get(PROFILE, key=key),
    "a hit by HEAD": lambda node, key: node.get(PROFILE, key=key, method="HEAD"),
    "a replay": lambda node, key: node.get(profile(1), key=key, headers={"idempotency-key": "one"}),
    "a dry run": lambda node, key: node.get(f"{VELOCITY}&dry_run=1", key=key),
    **{target: lambda node, key, target=target: node.get(target, key=key) for target in FREE},
}


async def test_free_requests_pass_with_a_spent_key(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        assert (await node.get(PROFILE)).status == 200
        key, key_id = await node.new_key(node.account, credit_limit=1)
        assert (await node.get(profile(1), key=key, headers={"idempotency-key": "one"})).status == 200
        await assert_spent(node, await node.get(profile(2), key=key))
        for name, ask in COSTS_NOTHING.items():
            answer = await ask(node, key)
            assert (answer.status, answer.headers["x-credits-used"]) == (200, "0"), name
            assert await used(node, key_id) == 1, name


async def test_spent_key_may_wait_for_a_call_charged_to_another_key(tmp_path: Path) -> None:
    """A request that waits for an identical call settles as a hit, and hits are free."""
    async with open_test_node(tmp_path) as node:
        key, key_id = await node.new_key(node.account, credit_limit=0)
        node.upstream.always(GOOD)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.get, PROFILE)
            await until(lambda: node.upstream.requests)
            answer = await node.get(PROFILE, key=key)
        assert (answer.json["cached"], answer.json["credits_used"]) == (True, 0)
        assert await used(node, key_id) == 0


async def test_limit_never_changes_the_price(tmp_path: Path) -> None:
    """Four credits do not pay for a call of five, not even partly; they pay for calls of one."""
    async with open_test_node(tmp_path) as node:
        key, key_id = await node.new_key(node.account, credit_limit=4)
        await assert_spent(node, await node.get(VELOCITY, key=key), required=5)
        assert await used(node, key_id) == 0
        for number in range(4):
            assert (await node.get(profile(number), key=key, method="HEAD")).headers["x-credits-used"] == "1"
        assert await used(node, key_id) == 4
        await assert_spent(node, await node.get(profile(5), key=key))


async def test_concurrent_calls_share_the_remaining_budget_exactly(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        key, key_id = await node.new_key(node.account, credit_limit=10)
        statuses: Counter[int] = Counter()

        async def client(number: int) -> None:
            statuses[(await node.get(profile(number), key=key)).status] += 1

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(client, number)
        assert statuses[200] == 10
        assert statuses[402] + statuses[429] == 30, "a call in progress may still return its credit"
        await assert_spent(node, await node.get(profile(98), key=key))
        assert await used(node, key_id) == 10
        assert await node.money() == (100_000 - 10, 0)
        assert (await node.get(profile(99))).status == 200, "the account's other keys still work"
        await node.assert_sound()


async def test_reset_during_a_call_is_not_undone_by_its_refund(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **NO_RETRIES) as node:
        key, key_id = await node.new_key(node.account, credit_limit=1)
        node.upstream.always(ScriptedAnswer(500, delay_s=0.3))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: node.get(PROFILE, key=key))
            await until(lambda: node.upstream.requests)
            assert await used(node, key_id) == 1
            details = assert_refused(await node.get(profile(1), key=key), "CONCURRENCY_LIMIT", 429)
            assert details == {"reason": "credits_held", "credits_required": 1}
            await node.operate("key.update", key=key_id, reset_usage=True)
        assert await used(node, key_id) == 0
        node.upstream.always(None)
        assert (await node.get(PROFILE, key=key)).status == 200
        await assert_spent(node, await node.get(profile(1), key=key))


async def test_two_402_errors_have_different_fixes(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=1) as node:
        key, key_id = await node.new_key(node.account, credit_limit=0)
        await assert_spent(node, await node.get(profile(1), key=key))
        await node.operate("credits.grant", account=node.account, amount=10)
        await assert_spent(node, await node.get(profile(1), key=key))
        await node.operate("key.update", key=key_id, credit_limit=20)
        assert [(await node.get(profile(n), key=key)).status for n in range(11)] == [200] * 11
        await node.operate("key.update", key=key_id, credit_limit="none")
        assert_refused(await node.get(profile(12), key=key), "INSUFFICIENT_CREDITS", 402)
        await node.operate("credits.grant", account=node.account, amount=1)
        assert (await node.get(profile(12), key=key)).status == 200


async def test_key_revoked_during_a_call_is_charged_only_for_that_call(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        node.upstream.always(GOOD)
        answers: list[Answered] = []

        async def ask() -> None:
            answers.append(await node.get(PROFILE))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await until(lambda: node.upstream.requests)
            await node.operate("key.revoke", key=node.key_id)
            assert_refused(await node.get(PROFILE), "INVALID_API_KEY", 401)
        assert (answers[0].status, answers[0].json["credits_used"]) == (200, 1)
        assert await node.money() == (99_999, 0)
        await node.assert_sound()
