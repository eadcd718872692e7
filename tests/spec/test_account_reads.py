"""Decisions 4: the account's own reads, free and never cached, and the statement's entry for each kind of request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.upstream_server import until
from tests.spec.records import TIME, assert_shape
from tests.spec.refusals import assert_free, assert_refused

BALANCE, TRANSACTIONS = "/v1/credits/balance", "/v1/credits/transactions"
PROFILE = "/v1/github/profile?handle=octocat"
ITEM = {
    "id",
    "type",
    "amount",
    "balance_after",
    "description",
    "endpoint",
    "platform",
    "request_id",
    "key_id",
    "created_at",
    "source",
}


async def data(node: OpenNode, target: str) -> dict[str, Any]:
    answer = await node.get(target)
    assert answer.status == 200, answer.body
    body = answer.json
    assert (body["platform"], body["endpoint"]) == ("account", target.partition("?")[0])
    await assert_free(node, answer)
    assert await node.entries(body["request_id"]) == []
    shown: dict[str, Any] = body["data"]
    return shown


async def test_balance_shows_spendable_held_and_deducted_credits(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=10) as node:
        nothing = {"last_24h": 0, "last_7d": 0}
        assert await data(node, BALANCE) == {"balance": 10, "held": 0, "recent_deductions": nothing}
        assert (await node.get(PROFILE)).status == 200
        assert (await node.get("/v1/github/profile?handle=missing")).status == 404
        assert await node.money() == (9, 0)
        spent = {"last_24h": 1, "last_7d": 1}
        assert await data(node, BALANCE) == {"balance": 9, "held": 0, "recent_deductions": spent}


async def test_credits_of_a_running_call_stay_reserved_until_its_response(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=10) as node:
        async with trio.open_nursery() as nursery:
            with node.upstream.holding():
                nursery.start_soon(node.get, PROFILE)
                await until(lambda: node.upstream.requests)
                shown = (await node.get(BALANCE)).json
                assert (shown["data"]["balance"], shown["data"]["held"], shown["credits_remaining"]) == (9, 1, 9)
        assert await node.money() == (9, 0)


async def test_statement_has_every_entry_kind_newest_first(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=10) as node:
        await node.operate("credits.grant", account=node.account, amount=5)
        paid = (await node.get(PROFILE)).json["request_id"]
        missing = (await node.get("/v1/github/profile?handle=missing")).json["request_id"]
        items = (await data(node, TRANSACTIONS))["items"]
        said = [(item["type"], item["amount"], item["balance_after"], item["request_id"]) for item in items]
        assert said == [
            ("refund", 1, 14, missing),
            ("deduction", -1, 13, missing),
            ("deduction", -1, 14, paid),
            ("purchase", 5, 15, None),
            ("bonus", 10, 10, None),
        ]
        for item in items:
            assert item.keys() == ITEM
            assert_shape({"created_at": item["created_at"]}, {"created_at": TIME}, "item", "item")
        billed = items[2]
        assert (billed["platform"], billed["endpoint"]) == ("github", "/v1/github/profile")
        assert billed["key_id"] == node.key_id
        assert [item["created_at"] for item in items] == sorted((i["created_at"] for i in items), reverse=True)


async def test_statement_filters_by_request_and_shows_50_per_page(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        ids = [(await node.get(f"/v1/github/profile?handle=user{n}")).json["request_id"] for n in range(55)]
        for limit, due in (("", 50), ("?limit=1", 1), ("?limit=100", 56)):
            assert len((await data(node, f"{TRANSACTIONS}{limit}"))["items"]) == due
        (only,) = (await data(node, f"{TRANSACTIONS}?request_id={ids[7]}"))["items"]
        assert only["request_id"] == ids[7]
        assert (await data(node, f"{TRANSACTIONS}?request_id=req_of_nobody"))["items"] == []


async def test_malformed_request_id_matches_no_request(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        billed = (await node.get(PROFILE)).json["request_id"]
        for more in ("x", "%0Ax"):
            assert (await data(node, f"{TRANSACTIONS}?request_id={billed}{more}"))["items"] == []
        for more in ("%00", "%00x"):
            refused = await node.get(f"{TRANSACTIONS}?request_id={billed}{more}")
            assert assert_refused(refused, "INVALID_REQUEST", 400)["param"] == "request_id"


async def test_invalid_limit_is_rejected(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for limit in ("0", "-1", "x"):
            refused = await node.get(f"{TRANSACTIONS}?limit={limit}")
            assert assert_refused(refused, "INVALID_REQUEST", 400)["param"] == "limit"


async def test_head_of_reads_has_headers_without_body(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for target in (BALANCE, TRANSACTIONS, "/v1/utility/endpoints"):
            got, head = await node.get(target), await node.get(target, method="HEAD")
            assert (head.status, head.body) == (200, b"")
            assert head.headers.keys() == got.headers.keys()
            assert head.headers["content-length"] == got.headers["content-length"]
