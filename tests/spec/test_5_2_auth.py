"""Section 5.2: authentication; each row is a key and its response. Budgets: `test_5_2_budgets.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from tests.fakes.node import OpenNode, open_test_node
from tests.spec.refusals import assert_refused
from tests.spec.shared_node import check_cases

PROFILE = "/v1/github/profile?handle=octocat"
FREE = ("/v1/utility/endpoints", "/v1/utility/endpoint?id=github/profile", "/v1/credits/balance")
Present = Callable[[OpenNode], Awaitable[str | None]]


def changed(change: Callable[[str], str | None]) -> Present:
    """Return a function that presents a changed form of the node's valid key."""

    async def present(node: OpenNode) -> str | None:
        await trio.lowlevel.checkpoint()
        return change(node.key)

    return present


def text(key: str) -> Present:
    return changed(lambda _good: key)


async def revoked(node: OpenNode) -> str:
    await node.operate("key.revoke", key=node.key_id)
    return node.key


async def expired(node: OpenNode) -> str:
    return await node.new_expired_key()


KEYS = {
    "no header": (changed(lambda _good: None), "MISSING_API_KEY"),
    "no prefix": (changed(lambda key: key[3:]), "INVALID_API_KEY"),
    "another prefix": (changed(lambda key: "xx_" + key[3:]), "INVALID_API_KEY"),
    "too short": (changed(lambda key: key[:-1]), "INVALID_API_KEY"),
    "too long": (changed(lambda key: key + "a"), "INVALID_API_KEY"),
    "another case": (changed(str.swapcase), "INVALID_API_KEY"),
    "unknown": (text("sl_" + "b" * 43), "INVALID_API_KEY"),
    "bytes that are not text": (text("sl_" + "\xff" * 43), "INVALID_API_KEY"),
    "a kilobyte": (text("sl_" + "c" * 1000), "INVALID_API_KEY"),
    "revoked": (revoked, "INVALID_API_KEY"),
    "expired": (expired, "INVALID_API_KEY"),
}


async def test_invalid_key_is_rejected_on_every_path(tmp_path: Path) -> None:
    await check_cases(KEYS, _invalid_key_is_rejected_on_every_path, tmp_path)


async def _invalid_key_is_rejected_on_every_path(node: OpenNode, case: tuple[Present, str]) -> None:
    present, code = case
    key = await present(node)
    for target in (PROFILE, *FREE, "/v1/no/such/path"):
        headers = {} if key is None else {"x-api-key": key.encode("latin-1")}
        answer = await node.get(target, key=None, headers=headers)
        assert assert_refused(answer, code, 401) == {}
        assert answer.json["credits_used"] == 0
        assert answer.json["credits_remaining"] is None
        assert "x-ratelimit-limit" not in answer.headers
    assert node.upstream.requests == []
    assert await node.money() == (100_000, 0)


async def test_new_key_has_prefix_and_46_characters_and_works(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        assert len(node.key) == 46
        assert node.key.startswith("sl_")
        assert (await node.get(PROFILE)).status == 200


async def test_revocation_applies_to_the_next_request(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        assert (await node.get(PROFILE)).status == 200
        await node.operate("key.revoke", key=node.key_id)
        assert_refused(await node.get(PROFILE), "INVALID_API_KEY", 401)


async def test_key_in_url_is_rejected_and_not_echoed(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for query in (f"api_key={node.key}", f"X-API-Key={node.key}", f"handle={node.key}", "apikey=anything"):
            answer = await node.get(f"/v1/github/profile?{query}")
            assert assert_refused(answer, "INVALID_REQUEST", 400)["reason"] == "key_in_query"
            assert node.key not in answer.body.decode()
        assert node.upstream.requests == []


async def test_cursor_containing_the_key_prefix_is_not_a_key(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answer = await node.get(f"/v1/events?cursor=cur_FR1tW8BlZGsl_Bl2{'e' * 60}")
        assert assert_refused(answer, "INVALID_REQUEST", 400)["reason"] == "invalid_param"


async def test_keys_of_an_account_share_balance_but_not_windows(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=10, limits={"requests_per_minute": 1}) as node:
        other, _ = await node.new_key(node.account)
        assert (await node.get("/v1/github/profile?handle=one")).json["credits_remaining"] == 9
        assert (await node.get("/v1/github/profile?handle=two", key=other)).json["credits_remaining"] == 8
        assert (await node.get("/v1/github/profile?handle=three", key=other)).status == 429


async def test_account_never_sees_transactions_of_another(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        request_id = (await node.get(PROFILE)).json["request_id"]
        stranger = await node.new_account()
        assert len(await node.entries(request_id)) == 1
        assert await node.entries(request_id, stranger) == []
