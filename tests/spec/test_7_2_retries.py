"""Section 7.2, retryability: temporary errors succeed on a retry, billed once. `test_7_2_codes.py` has the final ones.

Waiting out a full window is tested in `tests/gateway` with virtual time; here an operator resets it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.http.codes import CODES
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_upstream import json_answer
from tests.spec.asks import (
    PROFILE,
    SLOW,
    Ask,
    twice,
    while_another_runs,
    without_claims,
    without_store,
)
from tests.spec.refusals import assert_refused
from tests.spec.scenes import NO_RETRIES
from upstreams.model.archetypes import AUTHOR, author
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import Args
from upstreams.model.steps import Call, Single, Steps

IDEMPOTENT = {"idempotency-key": "one"}


def _reciprocal(_args: Args) -> Steps:
    answer = yield Call("/number")
    return Single(author(id=str(1 / answer.body["number"])))


FRAIL = Platform(
    slug="frail",
    title="Frail",
    sources={"frail": "https://frail.test"},
    endpoints=(
        Endpoint(
            resource="reciprocal", summary="Fails on zero with an unexpected error.", archetype=AUTHOR, read=_reciprocal
        ),
    ),
    **FIELDS,
)


async def _no_cure(_node: OpenNode, _folder: Path) -> None:
    await trio.lowlevel.checkpoint()


@dataclass(frozen=True, slots=True)
class Temporary:
    """An error, what ends its cause besides waiting, and the price of the retry."""

    code: str
    ask: Ask
    target: str = PROFILE
    headers: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    cure: Callable[[OpenNode, Path], Awaitable[None]] = _no_cure
    waits: bool = True
    cost: int = 1


def failing(target: str, *scripted: Any) -> Ask:
    """Return a request whose upstream calls get these responses in order; later calls get the sandbox."""

    async def ask(node: OpenNode) -> Answered:
        answers = list(scripted)
        node.upstream.script = lambda _asked: answers.pop(0) if answers else None
        return await node.get(target)

    return ask


async def after_a_failure(node: OpenNode) -> Answered:
    """Send a request that opens the circuit, and then one that is rejected by it."""
    await failing("/v1/github/profile?handle=another", json_answer({}, 500))(node)
    return await node.get(PROFILE)


async def with_a_bug(node: OpenNode) -> Answered:
    node.upstream.always(json_answer({"number": 0}))
    return await node.get("/v1/frail/reciprocal")


async def fix_the_bug(node: OpenNode, _folder: Path) -> None:
    await trio.lowlevel.checkpoint()
    node.upstream.always(json_answer({"number": 4}))


async def widen_the_window(node: OpenNode, folder: Path) -> None:
    file = folder / "config.toml"
    file.write_text(file.read_text().replace("requests_per_minute = 1", "requests_per_minute = 2"))
    await node.operate("reload")


TEMPORARY = {
    "a running idempotency key": Temporary(
        "IDEMPOTENCY_IN_PROGRESS", lambda node: while_another_runs(node, SLOW, "one"), SLOW, IDEMPOTENT, cost=0
    ),
    "a full window": Temporary(
        "RATE_LIMITED",
        twice,
        tables={"limits": {"requests_per_minute": 1}},
        cure=widen_the_window,
        waits=False,
        cost=0,
    ),
    "all leases held": Temporary(
        "CONCURRENCY_LIMIT", while_another_runs, tables={"limits": {"concurrent_requests": 1}}, waits=False
    ),
    "a failing upstream": Temporary("UPSTREAM_ERROR", failing(PROFILE, json_answer({}, 500)), tables=NO_RETRIES),
    "an open circuit": Temporary(
        "SERVICE_UNAVAILABLE", after_a_failure, tables={**NO_RETRIES, "breaker": {"failures": 1, "open_s": 0.5}}
    ),
    "a throttling upstream": Temporary(
        "SERVICE_UNAVAILABLE", failing(PROFILE, json_answer({}, 429, retry_after="1")), tables=NO_RETRIES
    ),
    "an unavailable store": Temporary("SERVICE_UNAVAILABLE", without_store, waits=False),
    "an unavailable claim store": Temporary("SERVICE_UNAVAILABLE", without_claims, headers=IDEMPOTENT, waits=False),
    "a bug that depends on the response": Temporary(
        "INTERNAL_ERROR", with_a_bug, "/v1/frail/reciprocal", cure=fix_the_bug, waits=False
    ),
}


def test_every_retryable_code_has_a_succeeding_retry() -> None:
    assert {one.code for one in TEMPORARY.values()} == {code.name for code in CODES.values() if code.retryable}


@pytest.mark.parametrize("passing", TEMPORARY.values(), ids=TEMPORARY.keys())
async def test_retry_after_its_time_succeeds_and_is_billed_once(passing: Temporary, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, platforms=(FRAIL,), **passing.tables) as node:
        refused = await passing.ask(node)
        assert_refused(refused, passing.code, CODES[passing.code].status)
        before = (await node.money())[0]
        await passing.cure(node, tmp_path)
        if passing.waits and "retry-after" in refused.headers:
            await trio.sleep(int(refused.headers["retry-after"]))
        answer = await node.get(passing.target, headers=passing.headers)
        assert (answer.status, answer.json["credits_used"]) == (200, passing.cost), answer.body
        assert answer.json["request_id"] != refused.json["request_id"]
        assert await node.money() == (before - passing.cost, 0)
        await node.assert_sound()
