"""Decisions 6, price options: `max_credits` rejects before the charge, `dry_run` only prices."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from tests.fakes.node import OpenNode, open_test_node
from tests.spec.refusals import assert_free, assert_refused
from tests.spec.rows import Row, Rows, check_rows, every_platform

VELOCITY = "/v1/github/user/profile-velocity?handle=octocat"
NO_CACHE = {"cache-control": "no-cache"}


async def test_price_within_max_credits_is_charged_unchanged(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for calls, allowed in enumerate((5, 6, 1_000_000), start=1):
            answer = await node.get(f"{VELOCITY}&max_credits={allowed}", headers=NO_CACHE)
            assert answer.json["credits_used"] == 5
            assert await node.money() == (100_000 - 5 * calls, 0)


async def test_price_above_max_credits_is_rejected_before_any_effect(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for method, allowed in product(("GET", "HEAD"), (0, 1, 4)):
            answer = await node.get(f"{VELOCITY}&max_credits={allowed}", method=method)
            assert (answer.status, answer.headers["x-credits-used"]) == (402, "0")
            assert await node.entries(answer.headers["x-request-id"]) == []
            assert node.upstream.requests == []
            assert await node.money() == (100_000, 0)


async def test_hit_passes_any_max_credits_and_refresh_does_not(tmp_path: Path) -> None:
    """`max_credits` limits the reservation, and a hit reserves nothing. It is not part of the request's identity."""
    async with open_test_node(tmp_path) as node:
        assert (await node.get(VELOCITY)).json["cached"] is False
        hit = (await node.get(f"{VELOCITY}&max_credits=0")).json
        assert (hit["cached"], hit["credits_used"]) == (True, 0)
        refused = await node.get(f"{VELOCITY}&max_credits=4", headers=NO_CACHE)
        details = assert_refused(refused, "INSUFFICIENT_CREDITS", 402)
        assert details == {"reason": "above_max_credits", "credits_required": 5}
        await assert_free(node, refused)


async def test_dry_run_above_max_credits_is_rejected_like_its_call(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        refused = await node.get(f"{VELOCITY}&dry_run=1&max_credits=4")
        details = assert_refused(refused, "INSUFFICIENT_CREDITS", 402)
        assert details == {"reason": "above_max_credits", "credits_required": 5}
        await assert_free(node, refused)
        assert (await node.get(f"{VELOCITY}&dry_run=1&max_credits=5")).json["data"]["estimated_credits"] == 5


@every_platform
async def test_dry_run_estimate_is_the_minimum_max_credits(rows: Rows, node: OpenNode) -> None:
    """For every endpoint: a dry run calls no upstream, and `max_credits` must be at least its estimate."""
    await check_rows(node, rows, _dry_run_estimate_is_the_minimum_max_credits)


async def _dry_run_estimate_is_the_minimum_max_credits(node: OpenNode, row: Row) -> None:
    priced = await node.get(row.target(dry_run=1))
    data = priced.json["data"]
    price = data["estimated_credits"]
    preview = {"resolved", "candidates"} if row.endpoint.preview else set()
    assert data.keys() - {"reserved_credits", "limit"} == {"estimated_credits", "would_hit_cache"} | preview
    assert price in row.cost or (row.endpoint.price is None and price % row.cost.start == 0)
    assert data["would_hit_cache"] is False
    refused = await node.get(row.target(max_credits=price - 1))
    assert assert_refused(refused, "INSUFFICIENT_CREDITS", 402)["credits_required"] == price
    assert node.upstream.requests == []
    for free in (priced, refused):
        await assert_free(node, free)
    used = (await node.get(row.target(max_credits=price))).json["credits_used"]
    assert 0 < used <= price
    assert used == price or row.endpoint.collect or row.endpoint.price, "only metered endpoints may cost less"
    assert await node.money() == (100_000 - used, 0)


async def test_dry_run_needs_no_credits_and_counts_only_in_the_window(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=0, limits={"requests_per_minute": 3}) as node:
        spent, _ = await node.new_key(node.account, credit_limit=0)
        for key in (node.key, spent):
            answer = await node.get(f"{VELOCITY}&dry_run=true", key=key)
            assert answer.json["data"] == {"estimated_credits": 5, "would_hit_cache": False}
            assert answer.headers["x-ratelimit-remaining"] == "2"
            assert answer.json["credits_remaining"] == 0
            assert await node.entries(answer.json["request_id"]) == []


async def test_dry_run_reports_whether_its_call_would_hit_the_cache(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await node.get(VELOCITY)
        for headers, more, data in (
            ({}, "", {"estimated_credits": 0, "would_hit_cache": True}),
            ({}, "&max_credits=0", {"estimated_credits": 0, "would_hit_cache": True}),
            (NO_CACHE, "", {"estimated_credits": 5, "would_hit_cache": False}),
        ):
            assert (await node.get(f"{VELOCITY}&dry_run=1{more}", headers=headers)).json["data"] == data


async def test_dry_run_validates_like_the_call(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for target in (
            "/v1/github/profile?dry_run=1",
            "/v1/github/profile?handle=%FF&dry_run=1",
            "/v1/github/profile?handel=octocat&dry_run=1",
            "/v1/github/search?query=a&cursor=cur_AAAA&dry_run=1",
            "/v1/github/repo?url=https://example.com/a/b&dry_run=1",
            "/v1/github/profile?handle=octocat&dry_run=perhaps",
        ):
            answer = await node.get(target)
            assert_refused(answer, "INVALID_REQUEST", 400)
            await assert_free(node, answer)
            assert node.upstream.requests == []


async def test_dry_run_rejects_idempotency_key_like_the_call(tmp_path: Path) -> None:
    headers = {"idempotency-key": "two words"}
    async with open_test_node(tmp_path) as node:
        assert_refused(await node.get(f"{VELOCITY}&dry_run=1", headers=headers), "INVALID_REQUEST", 400)
        body = {
            "recipe": "github/profile",
            "params": {"handle": "octocat"},
            "cadence": "daily",
            "track": {"metrics": ["author.followers"]},
        }
        made = await node.client.post(
            f"{node.url}/v1/monitors?dry_run=1", json=body, headers={"x-api-key": node.key, **headers}
        )
        assert (made.status_code, made.json()["error"]["details"]["param"]) == (400, "Idempotency-Key")


async def test_unlimited_account_never_runs_out_and_is_recorded_in_ledger(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        account = (await node.operate("account.create", name="own", credits=2, unlimited=True))["id"]
        key, _ = await node.new_key(account)
        answer = (await node.get(VELOCITY, key=key)).json
        assert (answer["credits_used"], answer["credits_remaining"]) == (5, 0)
        entries = await node.entries(answer["request_id"], account)
        assert [(entry["type"], entry["amount"]) for entry in entries] == [("deduction", -5), ("bonus", 3)]
        failed = (await node.get("/v1/github/profile?handle=missing", key=key)).json
        entries = await node.entries(failed["request_id"], account)
        assert [entry["amount"] for entry in entries] == [1, -1, 1], "expected the grant, the deduction and the refund"
        assert (failed["credits_used"], failed["credits_remaining"]) == (0, 1)
        await node.assert_sound()
