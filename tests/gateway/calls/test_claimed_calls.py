"""Requests with an `Idempotency-Key`, over sockets: one charge and one call, however often they are repeated."""

from __future__ import annotations

from collections import Counter
from itertools import count
from pathlib import Path
from random import Random

import pytest
import trio

from tests.fakes.calling import Answered
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.odd_platform import ODD
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.fakes.upstream_server import until
from tests.gate.matrix import sample
from tests.gateway.api.routes.asking import all_settled
from tests.gateway.calls.test_execute import CALLS, ask_in_this_task, assert_nothing_runs
from tests.spec.refusals import assert_free, assert_refused

PROFILE = "/v1/github/profile?handle=octocat"
OTHER = "/v1/github/profile?handle=hubot"
ROOMY = {"limits": {"requests_per_minute": 100_000, "concurrent_requests": 1000}, "breaker": {"failures": 1000}}
NO_RETRIES = {"upstreams": {"defaults": {"retries": 0}}}


async def ask(node: OpenNode, key: str = "one", target: str = PROFILE, **headers: str) -> Answered:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await node.get(target, headers={"idempotency-key": key, **named})


async def claims(node: OpenNode) -> list[tuple[str, int | None]]:
    """Return owner and status of every claim in the store, after all pending writes."""
    await node.money()
    rows = await node.node.stores.store.read(lambda tx: tx.all("SELECT owner, status FROM claims ORDER BY at"))
    return [(owner, status) for owner, status in rows]


def assert_replays(replay: Answered, first: Answered, balance: int) -> None:
    """Check that the first response is replayed byte for byte, except the fields and headers in decisions 7."""
    body = first.json
    said = b'"credits_used":%d,"credits_remaining":%d' % (body["credits_used"], body["credits_remaining"])
    says = b'"credits_used":0,"credits_remaining":%d' % balance
    assert first.body.count(said) == 1
    assert replay.body == first.body.replace(said, says)[:-1] + b',"idempotent_replay":true}'
    assert replay.status == first.status
    assert replay.headers["x-idempotent-replay"] == "true"
    assert replay.headers["x-request-id"] == body["request_id"]
    assert replay.headers["x-credits-used"] == "0"
    assert replay.headers["x-credits-remaining"] == str(balance)
    assert "x-idempotent-replay" not in first.headers


OUTCOMES = {
    "a success": (PROFILE, lambda _asked: json_answer({"id": 1, "login": "é", "bio": 'a "quoted" \\ word'}), 200, 1),
    "a list": ("/v1/github/search?query=a", lambda _asked: None, 200, 1),
    "a refusal": (PROFILE, lambda _asked: json_answer({}, 404), 404, 0),
    "a response that is not cached": ("/v1/odd/warned", lambda _asked: json_answer({}), 200, 1),
    "a composite with one of four legs": (*CALLS["a composite with one of four legs"][:2], 200, 2),
}


async def test_finished_outcome_is_replayed_byte_for_byte(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, platforms=(ODD,)) as node:
        left, refusals = 100_000, Counter[str]()
        for name, (target, script, status, cost) in OUTCOMES.items():
            node.upstream.script = script
            first = await ask(node, name.replace(" ", "-"), target, cache_control="no-cache")
            assert (first.status, first.json["credits_used"]) == (status, cost), name
            node.upstream.script = lambda _asked: None
            assert (await node.get(OTHER, headers={"cache-control": "no-cache"})).json["credits_used"] == 1
            left -= cost + 1
            node.upstream.requests.clear()
            for more in ({}, {"cache_control": "no-cache"}):
                assert_replays(await ask(node, name.replace(" ", "-"), target, **more), first, left)
            assert node.upstream.requests == []
            assert await node.net(first.json["request_id"]) == cost
            refusals += Counter() if status == 200 else Counter({first.code: 3})
        logged = Counter(event["code"] for event in node.log_events("request") if event["code"] != "OK")
        assert logged == refusals, "a replay is not logged with the code of the first response"
        assert await node.money() == (left, 0)
        await node.assert_sound()


async def test_cache_hits_with_keys_are_free_and_their_text_is_stored_once(node: OpenNode) -> None:
    """Free responses under new keys must not make the store grow."""
    await node.get(PROFILE)
    hit = await ask(node)
    assert (hit.json["cached"], hit.json["credits_used"], hit.headers["x-cache"]) == (True, 0, "HIT")
    node.upstream.requests.clear()
    assert_replays(await ask(node, cache_control="no-cache"), hit, 99_999)
    assert node.upstream.requests == []
    assert await node.entries(hit.json["request_id"]) == []
    for number in range(5):
        assert (await ask(node, f"fresh-{number}")).json["credits_used"] == 0
    assert len(await claims(node)) == 6
    assert await node.node.stores.store.read(lambda tx: tx.one("SELECT COUNT(*) FROM replies")) == (1,)


async def test_request_is_the_same_for_its_account_key_and_parameters(tmp_path: Path) -> None:
    """Neither quotes, the order of parameters, the account's API key nor a restart make another request."""
    async with open_test_node(tmp_path) as node:
        target, reordered = "/v1/github/search?query=a&limit=10", "/v1/github/search?limit=10&query=a"
        first = await ask(node, target=target)
        assert_replays(await ask(node, '"one"', target), first, 99_999)
        assert_replays(await ask(node, target=reordered), first, 99_999)
        other_key = await ask(node, "two", target, cache_control="no-cache")
        assert (other_key.json["credits_used"], other_key.json["cached"]) == (1, False)
        node.key, _ = await node.new_key(node.account)
        assert_replays(await ask(node, target=target), first, 99_998)
        mine, other = node.key, await node.new_account(10)
        node.key, _ = await node.new_key(other)
        theirs = await ask(node, target=target, cache_control="no-cache")
        assert "idempotent_replay" not in theirs.json
        assert theirs.json["credits_remaining"] == 9
        assert len(node.upstream.requests) == 3
    async with open_test_node(tmp_path) as node:
        node.key = mine
        assert_replays(await ask(node, target=target), first, 99_998)


async def test_failed_or_rejected_request_leaves_the_key_free(tmp_path: Path) -> None:
    failures = {"500": json_answer({}, 500), "HTML": ScriptedAnswer(200, b"<html>"), "429": json_answer({}, 429)}
    async with open_test_node(tmp_path, platforms=(ODD,), **NO_RETRIES) as node:
        poor, _ = await node.new_key(node.account, credit_limit=0)
        over_budget = await node.get(PROFILE, key=poor, headers={"idempotency-key": "one"})
        assert_refused(over_budget, "KEY_BUDGET_EXCEEDED", 402)
        for target in ("/v1/github/profile", "/v1/nowhere/at-all", f"{PROFILE}&max_credits=0"):
            assert (await ask(node, target=target)).status >= 400
        assert await claims(node) == []
        for name, failure in failures.items():
            node.upstream.always(failure)
            refused = await ask(node)
            assert refused.status in (502, 503), name
            await assert_free(node, refused)
            assert await claims(node) == []
        node.upstream.always(json_answer({}))
        assert_refused(await ask(node, target="/v1/odd/bug"), "INTERNAL_ERROR", 500)
        assert await claims(node) == []
        answer = await ask(node, target="/v1/odd/warned")
        assert (answer.json["credits_used"], "idempotent_replay" in answer.json) == (1, False)
        await node.assert_sound()


async def test_claim_store_failure_prevents_call_and_charge(node: OpenNode) -> None:
    for place in ("before a charge", "before a cache hit"):
        node.upstream.requests.clear()
        before = await node.money()
        async with node.store_refusing(table="claims"):
            answer = await ask(node, place.replace(" ", "-"))
            assert_refused(answer, "SERVICE_UNAVAILABLE", 503)
            assert answer.headers["retry-after"] == "1"
            assert answer.json["credits_remaining"] is None
            assert "x-credits-remaining" not in answer.headers
        await assert_free(node, answer)
        assert (await node.money(), node.upstream.requests) == (before, []), place
        assert (await ask(node, place.replace(" ", "-"))).status == 200


async def test_outcome_rejected_by_store_is_retried_and_then_replayed(node: OpenNode) -> None:
    async with node.store_refusing("settlement"):
        answer = await ask(node)
        without_key = await node.get(OTHER)
        assert (answer.json["credits_used"], without_key.json["credits_used"]) == (1, 1)
        await until(lambda: node.node.stores.billing.charges.unfinished() == 2)
        assert_refused(await ask(node, cache_control="no-cache"), "IDEMPOTENCY_IN_PROGRESS", 409)
    await until(lambda: not node.node.stores.billing.charges.unfinished())
    again = await ask(node)
    assert (again.json["idempotent_replay"], again.json["request_id"]) == (True, answer.json["request_id"])
    assert await node.money() == (99_998, 0)
    await node.assert_sound()


async def test_stream_is_rejected_with_a_key_and_free_requests_ignore_it(node: OpenNode) -> None:
    for accept in ("text/event-stream", "application/json;q=0.5, Text/Event-Stream"):
        answer = await ask(node, accept=accept)
        assert_refused(answer, "INVALID_REQUEST", 400)
        await assert_free(node, answer)
    for target in [f"{PROFILE}&dry_run=1", "/v1/credits/balance", "/v1/utility/endpoints"] * 2:
        answer = await ask(node, target=target)
        assert answer.status == 200
        assert "idempotent_replay" not in answer.json
    assert (await claims(node), node.upstream.requests) == ([], [])
    assert (await ask(node)).json["credits_used"] == 1


async def test_concurrent_clients_with_one_idempotency_key_cause_one_call_and_one_charge(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **ROOMY) as node:
        node.upstream.behaviour.latency_s = 0.2
        answers: list[Answered] = []

        async def client() -> None:
            answers.append(await ask(node))

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(client)
        first = await ask(node)
        assert first.json["idempotent_replay"] is True
        statuses = Counter(answer.status for answer in answers)
        assert statuses.keys() <= {200, 409}
        (paid,) = [answer for answer in answers if answer.json["credits_used"]]
        for answer in answers:
            if answer.status == 409:
                assert_refused(answer, "IDEMPOTENCY_IN_PROGRESS", 409)
                assert answer.headers["retry-after"] == "1"
            elif answer is not paid:
                assert answer.body == first.body
        assert_replays(first, paid, 99_999)
        assert len(node.upstream.requests) == 1
        assert await node.money() == (99_999, 0)
        assert await claims(node) == [(paid.json["request_id"], 200)]
        await node.assert_sound()


@pytest.mark.parametrize("seed", sample(range(6)))
async def test_disconnecting_and_retrying_clients_are_charged_once_per_key(seed: int, tmp_path: Path) -> None:
    """Method: clients disconnect at random moments of slow calls, and repeat their key until they get a response."""
    rng, slow = Random(seed), ScriptedAnswer(body=json_answer({"id": 1, "login": "octocat"}).body, delay_s=0.02)
    async with open_test_node(tmp_path, **ROOMY, **NO_RETRIES) as node:
        node.upstream.script = lambda _asked: rng.choice([None, slow, json_answer({}, 500)])
        paid: dict[str, str] = {}

        async def client(key: str) -> None:
            patience_s = 0.06
            while key not in paid:
                patience_s *= 1.1  # on a busy machine, a response takes longer than any fixed time
                with trio.move_on_after(rng.random() * patience_s):
                    answer = await ask(node, key, cache_control="no-cache")
                    if answer.status == 200:
                        paid[key] = answer.json["request_id"]
                await trio.sleep(0.005)

        async with trio.open_nursery() as nursery:
            for number in range(24):
                nursery.start_soon(client, f"key-{number % 8}")
        await until(lambda: not node.node.stores.billing.charges.unfinished())
        assert len(paid) == 8
        await all_settled(node)
        assert await node.money() == (100_000 - 8, 0)
        assert sorted(await claims(node)) == sorted((owner, 200) for owner in paid.values())
        await node.assert_sound()


@pytest.mark.parametrize("name", ["a success", "a refusal", "a failure", "a composite with one of four legs", "a bug"])
async def test_cancelled_claimed_request_is_recorded_completely_or_not_at_all(name: str, tmp_path: Path) -> None:
    """Goal: every claim has its charge, both end together, and a retry costs only what was not paid yet."""
    target, script, cost = CALLS[name]
    keys = map(str, count())
    async with open_test_node(tmp_path, platforms=(ODD,), **ROOMY, **NO_RETRIES) as node:
        node.upstream.script = script
        spent = [0, 0]
        key = [next(keys)]

        async def run() -> None:
            await ask_in_this_task(node, target, (b"idempotency-key", key[0].encode()))

        async def check(got_through: bool) -> None:
            balance, held = await node.money()
            rows = await claims(node)
            assert held == 0
            assert node.node.stores.billing.charges.unfinished() == 0
            assert all(status is not None for _, status in rows)
            await assert_nothing_runs(node)
            now_spent = 100_000 - balance - spent[0]
            assert now_spent in ({cost} if got_through else {0, cost})
            retried = await ask(node, key[0], target=target, cache_control="no-cache")
            assert retried.json["credits_used"] == cost - now_spent
            spent[0] += cost
            key[0] = next(keys)

        waits = await cancel_everywhere(run, check)
        assert waits >= 3
        assert await node.money() == (100_000 - spent[0], 0)
        await node.assert_sound()


async def test_cancelled_cache_hit_is_stored_or_not_claimed(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **ROOMY) as node:
        await node.get(PROFILE)
        key = [0]

        async def run() -> None:
            await ask_in_this_task(node, PROFILE, (b"cache-control", b""), (b"idempotency-key", b"%d" % key[0]))

        async def check(got_through: bool) -> None:
            assert all(status == 200 for _, status in await claims(node))
            assert (await ask(node, str(key[0]))).json["credits_used"] == 0
            key[0] += 1

        assert await cancel_everywhere(run, check) >= 1
        assert await node.money() == (99_999, 0)
        assert len(await claims(node)) == key[0]
