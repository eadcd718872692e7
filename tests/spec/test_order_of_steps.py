"""Decisions 5: the order of the steps of a data request; an error at one step changes no counter of another.

Method: requests with all remaining errors; the first step's error is returned, then its cause is removed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from limits.gate import MemoryGate
from tests.fakes.calling import Answered
from tests.fakes.entries import nets, read_entries
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import json_answer
from tests.fakes.upstream_server import until
from tests.spec.raw import raw_request
from tests.spec.refusals import assert_refused

FREE = "/v1/credits/balance"
PROFILE = "/v1/github/profile?handle=octocat"
BAD = "/v1/github/profile?handel=octocat"
WITHDRAWN = "/v1/bluesky/search?page=2"
TIGHT = {"limits": {"requests_per_minute": 2, "concurrent_requests": 1}}
TRIPPED = {"upstreams": {"defaults": {"retries": 0}}, "breaker": {"failures": 1, "open_s": 20}}


@dataclass(frozen=True, slots=True)
class Counters:
    """All counters that a request may change."""

    window: int
    leases: int
    claims: int
    charges: int
    balance: int
    key_used: int
    upstream_calls: int


async def counters(node: OpenNode) -> Counters:
    """Return the counters after all pending writes. Reading them changes none."""
    balance, held = await node.money()
    assert held == 0
    store, parts = node.node.stores.store, node.node.api._parts
    (claims,) = (await store.read(lambda tx: tx.all("SELECT COUNT(*) FROM claims")))[0]
    charges = len(nets(await store.read(lambda tx: read_entries(tx.all))))
    (key,) = [key for key in await node.operate("key.list", account=node.account) if key["id"] == node.key_id]
    gate = parts.admission.gate
    assert isinstance(gate, MemoryGate)
    window = gate.window.look(node.key_id, trio.current_time())
    return Counters(
        window=window.limit - window.remaining,
        leases=int(await node.gauge("sluice_lease_keys")),
        claims=claims,
        charges=charges,
        balance=balance,
        key_used=key["used"],
        upstream_calls=len(node.upstream.requests),
    )


@asynccontextmanager
async def changes(node: OpenNode, **by: int) -> AsyncIterator[None]:
    """Check that the block changes these counters by these amounts, and no others."""
    before = await counters(node)
    yield
    after = await counters(node)
    assert after == Counters(
        **{name: getattr(before, name) + by.get(name, 0) for name in Counters.__dataclass_fields__}
    )


async def wrong(node: OpenNode, method: str, target: str, *headers: str) -> Answered:
    """Return the response to a request that announces a body of more than 1 MB but does not send it."""
    lines = (f"{method} {target} HTTP/1.1", *headers, "content-length: 1000001", "idempotency-key: a b")
    return await raw_request(node.url, lines)


async def test_entry_checks_reject_in_order_and_count_nothing(tmp_path: Path) -> None:
    """Steps 2 to 4: key, window, lease. A slow request holds the lease and half of the window."""
    async with open_test_node(tmp_path, credits=0, **TIGHT) as node:
        rich = await node.new_account()
        slow, _ = await node.new_key(rich)
        key = f"x-api-key: {slow}"
        async with trio.open_nursery() as nursery:
            with node.upstream.holding():
                nursery.start_soon(lambda: node.get(PROFILE, key=slow))
                await until(lambda: node.upstream.requests)
                before = await node.gauge("sluice_lease_keys")
                for target in ("/v1/nowhere/at-all", BAD):
                    assert_refused(await wrong(node, "POST", target), "MISSING_API_KEY", 401)
                    assert_refused(await wrong(node, "POST", target, key + "x"), "INVALID_API_KEY", 401)
                    assert_refused(await wrong(node, "POST", target, key), "CONCURRENCY_LIMIT", 429)
                assert await node.gauge("sluice_lease_keys") == before == 1
        answer = await node.get(FREE, key=slow)
        assert answer.headers["x-ratelimit-remaining"] == "0", "none of those requests is counted in the window of two"
        for target in ("/v1/nowhere/at-all", BAD, PROFILE):
            assert_refused(await wrong(node, "POST", target, key), "RATE_LIMITED", 429)
        assert await node.gauge("sluice_lease_keys") == 0


async def test_full_window_is_reported_before_concurrency(tmp_path: Path) -> None:
    limits = {"requests_per_minute": 1, "concurrent_requests": 1}
    async with open_test_node(tmp_path, limits=limits) as node, trio.open_nursery() as nursery:
        with node.upstream.holding():
            nursery.start_soon(node.get, PROFILE)
            await until(lambda: node.upstream.requests)
            assert_refused(await node.get(FREE), "RATE_LIMITED", 429)


async def test_path_body_and_parameters_are_checked_in_order(tmp_path: Path) -> None:
    """Steps 5 and 6; each rejection uses one request of the window: 404, 405, 413, 400, 503."""
    async with open_test_node(tmp_path, credits=0) as node:
        key = f"x-api-key: {node.key}"
        for method, target, code, status in (
            ("POST", "/v1/nowhere/at-all?page=2", "ENDPOINT_NOT_FOUND", 404),
            ("POST", BAD, "METHOD_NOT_ALLOWED", 405),
            ("GET", BAD, "PAYLOAD_TOO_LARGE", 413),
        ):
            async with changes(node, window=1):
                assert_refused(await wrong(node, method, target, key), code, status)
        async with changes(node, window=1):
            answer = await node.get(BAD, headers={"idempotency-key": "a b"})
            assert assert_refused(answer, "INVALID_REQUEST", 400)["did_you_mean"] == "handle"
        async with changes(node, window=1):
            assert_refused(await node.get(WITHDRAWN), "INVALID_REQUEST", 400)
        async with changes(node, window=1):
            answer = await node.get(WITHDRAWN.replace("page=2", "query=a"), headers={"idempotency-key": "a b"})
            assert_refused(answer, "SERVICE_UNAVAILABLE", 503)
            assert "retry-after" not in answer.headers


async def test_claim_is_checked_before_the_cache(tmp_path: Path) -> None:
    """Step 7: a key bound to another request gives no access, not even to cached data."""
    async with open_test_node(tmp_path) as node:
        other = "/v1/github/profile?handle=hubot"
        assert (await node.get(other)).status == 200
        assert (await node.get(PROFILE, headers={"idempotency-key": "one"})).status == 200
        async with changes(node, window=1):
            answer = await node.get(other, headers={"idempotency-key": "one"})
            assert_refused(answer, "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", 422)


async def test_claim_charge_and_circuit_are_checked_in_order(tmp_path: Path) -> None:
    """Steps 7, 9 and 10 return 422, 402 and 503. At step 8, a cached response is returned in spite of their causes."""
    async with open_test_node(tmp_path, credits=2, **TRIPPED) as node:
        cached = "/v1/bluesky/profile?handle=ada.test"
        assert (await node.get(cached, headers={"idempotency-key": "one"})).status == 200
        node.upstream.always(json_answer({}, 500))
        assert (await node.get("/v1/github/profile?handle=broken")).status == 502
        async with changes(node, window=1, charges=1):
            answer = await node.get(PROFILE, headers={"idempotency-key": "two"})
            assert_refused(answer, "SERVICE_UNAVAILABLE", 503)
        poor = "/v1/github/user/profile-velocity?handle=octocat"
        async with changes(node, window=1):
            assert_refused(
                await node.get(poor, headers={"idempotency-key": "one"}), "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", 422
            )
        async with changes(node, window=1):
            assert_refused(await node.get(poor, headers={"idempotency-key": "two"}), "INSUFFICIENT_CREDITS", 402)
        async with changes(node, window=1):
            assert (await node.get(cached)).json["cached"] is True


async def test_rejection_before_the_breaker_does_not_use_its_probe(tmp_path: Path) -> None:
    """A half-open circuit allows one call: it is still available after a 400, a 402 and a 422."""
    tables = {**TRIPPED, "breaker": {"failures": 1, "open_s": 0.2}}
    async with open_test_node(tmp_path, **tables) as node:
        spent, _ = await node.new_key(node.account, credit_limit=0)
        assert (await node.get("/v1/hackernews/profile?handle=pg", headers={"idempotency-key": "one"})).status == 200
        node.upstream.always(json_answer({}, 500))
        assert (await node.get("/v1/github/profile?handle=broken")).status == 502
        node.upstream.always(None)
        await trio.sleep(0.25)
        assert (await node.get(PROFILE, key=spent)).status == 402
        assert (await node.get(BAD)).status == 400
        assert (await node.get(PROFILE, headers={"idempotency-key": "one"})).status == 422
        circuit = (await node.get("/v1/status", key=None)).json["data"]["platforms"]["github"]["circuit"]
        assert circuit == "half_open"
        assert (await node.get(PROFILE)).status == 200


async def test_response_updates_counters_and_releases_its_lease(tmp_path: Path) -> None:
    """Steps 12 to 14: a success, a hit, a replay and a failure, by all counters."""
    async with open_test_node(tmp_path) as node:
        paid = {"window": 1, "charges": 1, "balance": -1, "key_used": 1, "upstream_calls": 1}
        async with changes(node, **paid):
            assert (await node.get(PROFILE)).status == 200
        async with changes(node, window=1):
            assert (await node.get(PROFILE)).status == 200
        claimed = {"idempotency-key": "one", "cache-control": "no-cache"}
        async with changes(node, **paid, claims=1):
            assert (await node.get(PROFILE, headers=claimed)).status == 200
        async with changes(node, window=1):
            assert (await node.get(PROFILE, headers=claimed)).json["idempotent_replay"] is True
        async with changes(node, window=1, charges=1, upstream_calls=1):
            assert (await node.get("/v1/github/profile?handle=missing")).status == 404
        await node.assert_sound()
