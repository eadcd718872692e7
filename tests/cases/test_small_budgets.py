"""Small budgets and balances under concurrent calls.

Reserved credits cause a temporary refusal, spent credits a final one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cases.paid_calls import DEAD_BROWSER, paid_routes, send_paid
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import json_answer
from tests.fakes.upstream_server import until
from tests.spec.rows import CREDENTIALS, ENVIRON, ROWS, SOME_ROWS, Row

pytestmark = pytest.mark.critical

SEARCH = "/v1/hackernews/search?query="
REPOS = "/v1/github/search/repos?query="


def hits(asked: str) -> Any:
    """Return a search result after the time that an upstream takes."""
    del asked
    hit = {"objectID": "1", "title": "Bread", "points": 1, "created_at_i": 1_700_000_000, "_tags": ["story"]}
    answer = json_answer({"hits": [hit], "nbHits": 1, "nbPages": 1, "page": 0, "hitsPerPage": 20})
    return replace(answer, delay_s=0.6)


async def together(node: OpenNode, targets: Sequence[str], *, key: str) -> list[Answered]:
    answers: dict[str, Answered] = {}

    async def ask(target: str) -> None:
        answers[target] = await node.get(target, key=key)

    async with trio.open_nursery() as nursery:
        for target in targets:
            nursery.start_soon(ask, target)
    return [answers[target] for target in targets]


def assert_only_held(answers: Sequence[Answered]) -> int:
    """Check that each answer is 200 or a refusal that clients retry automatically. Return the number of 200s."""
    for answer in answers:
        if answer.status != 200:
            assert (answer.status, answer.code) == (429, "CONCURRENCY_LIMIT"), answer.body
            details = answer.json["error"]["details"]
            assert (details["reason"], answer.headers["retry-after"]) == ("credits_held", "1")
            assert (answer.json["credits_used"], answer.headers["x-credits-used"]) == (0, "0")
    return sum(answer.status == 200 for answer in answers)


async def used(node: OpenNode, key_id: str) -> int:
    await node.money()
    (record,) = [one for one in await node.operate("key.list", account=node.account) if one["id"] == key_id]
    count: int = record["used"]
    return count


@pytest.mark.parametrize("at_once", [4, 6, 20])
async def test_concurrent_searches_under_a_small_limit_get_only_temporary_refusals(
    at_once: int, tmp_path: Path
) -> None:
    """The README's case, with six and with twenty concurrent calls. A refused search is retried, as clients do."""
    async with open_test_node(tmp_path) as node:
        key, key_id = await node.new_key(node.account, credit_limit=5)
        node.upstream.script = hits
        waiting = [f"{SEARCH}q{number}" for number in range(at_once)]
        while waiting and at_once - len(waiting) < 5:
            answers = dict(zip(waiting, await together(node, waiting, key=key), strict=True))
            assert_only_held([*answers.values()])
            waiting = [target for target in waiting if answers[target].status != 200]
            assert at_once - len(waiting) <= 5
        assert at_once - len(waiting) == min(at_once, 5) == await used(node, key_id)
        if at_once >= 5:
            answer = await node.get(f"{SEARCH}last", key=key)
            assert (answer.status, answer.code) == (402, "KEY_BUDGET_EXCEEDED")
        await node.assert_sound()


async def test_small_balance_gets_only_temporary_refusals_while_credits_are_reserved(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=5) as node:
        node.upstream.script = hits
        done = assert_only_held(await together(node, [f"{SEARCH}q{n}" for n in range(6)], key=node.key))
        assert done >= 2
        for number in range(5 - done):
            assert (await node.get(f"{SEARCH}again{number}")).status == 200
        answer = await node.get(f"{SEARCH}last")
        assert (answer.status, answer.code) == (402, "INSUFFICIENT_CREDITS")
        assert await node.money() == (0, 0)
        await node.assert_sound()


KINDS: Mapping[str, Mapping[str, int]] = {"balance": {}, "limit": {"credit_limit": 1}}


@pytest.mark.parametrize("kind", KINDS)
async def test_reserved_credits_refuse_every_endpoint_only_temporarily(kind: str, tmp_path: Path) -> None:
    """Every declared endpoint returns 429 while a call reserves the credit, and 402 once it cannot suffice any more."""
    credits_ = 1 if kind == "balance" else 100_000
    limits = {"requests_per_minute": 5_000}
    node_of = open_test_node(tmp_path, credits=credits_, environ=ENVIRON, upstreams=CREDENTIALS, limits=limits)
    async with node_of as node:
        key, _ = await node.new_key(node.account, **KINDS[kind])
        rows = [row for row in SOME_ROWS if not row.platform.open_web]
        wrong: list[tuple[str, int, str]] = []
        async with trio.open_nursery() as nursery:
            with node.upstream.holding():
                nursery.start_soon(_ask_ok, node, key)
                await until(lambda: len(node.upstream.requests) == 1)
                for row in rows:
                    answer = await node.get(row.target(), key=key)
                    wrong += _wrong(row, answer, 429 if row.cost[0] <= 1 else 402)
        for row in rows:
            wrong += _wrong(row, await node.get(row.target(), key=key), 402)
        assert wrong == []
        await node.assert_sound()


async def _ask_ok(node: OpenNode, key: str) -> None:
    assert (await node.get("/v1/github/profile?handle=holder", key=key)).status == 200


def _wrong(row: Row, answer: Answered, status: int) -> list[tuple[str, int, str]]:
    details = answer.json.get("error", {}).get("details") or {}
    is_right = answer.status == status and (details.get("reason") == "credits_held") == (status == 429)
    return [] if is_right else [(row.id, answer.status, answer.code)]


async def test_reserved_credits_refuse_every_paid_post_only_temporarily(tmp_path: Path) -> None:
    """All declared batches, jobs, queries and files.

    A request that costs more than the balance gets a final refusal.
    """
    tables: dict[str, Any] = {"web": DEAD_BROWSER, "limits": {"requests_per_minute": 5_000}}
    async with open_test_node(tmp_path, credits=1, environ=ENVIRON, upstreams=CREDENTIALS, **tables) as node:
        operations = node.node.description.reference.operations
        dear = {one.route.path for one in operations if one.route.doc and (one.route.doc.price or (0,))[0] > 1}
        async with trio.open_nursery() as nursery:
            with node.upstream.holding():
                nursery.start_soon(_ask_ok, node, node.key)
                await until(lambda: len(node.upstream.requests) == 1)
                for path in paid_routes(node):
                    answer = await send_paid(node, path, node.key)
                    if path in dear or answer.status == 402:
                        assert answer.code == "INSUFFICIENT_CREDITS", path
                        assert answer.json["error"]["details"]["credits_required"] > 1, path
                    else:
                        assert assert_only_held([answer]) == 0, path
        for path in paid_routes(node):
            answer = await send_paid(node, path, node.key)
            assert (answer.status, answer.code) == (402, "INSUFFICIENT_CREDITS"), path
        await node.assert_sound()


async def test_refusal_because_of_reserved_credits_frees_its_idempotency_key(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=1) as node:
        once = {"idempotency-key": "one"}
        async with trio.open_nursery() as nursery:
            with node.upstream.holding():
                nursery.start_soon(_ask_failing, node)
                await until(lambda: len(node.upstream.requests) == 1)
                node.upstream.always(None)
                refused = await node.get("/v1/github/profile?handle=octocat", headers=once)
                assert assert_only_held([refused]) == 0
                node.upstream.always(json_answer({}, 404))
        node.upstream.always(None)
        answer = await node.get("/v1/github/profile?handle=octocat", headers=once)
        assert (answer.status, answer.json["credits_used"]) == (200, 1)
        await node.assert_sound()


async def _ask_failing(node: OpenNode) -> None:
    assert (await node.get("/v1/github/profile?handle=nobody")).status == 404


async def test_calls_started_before_a_reset_do_not_count_after_it(tmp_path: Path) -> None:
    """Calls from before the reset no longer count, so they reserve nothing of the budget."""
    async with open_test_node(tmp_path) as node:
        key, key_id = await node.new_key(node.account, credit_limit=1)
        async with trio.open_nursery() as nursery:
            with node.upstream.holding():
                nursery.start_soon(_ask_ok, node, key)
                await until(lambda: len(node.upstream.requests) == 1)
                await node.operate("key.update", key=key_id, reset_usage=True)
                nursery.start_soon(_ask_ok_too, node, key)
                await until(lambda: len(node.upstream.requests) == 2)
                assert assert_only_held([await node.get(f"{REPOS}trio", key=key)]) == 0
        answer = await node.get(f"{REPOS}trio", key=key)
        assert (answer.status, answer.code) == (402, "KEY_BUDGET_EXCEEDED")
        assert await used(node, key_id) == 1
        await node.assert_sound()


async def _ask_ok_too(node: OpenNode, key: str) -> None:
    assert (await node.get("/v1/github/profile?handle=second", key=key)).status == 200


async def test_optional_reservations_leave_credits_for_other_calls(tmp_path: Path) -> None:
    """While a call of a metered endpoint runs, credits that it may not need do not exhaust the balance."""
    metered = [row for row in ROWS if row.endpoint.collect is not None and row.cost == range(1, 2)]
    assert len(metered) >= 1
    async with open_test_node(tmp_path, credits=5, environ=ENVIRON, upstreams=CREDENTIALS) as node:
        counts = Counter[str]()
        for row in metered:
            async with trio.open_nursery() as nursery:
                with node.upstream.holding():
                    before = len(node.upstream.requests)
                    nursery.start_soon(node.get, row.target())
                    await until(lambda before=before: len(node.upstream.requests) > before)  # type: ignore[misc]
                    balance, held = await node.money()
                    counts[row.id] = held
                    assert balance > 0 or held == 1, row.id
            if (await node.money())[0] < 2:
                break
        assert counts
        await node.assert_sound()
