"""Requests that cause an error, with the necessary preparation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from tests.fakes.calling import Answered
from tests.fakes.feeding import FEED, append_some, drop_before, page
from tests.fakes.node import OpenNode
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.fakes.upstream_server import until
from tests.spec.raw import raw_request

PROFILE = "/v1/github/profile?handle=octocat"
SLOW = "/v1/github/profile?handle=slow"
IDEMPOTENT = {"idempotency-key": "one"}
Ask = Callable[[OpenNode], Awaitable[Answered]]


def get(target: str, method: str = "GET", **headers: str) -> Ask:
    """Return a request with the node's key. `cache_control="x"` becomes the header `cache-control`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda node: node.get(target, method=method, headers=named)


async def without_key(node: OpenNode) -> Answered:
    return await node.get(PROFILE, key=None)


async def with_empty_key(node: OpenNode) -> Answered:
    return await node.get(PROFILE, key=None, headers={"x-api-key": ""})


async def with_key_in_url(node: OpenNode) -> Answered:
    return await node.get(f"{PROFILE}&api_key={node.key}", key=None)


async def with_bug(node: OpenNode) -> Answered:
    node.upstream.always(ScriptedAnswer())
    return await node.get("/v1/odd/bug")


def with_key(text: str) -> Ask:
    return lambda node: node.get(PROFILE, key=text)


async def with_revoked_key(node: OpenNode) -> Answered:
    assert (await node.get(PROFILE)).status == 200
    await node.operate("key.revoke", key=node.key_id)
    return await node.get(PROFILE)


async def with_expired_key(node: OpenNode) -> Answered:
    return await node.get(PROFILE, key=await node.new_expired_key())


async def with_spent_key(node: OpenNode) -> Answered:
    key, _ = await node.new_key(node.account, credit_limit=1)
    assert (await node.get(PROFILE, key=key)).status == 200
    return await node.get("/v1/github/profile?handle=hubot", key=key)


async def with_big_body(node: OpenNode) -> Answered:
    """Only the head is sent: a response proves that the node did not wait for the body."""
    lines = ("GET /v1/github/profile?handle=octocat HTTP/1.1", f"x-api-key: {node.key}", "content-length: 1000001")
    return await raw_request(node.url, lines)


async def twice(node: OpenNode) -> Answered:
    assert (await node.get(PROFILE)).status == 200
    return await node.get(PROFILE)


async def while_another_runs(node: OpenNode, target: str = PROFILE, idempotency_key: str | None = None) -> Answered:
    headers = {} if idempotency_key is None else {"idempotency-key": idempotency_key}
    async with trio.open_nursery() as nursery:
        with node.upstream.holding():
            nursery.start_soon(partial(node.get, SLOW, headers=headers))
            await until(lambda: node.upstream.requests)
            answer = await node.get(target, headers=headers)
    return answer


async def with_key_of_finished_request(node: OpenNode) -> Answered:
    assert (await node.get(PROFILE, headers=IDEMPOTENT)).status == 200
    return await node.get("/v1/github/profile?handle=hubot", headers=IDEMPOTENT)


async def with_key_of_too_long_response(node: OpenNode) -> Answered:
    node.upstream.always(json_answer({"id": 1, "login": "octocat", "bio": "x" * 65_536}))
    assert (await node.get(PROFILE, headers=IDEMPOTENT)).status == 200
    return await node.get(PROFILE, headers=IDEMPOTENT)


async def with_open_circuit(node: OpenNode) -> Answered:
    assert (await node.get("/v1/github/profile?handle=broken")).status == 502
    return await node.get(PROFILE)


async def with_held_source(node: OpenNode) -> Answered:
    assert (await node.get("/v1/github/profile?handle=throttled")).status == 503
    return await node.get(PROFILE)


async def with_cursor_older_than_retention(node: OpenNode) -> Answered:
    await append_some(node, 3)
    cursor = (await page(node, "limit=1"))["pagination"]["next_cursor"]
    await drop_before(node, 3)
    return await node.get(f"{FEED}?cursor={cursor}")


def without_claims(node: OpenNode) -> Awaitable[Answered]:
    return without_store(node, idempotency_key="one")


async def without_store(node: OpenNode, **headers: str) -> Answered:
    async with node.store_refusing("deduction"):
        return await node.get(PROFILE, headers={name.replace("_", "-"): value for name, value in headers.items()})
