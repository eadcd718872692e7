"""Section 8 and decisions 7: durations and sizes of idempotency claims, and the cost of replays.

`tests/gateway/calls/test_claimed_calls.py` tests repeated, cancelled and recovered calls with a key.
Method for durations: make the claim in the store older.
"""

from __future__ import annotations

from pathlib import Path

import trio

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import json_answer
from tests.fakes.upstream_server import until
from tests.spec.refusals import assert_free, assert_refused

PROFILE = "/v1/github/profile?handle=octocat"
OTHER = "/v1/github/profile?handle=hubot"
DAY_S = 86_400
MARGIN_S = 30
"""The clock advances while a test runs."""
REPLAY_BYTES = 65_536


async def ask(node: OpenNode, target: str = PROFILE, key: str = "one", method: str = "GET") -> Answered:
    return await node.get(target, headers={"idempotency-key": key, "cache-control": "no-cache"}, method=method)


async def age(node: OpenNode, by_s: float) -> None:
    """Make every claim in the store older."""
    await node.node.stores.store.write(lambda tx: tx.run("UPDATE claims SET at = at - ?", (by_s,)))


async def test_finished_outcome_is_kept_for_24_hours(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        first = await ask(node)
        await age(node, DAY_S - MARGIN_S)
        replay = await ask(node)
        assert (replay.json["idempotent_replay"], replay.json["request_id"]) == (True, first.json["request_id"])
        await age(node, MARGIN_S)
        repeated = await ask(node)
        assert (repeated.json["credits_used"], "idempotent_replay" in repeated.json) == (1, False)
        assert await node.money() == (99_998, 0)


async def test_key_can_be_reused_after_a_day(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await ask(node)
        assert_refused(await ask(node, OTHER), "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", 422)
        await age(node, DAY_S)
        assert (await ask(node, OTHER)).json["credits_used"] == 1


async def test_unfinished_claim_lasts_5_minutes_and_late_owner_is_not_charged(tmp_path: Path) -> None:
    """The request that took over the key has paid; the late owner is refunded, and its outcome is discarded."""
    async with open_test_node(tmp_path) as node:
        late: list[Answered] = []

        async def zombie() -> None:
            late.append(await ask(node))

        async with trio.open_nursery() as nursery:
            with node.upstream.holding():
                nursery.start_soon(zombie)
                await until(lambda: node.upstream.requests)
                node.upstream.hold_no_more()
                await age(node, 300 - MARGIN_S)
                assert_refused(await ask(node), "IDEMPOTENCY_IN_PROGRESS", 409)
                await age(node, MARGIN_S)
                newer = await ask(node)
                assert (newer.status, newer.json["credits_used"]) == (200, 1)
        assert (late[0].status, late[0].json["credits_used"]) == (200, 0)
        assert await node.net(late[0].json["request_id"]) == 0
        assert (await ask(node)).json["request_id"] == newer.json["request_id"]
        assert await node.money() == (99_999, 0)
        await node.assert_sound()


async def test_outcome_of_64_kb_is_replayed_and_a_larger_one_is_not(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:

        async def of_bio(size: int, key: str) -> Answered:
            node.upstream.always(json_answer({"id": 1, "login": "octocat", "bio": "x" * size}))
            return await ask(node, key=key)

        room = REPLAY_BYTES - stored_bytes(await of_bio(1, "short")) + 1
        for size, key in ((room, "whole"), (room + 1, "long")):
            assert stored_bytes(await of_bio(size, key)) == REPLAY_BYTES + size - room
        assert (await ask(node, key="whole")).json["idempotent_replay"] is True
        refused = await ask(node, key="long")
        assert_refused(refused, "IDEMPOTENCY_REPLAY_UNAVAILABLE", 409)
        await assert_free(node, refused)


def stored_bytes(answer: Answered) -> int:
    """Return the size of the stored part of a response: everything except variable fields."""
    head, tail = answer.body.split(b'"platform"')[0], answer.body[answer.body.rindex(b',"credits_used"') :]
    return len(answer.body) - len(head) - len(tail)


async def test_key_may_have_1_to_255_visible_characters(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for key in ("x", "x" * 255, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"):
            assert (await ask(node, key=key)).json["credits_used"] == 1
            assert (await ask(node, key=key)).json["idempotent_replay"] is True


async def test_replay_needs_no_balance_or_budget(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=1) as node:
        await ask(node)
        assert_refused(await ask(node, OTHER, "two"), "INSUFFICIENT_CREDITS", 402)
        assert (await ask(node)).json["credits_remaining"] == 0
        await node.operate("key.update", key=node.key_id, credit_limit=1)
        replay = await ask(node)
        assert (replay.json["credits_used"], replay.headers["x-credits-used"]) == (0, "0")
        assert len(await node.entries(replay.json["request_id"])) == 1, (
            "the only entry is the deduction of the first response"
        )


async def test_replay_shows_current_balance_and_counts_in_the_window(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits={"requests_per_minute": 10}) as node:
        assert (await ask(node)).json["credits_remaining"] == 99_999
        await node.operate("credits.grant", account=node.account, amount=11)
        replay = await ask(node)
        assert replay.json["credits_remaining"] == 100_010
        assert replay.headers["x-ratelimit-remaining"] == "8"


async def test_head_and_get_are_the_same_request_for_a_key(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        head = await ask(node, method="HEAD")
        assert (head.headers["x-credits-used"], head.body) == ("1", b"")
        replay = await ask(node)
        assert replay.json["idempotent_replay"] is True
        assert replay.headers["x-request-id"] == head.headers["x-request-id"]


async def test_key_of_a_rejected_request_is_not_bound(tmp_path: Path) -> None:
    """400, 402 and a retryable failure leave the key free for any other request."""
    async with open_test_node(tmp_path, credits=4, upstreams={"defaults": {"retries": 0}}) as node:
        for target, status in (
            ("/v1/github/profile", 400),
            ("/v1/github/user/profile-velocity?handle=octocat", 402),
            ("/v1/github/profile?handle=broken", 502),
        ):
            assert (await ask(node, target)).status == status
        assert (await ask(node)).json["credits_used"] == 1


async def test_final_error_binds_the_key_to_its_request(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        missing = "/v1/github/profile?handle=missing"
        first, again = await ask(node, missing), await ask(node, missing)
        assert (again.status, again.json["error"]) == (404, first.json["error"])
        assert (again.json["idempotent_replay"], again.json["success"]) == (True, False)
        assert len(node.upstream.requests) == 1
        assert_refused(await ask(node), "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", 422)


async def test_key_at_another_endpoint_conflicts_during_and_mismatches_after_the_first_request(tmp_path: Path) -> None:
    others = ("/v1/github/search?query=a", "/v1/hackernews/top")
    async with open_test_node(tmp_path) as node:
        async with trio.open_nursery() as nursery:
            with node.upstream.holding():
                nursery.start_soon(ask, node)
                await until(lambda: node.upstream.requests)
                for target in others:
                    assert_refused(await ask(node, target), "IDEMPOTENCY_KEY_CONFLICT", 409)
                assert_refused(await ask(node, OTHER), "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", 422)
        for target in others:
            assert_refused(await ask(node, target), "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", 422)
        assert await node.money() == (99_999, 0)


async def test_key_is_bound_to_call_options(tmp_path: Path) -> None:
    """Requests that are one entry in the cache may be two requests for a key."""
    async with open_test_node(tmp_path) as node:
        for resource, options in (
            ("map", ("&fresh=true", "&max_credits=5")),
            ("scrape", ("&max_age=0", "&timeout=5000")),
        ):
            page = f"/v1/web/{resource}?url=https://example.com/"
            assert (await ask(node, page, resource)).status == 200
            for more in options:
                assert_refused(await ask(node, page + more, resource), "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", 422)
            assert (await ask(node, page, resource)).json["idempotent_replay"] is True


async def test_response_is_replayed_in_any_requested_format(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        search = "/v1/hackernews/search?query=trio"
        await ask(node, search)
        table = await ask(node, f"{search}&format=csv")
        assert (table.status, table.headers["x-idempotent-replay"]) == (200, "true")
