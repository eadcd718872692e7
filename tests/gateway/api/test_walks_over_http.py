"""Collect-until-N over sockets: what a walk reserves, what it costs, and what followers get (spec 4.3)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.fakes.calling import Answered
from tests.fakes.long_lists import WALKS, LongList, ids_of
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.fakes.upstream_server import until
from tests.gateway.api.routes.asking import at_once
from tests.spec.refusals import assert_free, assert_refused

HN = WALKS["hackernews/search"]
BSKY = WALKS["bluesky/user/posts"]
TABLES: dict[str, Any] = {"upstreams": {"defaults": {"retries": 0}}, "breaker": {"failures": 1000}}
NEED, RESERVED = 3, 7
"""Credits for 250 items: three full pages, and four extra pages that are reserved for short pages."""

every_walk = pytest.mark.parametrize("target", WALKS.values(), ids=WALKS.keys())


async def key_used(node: OpenNode, key_id: str = "") -> int:
    """Return the key's counter after all pending writes."""
    await node.money()
    keys = await node.operate("key.list", account=node.account)
    (used,) = [key["used"] for key in keys if key["id"] == (key_id or node.key_id)]
    return int(used)


async def moved(node: OpenNode, answer: Answered, account: str = "") -> list[int]:
    """Return the amounts of one request on the statement, oldest first."""
    entries = await node.entries(answer.json["request_id"], account)
    return [entry["amount"] for entry in reversed(entries)]


def warnings_of(answer: Answered) -> list[str]:
    warnings: list[str] = answer.json["data"].get("_warnings", [])
    return warnings


# The charge


@every_walk
async def test_walk_is_billed_by_page_and_refunds_the_rest(target: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=100, **TABLES) as node:
        pages = node.upstream.script = LongList(rows=420)
        first = await node.get(f"{target}&limit=250")
        body = first.json
        assert ids_of(body) == list(range(250))
        assert (body["credits_used"], body["credits_remaining"], body["cached"]) == (NEED, 97, False)
        assert (first.headers["x-credits-used"], first.headers["x-credits-remaining"]) == ("3", "97")
        assert (body["pagination"]["page_size"], body["pagination"]["has_more"]) == (250, True)
        assert warnings_of(first) == []
        assert await moved(node, first) == [-RESERVED, RESERVED - NEED]
        assert (await key_used(node), await node.money()) == (NEED, (97, 0))

        second = await node.get(f"{target}&limit=250&cursor={body['pagination']['next_cursor']}")
        assert ids_of(second.json) == list(range(250, 420))
        assert second.json["pagination"] == {"next_cursor": None, "has_more": False, "page_size": 170}
        assert second.json["credits_used"] == 3, "the last page of the first walk is read again for its remaining rows"
        hit = await node.get(f"{target}&limit=250&max_credits=0")
        assert (hit.json["cached"], hit.json["credits_used"]) == (True, 0)
        assert (hit.json["data"], hit.json["pagination"]) == (body["data"], body["pagination"])
        assert pages.asked == [(page, 100) for page in (0, 1, 2, 2, 3, 4)]
        assert (await key_used(node), await node.money()) == (6, (94, 0))
        await node.assert_sound()


async def test_empty_list_is_free_and_head_is_billed_like_get(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=100, **TABLES) as node:
        node.upstream.script = LongList(rows=0)
        answer = await node.get(f"{HN}&limit=250")
        assert (answer.json["data"]["items"], answer.json["credits_used"]) == ([], 0)
        assert await moved(node, answer) == [-RESERVED, RESERVED]
        node.upstream.script = LongList()
        head = await node.get(f"{HN}1&limit=250", method="HEAD")
        assert (head.status, head.body, head.headers["x-credits-used"]) == (200, b"", "3")
        assert await node.money() == (97, 0)


# Few credits


async def test_low_balance_shortens_a_walk_with_a_reason(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=5, **TABLES) as node:
        node.upstream.script = LongList(page_max=40)
        answer = await node.get(f"{HN}&limit=250")
        assert ids_of(answer.json) == list(range(160))
        assert (answer.json["credits_used"], answer.json["credits_remaining"]) == (4, 1)
        assert warnings_of(answer) == [
            "160 of 250 items were collected: the credits ran out after page 4; continue with next_cursor"
        ]
        assert await moved(node, answer) == [-4]
        await node.operate("credits.grant", account=node.account, amount=100)
        rest = await node.get(f"{HN}&limit=250&cursor={answer.json['pagination']['next_cursor']}")
        assert ids_of(rest.json)[0] == 160
        again = await node.get(f"{HN}&limit=250")
        assert (again.json["cached"], len(ids_of(again.json))) == (False, 250), "a shortened walk is not cached"
        await node.assert_sound()


async def test_key_budget_limits_a_walk_like_the_balance(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **TABLES) as node:
        node.upstream.script = LongList(page_max=40)
        key, key_id = await node.new_key(node.account, credit_limit=9)
        short = await node.get(f"{HN}&limit=250", key=key)
        assert (len(ids_of(short.json)), short.json["credits_used"]) == (240, 6)
        assert warnings_of(short) == [
            "240 of 250 items were collected: the credits ran out after page 6; continue with next_cursor"
        ]
        assert await key_used(node, key_id) == 6, "a walk reserves only half of the spare credits"
        await node.operate("key.update", key=key_id, credit_limit=8)
        refused = await node.get(f"{HN}&limit=250", key=key)
        details = assert_refused(refused, "KEY_BUDGET_EXCEEDED", 402)
        assert details == {"reason": "key_budget_reached", "credits_required": NEED}
        await assert_free(node, refused)
        node.upstream.script = LongList()
        await node.operate("key.update", key=key_id, credit_limit=9)
        whole = await node.get(f"{HN}&limit=250", key=key)
        assert (len(ids_of(whole.json)), whole.json["credits_used"]) == (250, 3)
        assert await key_used(node, key_id) == 9
        await node.assert_sound()


async def test_max_credits_limits_the_reservation(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=100, **TABLES) as node:
        node.upstream.script = LongList(page_max=25)
        for allowed, reserved in ((3, 3), (5, 5), (7, 7), (100, 7)):
            target = f"{HN}{allowed}&limit=250"
            answer = await node.get(f"{target}&max_credits={allowed}")
            assert await moved(node, answer) == [-reserved]
            assert (len(ids_of(answer.json)), bool(warnings_of(answer))) == (reserved * 25, reserved < RESERVED)
            again = await node.get(target)
            assert again.json["cached"] is (reserved == RESERVED), "a walk cut short by a maximum is not cached"


async def test_dry_run_reports_cost_and_reservation(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=100, **TABLES) as node:
        node.upstream.script, target = LongList(), HN
        priced = await node.get(f"{target}&limit=250&dry_run=1")
        assert priced.json["data"] == {
            "estimated_credits": NEED,
            "would_hit_cache": False,
            "reserved_credits": RESERVED,
            "limit": 250,
        }
        bounded = await node.get(f"{target}&limit=250&max_credits=4&dry_run=1")
        assert bounded.json["data"]["reserved_credits"] == 4
        assert node.upstream.requests == []
        cursor = (await node.get(f"{target}&limit=250")).json["pagination"]["next_cursor"]
        hit = await node.get(f"{target}&limit=250&dry_run=1")
        assert hit.json["data"] == {"estimated_credits": 0, "would_hit_cache": True, "limit": 250}
        from_the_middle_of_a_page = await node.get(f"{target}&limit=250&dry_run=1&cursor={cursor}")
        assert from_the_middle_of_a_page.json["data"]["estimated_credits"] == 3
        assert await node.money() == (97, 0)


# Pages that fail


async def test_failed_page_keeps_the_earlier_ones(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=100, **TABLES) as node:
        node.upstream.script, target = LongList(fails_at=2), HN
        answer = await node.get(f"{target}&limit=250")
        assert (answer.status, ids_of(answer.json)) == (200, list(range(200)))
        assert (answer.json["credits_used"], answer.json["credits_remaining"]) == (2, 98)
        (warning,) = warnings_of(answer)
        assert warning.startswith("200 of 250 items were collected: page 3 could not be read (")
        assert await moved(node, answer) == [-RESERVED, RESERVED - 2]
        node.upstream.script = LongList()
        assert (await node.get(f"{target}&limit=250")).json["cached"] is False, "a shortened walk is not cached"
        assert answer.json["pagination"]["has_more"] is True
        rest = await node.get(f"{target}&limit=250&cursor={answer.json['pagination']['next_cursor']}")
        assert (ids_of(rest.json), rest.json["credits_used"]) == (list(range(200, 420)), 3)
        await node.assert_sound()


async def test_walk_out_of_time_returns_its_pages(tmp_path: Path) -> None:
    tables = {**TABLES, "server": {"port": 0, "request_timeout_s": 1, "drain_s": 1}}
    async with open_test_node(tmp_path, credits=100, **tables) as node:
        node.upstream.script = LongList(fails_at=2, failing=ScriptedAnswer(delay_s=20.0))
        answer = await node.get(f"{HN}&limit=500")
        assert (ids_of(answer.json), answer.json["credits_used"]) == (list(range(200)), 2)
        assert "page 3 could not be read" in warnings_of(answer)[0]
        assert await node.money() == (98, 0)


# Concurrent identical requests


async def test_identical_concurrent_walks_share_one_walk_and_charge(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=3, **TABLES) as node:
        pages = node.upstream.script = LongList(delay_s=0.1)
        answers = await at_once(node, *[f"{HN}&limit=250"] * 10)
        assert Counter(answer.json["credits_used"] for answer in answers) == {3: 1, 0: 9}
        assert Counter(answer.json["cached"] for answer in answers) == {True: 9, False: 1}
        assert {len(ids_of(answer.json)) for answer in answers} == {250}
        assert (len(pages.asked), await node.money()) == (3, (0, 0))


async def test_follower_does_not_get_a_leaders_credit_limited_result(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=100, **TABLES) as node:
        pages = node.upstream.script = LongList(page_max=50, delay_s=0.05)
        poor = await node.new_account(balance=3)
        poor_key, _ = await node.new_key(poor)
        answers: dict[str, Answered] = {}

        async def ask(name: str, key: str) -> None:
            answers[name] = await node.get(f"{HN}&limit=250", key=key)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "leader", poor_key)
            await until(lambda: pages.asked)
            for number in range(3):
                nursery.start_soon(ask, f"follower {number}", node.key)
        assert len(ids_of(answers.pop("leader").json)) == 150
        assert {len(ids_of(answer.json)) for answer in answers.values()} == {250}
        assert sorted(answer.json["credits_used"] for answer in answers.values()) == [0, 0, 5]
        assert (await node.money(), await node.money(poor)) == ((95, 0), (0, 0))
        assert len(pages.asked) == 3 + 5


# Idempotency


async def test_short_result_is_replayed_unchanged_and_a_failed_walk_frees_its_key(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=100, **TABLES) as node:
        target, key = f"{HN}&limit=50", {"idempotency-key": "one"}
        node.upstream.script = LongList(fails_at=0)
        assert (await node.get(target, headers=key)).status == 502
        node.upstream.script = LongList(page_max=20, fails_at=1)
        first = await node.get(target, headers=key)
        assert (len(ids_of(first.json)), first.json["credits_used"], bool(warnings_of(first))) == (20, 1, True)
        node.upstream.script = LongList(page_max=20)
        replay = await node.get(target, headers=key)
        assert replay.json["data"] == first.json["data"]
        repeated = await node.get(target, headers={"idempotency-key": "two"})
        assert (len(ids_of(repeated.json)), repeated.json["credits_used"]) == (50, 3)
        assert await node.money() == (96, 0)
