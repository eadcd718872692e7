"""Section 7.2: each code as it arises over a socket, with its status, headers and charge; the table is the data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.errors import CODES
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.odd_platform import ODD
from tests.fakes.scripted_upstream import Told, told
from tests.fakes.upstream_server import until
from tests.spec.raw import raw_request
from tests.spec.refusals import assert_free, assert_refused

SPEC = {
    "MISSING_API_KEY": (401, False, "none"),
    "INVALID_API_KEY": (401, False, "none"),
    "INSUFFICIENT_CREDITS": (402, False, "none"),
    "KEY_BUDGET_EXCEEDED": (402, False, "none"),
    "INVALID_REQUEST": (400, False, "none"),
    "METHOD_NOT_ALLOWED": (405, False, "none"),
    "ENDPOINT_NOT_FOUND": (404, False, "none"),
    "RESOURCE_NOT_FOUND": (404, False, "refunded"),
    "PAYLOAD_TOO_LARGE": (413, False, "none"),
    "IDEMPOTENCY_KEY_CONFLICT": (409, False, "none"),
    "IDEMPOTENCY_IN_PROGRESS": (409, True, "none"),
    "IDEMPOTENCY_REPLAY_UNAVAILABLE": (409, False, "none"),
    "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH": (422, False, "none"),
    "COHORT_LIMIT_EXCEEDED": (400, False, "none"),
    "COHORT_MEMBER_LIMIT_EXCEEDED": (400, False, "none"),
    "COHORT_IDENTITY_PLATFORM_UNSUPPORTED": (400, False, "none"),
    "COHORT_IDENTITY_CONFLICT": (409, False, "none"),
    "COHORT_QUERY_NOT_CANCELLABLE": (409, False, "none"),
    "COHORT_QUERY_NOT_READY": (409, False, "none"),
    "COHORT_RESULT_TOO_LARGE": (413, False, "none"),
    "CURSOR_EXPIRED": (410, False, "none"),
    "RATE_LIMITED": (429, True, "none"),
    "CONCURRENCY_LIMIT": (429, True, "none"),
    "UPSTREAM_ERROR": (502, True, "refunded"),
    "SERVICE_UNAVAILABLE": (503, True, "refunded"),
    "INTERNAL_ERROR": (500, True, "refunded"),
}
BROUGHT_BY = {
    "cohorts (4.6)": {name for name in SPEC if name.startswith("COHORT_")},
    "the events feed (7.4)": {"CURSOR_EXPIRED"},
}
"""Which part of the service brings the codes that cannot arise yet."""

PROFILE = "/v1/github/profile?handle=octocat"
SLOW = "/v1/github/profile?handle=slow"
IDEMPOTENT = {"idempotency-key": "one"}
Ask = Callable[[OpenNode], Awaitable[Answered]]


@dataclass(frozen=True, slots=True)
class Scene:
    """How a code arises, and what the answer has beside the envelope; `retry_after` is inclusive."""

    code: str
    ask: Ask
    tables: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    credits: int = 1000
    retry_after: tuple[int, int] | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    windowed: bool = True
    """The answer carries X-RateLimit-*: it is authenticated, and its code is none of concurrency's."""
    knows_balance: bool = True


def get(target: str, method: str = "GET") -> Ask:
    """One request with the node's key."""
    return lambda node: node.get(target, method=method)


async def without_key(node: OpenNode) -> Answered:
    return await node.get(PROFILE, key=None)


async def with_empty_key(node: OpenNode) -> Answered:
    return await node.get(PROFILE, key=None, headers={"x-api-key": ""})


async def with_bug(node: OpenNode) -> Answered:
    node.upstream.always(Told())
    return await node.get("/v1/odd/bug")


def with_key(text: str) -> Ask:
    return lambda node: node.get(PROFILE, key=text)


async def with_revoked_key(node: OpenNode) -> Answered:
    assert (await node.get(PROFILE)).status == 200
    await node.operate("key.revoke", key=node.key_id)
    return await node.get(PROFILE)


async def with_expired_key(node: OpenNode) -> Answered:
    return await node.get(PROFILE, key=(await node.new_key(node.account, expires_at="2020-01-31T12:00:00Z"))[0])


async def with_spent_key(node: OpenNode) -> Answered:
    key, _ = await node.new_key(node.account, credit_limit=1)
    assert (await node.get(PROFILE, key=key)).status == 200
    return await node.get("/v1/github/profile?handle=hubot", key=key)


async def with_big_body(node: OpenNode) -> Answered:
    """Only the head is sent: an answer proves that the body was not waited for."""
    lines = ("GET /v1/github/profile?handle=octocat HTTP/1.1", f"x-api-key: {node.key}", "content-length: 1000001")
    return await raw_request(node.url, lines)


async def twice(node: OpenNode) -> Answered:
    assert (await node.get(PROFILE)).status == 200
    return await node.get(PROFILE)


async def while_another_runs(node: OpenNode, target: str = PROFILE, idempotency_key: str | None = None) -> Answered:
    headers = {} if idempotency_key is None else {"idempotency-key": idempotency_key}
    node.upstream.always(Told(delay_s=0.5))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(node.get, SLOW, headers=headers))
        await until(lambda: node.upstream.requests)
        answer = await node.get(target, headers=headers)
    node.upstream.always(None)
    return answer


async def with_a_key_that_another_request_finished(node: OpenNode) -> Answered:
    assert (await node.get(PROFILE, headers=IDEMPOTENT)).status == 200
    return await node.get("/v1/github/profile?handle=hubot", headers=IDEMPOTENT)


async def with_a_key_whose_answer_was_too_long(node: OpenNode) -> Answered:
    node.upstream.always(told({"id": 1, "login": "octocat", "bio": "x" * 65_536}))
    assert (await node.get(PROFILE, headers=IDEMPOTENT)).status == 200
    return await node.get(PROFILE, headers=IDEMPOTENT)


async def with_open_circuit(node: OpenNode) -> Answered:
    assert (await node.get("/v1/github/profile?handle=broken")).status == 502
    return await node.get(PROFILE)


async def held_back(node: OpenNode) -> Answered:
    assert (await node.get("/v1/github/profile?handle=throttled")).status == 503
    return await node.get(PROFILE)


async def without_store(node: OpenNode) -> Answered:
    async with node.store_refusing("deduction"):
        return await node.get(PROFILE)


NO_RETRIES = {"upstreams": {"defaults": {"retries": 0}}}
ONE_FAILURE = {**NO_RETRIES, "breaker": {"failures": 1, "open_s": 20}}
GITHUB_THROTTLES = get("/v1/github/profile?handle=throttled")
SCENES = {
    "no key": Scene("MISSING_API_KEY", without_key, windowed=False, knows_balance=False),
    "an empty key": Scene("MISSING_API_KEY", with_empty_key, windowed=False, knows_balance=False),
    "a malformed key": Scene("INVALID_API_KEY", with_key("nonsense"), windowed=False, knows_balance=False),
    "an unknown key": Scene("INVALID_API_KEY", with_key("sl_" + 43 * "a"), windowed=False, knows_balance=False),
    "a revoked key": Scene("INVALID_API_KEY", with_revoked_key, windowed=False, knows_balance=False),
    "an expired key": Scene("INVALID_API_KEY", with_expired_key, windowed=False, knows_balance=False),
    "no credits": Scene(
        "INSUFFICIENT_CREDITS",
        get(PROFILE),
        credits=0,
        details={"reason": "balance_too_low", "credits_required": 1},
    ),
    "fewer credits than it costs": Scene(
        "INSUFFICIENT_CREDITS",
        get("/v1/github/user/profile-velocity?handle=octocat"),
        credits=4,
        details={"reason": "balance_too_low", "credits_required": 5},
    ),
    "more than max_credits": Scene(
        "INSUFFICIENT_CREDITS",
        get("/v1/github/user/profile-velocity?handle=octocat&max_credits=4"),
        details={"reason": "above_max_credits", "credits_required": 5},
    ),
    "a spent key": Scene(
        "KEY_BUDGET_EXCEEDED", with_spent_key, details={"reason": "key_budget_reached", "credits_required": 1}
    ),
    "a missing parameter": Scene(
        "INVALID_REQUEST", get("/v1/github/profile"), details={"reason": "invalid_param", "param": "handle"}
    ),
    "a malformed parameter": Scene(
        "INVALID_REQUEST",
        get("/v1/github/search?query=a&limit=ten"),
        details={"reason": "invalid_param", "param": "limit"},
    ),
    "conflicting parameters": Scene(
        "INVALID_REQUEST",
        get("/v1/bluesky/profile?handle=a.test&user_id=plc:a"),
        details={"reason": "invalid_param", "param": "handle"},
    ),
    "none of a group": Scene(
        "INVALID_REQUEST", get("/v1/bluesky/profile"), details={"reason": "invalid_param", "param": "handle"}
    ),
    "an undeclared parameter": Scene(
        "INVALID_REQUEST",
        get(f"{PROFILE}&handel=octocat"),
        details={"did_you_mean": "handle", "remove_params": ["handel"]},
    ),
    "a foreign pagination parameter": Scene(
        "INVALID_REQUEST",
        get("/v1/github/search?query=a&page=2"),
        details={"did_you_mean": "cursor", "remove_params": ["page"]},
    ),
    "a value that no call could answer": Scene("INVALID_REQUEST", get("/v1/github/repo?url=https://example.com/a/b")),
    "a wrong method": Scene("METHOD_NOT_ALLOWED", get(PROFILE, "POST"), headers={"allow": "GET, HEAD"}),
    "a wrong method on a free path": Scene(
        "METHOD_NOT_ALLOWED", get("/v1/credits/balance", "DELETE"), headers={"allow": "GET, HEAD"}
    ),
    "a wrong method on the status": Scene(
        "METHOD_NOT_ALLOWED", get("/v1/status", "PUT"), headers={"allow": "GET, HEAD"}
    ),
    "an unknown platform": Scene("ENDPOINT_NOT_FOUND", get("/v1/nowhere/at-all")),
    "a misspelt resource": Scene(
        "ENDPOINT_NOT_FOUND", get("/v1/github/profil"), details={"did_you_mean": "/v1/github/profile"}
    ),
    "a path beside the API": Scene(
        "ENDPOINT_NOT_FOUND", get("/v2/github/profile"), windowed=False, knows_balance=False
    ),
    "an upstream's 404": Scene("RESOURCE_NOT_FOUND", get("/v1/github/profile?handle=missing")),
    "a body over 1 MB": Scene("PAYLOAD_TOO_LARGE", with_big_body),
    "the same request under its idempotency key": Scene(
        "IDEMPOTENCY_IN_PROGRESS", lambda node: while_another_runs(node, SLOW, "one"), retry_after=(1, 1)
    ),
    "another endpoint under a running idempotency key": Scene(
        "IDEMPOTENCY_KEY_CONFLICT", lambda node: while_another_runs(node, "/v1/github/search?query=a", "one")
    ),
    "another query under a running idempotency key": Scene(
        "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", lambda node: while_another_runs(node, PROFILE, "one")
    ),
    "another query under a finished idempotency key": Scene(
        "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", with_a_key_that_another_request_finished
    ),
    "an answer that was too long to replay": Scene(
        "IDEMPOTENCY_REPLAY_UNAVAILABLE", with_a_key_whose_answer_was_too_long
    ),
    "a full window": Scene(
        "RATE_LIMITED",
        twice,
        {"limits": {"requests_per_minute": 1}},
        retry_after=(59, 60),
        headers={"x-ratelimit-limit": "1", "x-ratelimit-remaining": "0"},
    ),
    "all leases held": Scene(
        "CONCURRENCY_LIMIT",
        while_another_runs,
        {"limits": {"concurrent_requests": 1}},
        retry_after=(1, 5),
        headers={"x-concurrency-limit": "1", "x-concurrency-remaining": "0"},
        windowed=False,
    ),
    "an upstream that fails": Scene("UPSTREAM_ERROR", get("/v1/github/profile?handle=broken"), NO_RETRIES),
    "an open circuit": Scene("SERVICE_UNAVAILABLE", with_open_circuit, ONE_FAILURE, retry_after=(19, 20)),
    "an upstream that throttles": Scene("SERVICE_UNAVAILABLE", GITHUB_THROTTLES, retry_after=(1, 60)),
    "a source that is held back": Scene("SERVICE_UNAVAILABLE", held_back, retry_after=(1, 60)),
    "a store that is away": Scene("SERVICE_UNAVAILABLE", without_store, retry_after=(1, 1), knows_balance=False),
    "a withdrawn endpoint": Scene("SERVICE_UNAVAILABLE", get("/v1/bluesky/search?query=a")),
    "a bug": Scene("INTERNAL_ERROR", with_bug),
}


def test_every_code_of_the_table_is_known_or_waits_for_a_named_part() -> None:
    waiting = set().union(*BROUGHT_BY.values())
    known = {code.name: (code.status, code.retryable, code.charge) for code in CODES.values()}
    assert known == {name: row for name, row in SPEC.items() if name not in waiting}


def test_every_known_code_has_a_scene() -> None:
    assert {scene.code for scene in SCENES.values()} == CODES.keys()


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
async def test_a_code_arises_as_the_table_says(scene: Scene, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=scene.credits, platforms=(ODD,), **scene.tables) as node:
        answer = await scene.ask(node)
        details = assert_refused(answer, scene.code, SPEC[scene.code][0])
        assert {name: details.get(name) for name in scene.details} == scene.details
        assert {name: answer.headers.get(name) for name in scene.headers} == scene.headers
        assert_retry_after(answer, scene.retry_after)
        assert_money_told(answer, knows_balance=scene.knows_balance)
        assert ("x-ratelimit-limit" in answer.headers) == scene.windowed
        assert ("x-concurrency-limit" in answer.headers) == (scene.code == "CONCURRENCY_LIMIT")
        assert ("allow" in answer.headers) == (scene.code == "METHOD_NOT_ALLOWED")
        if scene.tables.get("limits") is None:
            await assert_free(node, answer)
        await node.assert_sound()


def assert_retry_after(answer: Answered, due: tuple[int, int] | None) -> None:
    told = answer.headers.get("retry-after")
    assert (told is None) == (due is None)
    if due is not None and told is not None:
        assert due[0] <= int(told) <= due[1]


def assert_money_told(answer: Answered, *, knows_balance: bool) -> None:
    body = answer.json
    assert body["credits_used"] == 0
    assert (body["credits_remaining"] is not None) == knows_balance
    told = str(body["credits_remaining"]) if knows_balance else None
    assert answer.headers.get("x-credits-remaining") == told


async def test_the_slot_that_a_429_tells_of_is_the_windows_next(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits={"requests_per_minute": 1}) as node:
        answer = await twice(node)
        assert answer.headers["retry-after"] == answer.headers["x-ratelimit-reset"]


async def test_waiting_out_a_concurrency_limit_is_enough(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits={"concurrent_requests": 1}) as node:
        assert (await while_another_runs(node)).status == 429
        assert (await node.get(PROFILE)).status == 200


@pytest.mark.parametrize("form", ["/docs/errors", "/docs/errors.md"])
async def test_doc_url_leads_to_a_page_that_has_every_code(form: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        page = (await node.get(form, key=None)).body.decode()
        refusal = (await node.get("/v1/github/profile")).json["error"]["doc_url"]
        assert refusal == f"{node.url}/docs/errors#INVALID_REQUEST"
    for name, code in CODES.items():
        assert name in page
        assert f"| `{name}` | {code.status} | {'yes' if code.retryable else 'no'} |" in page or f'id="{name}"' in page
