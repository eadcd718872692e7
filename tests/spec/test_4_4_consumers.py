"""Sections 3, 4.4 (rule 4) and decisions 13: named consumers over HTTP."""

from __future__ import annotations

from pathlib import Path

from events.consumers.rules import DAY_S, LAPSE_S, SEEN_S
from events.instants import unix
from tests.fakes.calling import Answered
from tests.fakes.feeding import (
    CONSUMERS,
    FEED,
    ack,
    alert,
    append,
    append_some,
    cursor_of,
    drop_before,
    end,
    low,
    page,
    post,
    revoked,
    subjects,
)
from tests.fakes.node import OpenNode, open_test_node
from tests.spec.refusals import assert_free, assert_refused

SHOWN = {"consumer", "status", "cursor", "unread", "types", "subject_id", "created_at", "last_read_at"}


async def idle_for(node: OpenNode, seconds: float) -> None:
    """Simulate that the consumer was not read for this time."""
    await node.node.stores.store.write(lambda tx: tx.run("UPDATE consumers SET seen_at = seen_at - ?", (seconds,)))


async def shown(node: OpenNode, name: str = "one", key: str = "") -> Answered:
    return await node.get(f"{CONSUMERS}/{name}", key=key)


async def test_consumer_is_created_by_first_read_and_belongs_to_key(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 2)
        assert_refused(await shown(node), "RESOURCE_NOT_FOUND", 404)
        assert subjects(await page(node, "consumer=one")) == ["key_0", "key_1"]
        assert (await shown(node)).status == 200
        other, _ = await node.new_key(node.account)
        assert_refused(await shown(node, key=other), "RESOURCE_NOT_FOUND", 404)
        assert_refused(await ack(node, "one", "oldest", key=other), "RESOURCE_NOT_FOUND", 404)
        assert subjects(await page(node, "consumer=one&start=now", key=other)) == [], (
            "the other key has its own consumer of that name"
        )
        assert subjects(await page(node, "consumer=one")) == ["key_0", "key_1"]


async def test_start_applies_only_to_first_read_and_defaults_to_oldest(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 2)
        assert subjects(await page(node, "consumer=old&start=oldest")) == ["key_0", "key_1"]
        assert subjects(await page(node, "consumer=old&start=now")) == ["key_0", "key_1"]
        assert subjects(await page(node, "consumer=new&start=now")) == []
        await append_some(node, 1, first=2)
        assert subjects(await page(node, "consumer=new&start=oldest")) == ["key_2"]


async def test_read_commits_nothing_and_repeats_until_acknowledged(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 5)
        first = await page(node, "consumer=one&limit=2")
        await append_some(node, 2, first=5)
        again = await page(node, "consumer=one&limit=2")
        assert (again["data"]["items"], again["pagination"]) == (first["data"]["items"], first["pagination"])
        assert (first["data"]["unread"], again["data"]["unread"]) == (5, 7)
        acked = (await ack(node, "one", cursor_of(first))).json
        assert acked["data"] == {"consumer": "one", "cursor": cursor_of(first), "advanced": True, "unread": 5}
        assert acked["credits_used"] == 0
        assert subjects(await page(node, "consumer=one&limit=2")) == ["key_2", "key_3"]


async def test_any_position_on_the_served_page_can_be_acknowledged(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 4)
        items = (await page(node, "consumer=one"))["data"]["items"]
        assert (await ack(node, "one", items[0]["cursor"])).json["data"]["unread"] == 3
        assert (await ack(node, "one", items[2]["id"])).json["data"]["unread"] == 1
        assert subjects(await page(node, "consumer=one")) == ["key_3"]


async def test_acknowledgement_never_moves_a_consumer_back(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 3)
        items = (await page(node, "consumer=one"))["data"]["items"]
        assert (await ack(node, "one", items[1]["cursor"])).json["data"]["advanced"] is True
        for cursor in (items[1]["cursor"], items[0]["cursor"], items[0]["id"], "oldest"):
            data = (await ack(node, "one", cursor)).json["data"]
            assert data == {"consumer": "one", "cursor": items[1]["cursor"], "advanced": False, "unread": 1}
        assert subjects(await page(node, "consumer=one")) == ["key_2"]


async def test_acknowledging_past_served_page_returns_free_400(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 3)
        await page(node, "consumer=one&limit=2")
        for cursor in ("now", (await page(node))["data"]["items"][2]["id"], await end(node)):
            refused = await ack(node, "one", cursor)
            details = assert_refused(refused, "INVALID_REQUEST", 400)
            assert (details["reason"], details["param"]) == ("invalid_param", "cursor")
            assert details["next_step"]
            await assert_free(node, refused)
        assert subjects(await page(node, "consumer=one&limit=2")) == ["key_0", "key_1"]


async def test_cursor_of_empty_page_can_be_acknowledged(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 2)
        body = await page(node, "consumer=one&types=monitor.*")
        assert (body["data"]["items"], body["data"]["unread"], cursor_of(body)) == ([], 0, await end(node))
        acked = (await ack(node, "one", cursor_of(body))).json["data"]
        assert acked == {"consumer": "one", "cursor": cursor_of(body), "advanced": True, "unread": 0}


BOUND = "types=key.*,credits.low&subject_id=key_1,key_2"


async def test_filters_are_bound_at_first_read_and_optional(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append(node, revoked(node.account, 1), low(node.account), revoked(node.account, 3))
        for query in (
            BOUND,
            "",
            "types=credits.low,key.revoked&subject_id=key_2,key_1,key_2",
            "types=key.*,credits.low",
            "subject_id=key_1,key_2",
            "types=&subject_id=",
        ):
            assert subjects(await page(node, f"consumer=one&{query}")) == ["key_1"], query


async def test_different_later_filter_conflicts(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await page(node, f"consumer=one&{BOUND}")
        for query, param in (
            ("types=key.*", "types"),
            ("types=*", "types"),
            ("subject_id=key_1", "subject_id"),
            ("types=key.*,credits.low&subject_id=key_3", "subject_id"),
            ("types=*&subject_id=key_3", "types"),
        ):
            refused = await node.get(f"{FEED}?consumer=one&{query}")
            details = assert_refused(refused, "INVALID_REQUEST", 400)
            assert (details["reason"], details["param"]) == ("conflicting_params", param), query
            assert details["next_step"]
            await assert_free(node, refused)


async def test_absent_filter_of_a_consumer_equals_all_types(tmp_path: Path) -> None:
    """A consumer without filters receives all types; listing all of them is the same."""
    async with open_test_node(tmp_path) as node:
        await page(node, "consumer=one")
        assert (await node.get(f"{FEED}?consumer=one&types=*")).status == 200
        for query, param in (("types=key.*", "types"), ("subject_id=key_1", "subject_id")):
            refused = await node.get(f"{FEED}?consumer=one&{query}")
            assert assert_refused(refused, "INVALID_REQUEST", 400)["param"] == param


async def test_idle_consumer_gets_410_once_and_restarts_at_oldest(tmp_path: Path) -> None:
    """Section 3: idle over 30 days."""
    async with open_test_node(tmp_path) as node:
        await append_some(node, 4)
        first = await page(node, "consumer=one&limit=2")
        await ack(node, "one", cursor_of(first))
        await idle_for(node, LAPSE_S + SEEN_S + 60)
        assert (await shown(node)).json["data"]["consumer"]["status"] == "lapsed"
        refused = await node.get(f"{FEED}?consumer=one")
        details = assert_refused(refused, "CURSOR_EXPIRED", 410)
        assert details["reason"] == "retention_passed"
        assert refused.json["error"]["message"] == "This consumer was idle for too long."
        stood_at = first["data"]["items"][1]["created_at"]
        assert (details["missed_from"], details["missed_until"]) == (stood_at, stood_at), "no event was missed"
        await assert_free(node, refused)
        restarted = await page(node, "consumer=one")
        assert subjects(restarted) == [f"key_{number}" for number in range(4)]
        assert restarted["data"]["restarted_from"] == cursor_of(first)
        assert restarted["data"]["dropped"] == 0
        again = await page(node, "consumer=one")
        assert again["data"]["items"] == restarted["data"]["items"]
        assert "restarted_from" not in again["data"], "the lapse is reported twice"


async def test_idle_consumer_of_empty_log_has_missed_nothing(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await page(node, "consumer=one")
        await idle_for(node, LAPSE_S + SEEN_S + 60)
        details = assert_refused(await node.get(f"{FEED}?consumer=one"), "CURSOR_EXPIRED", 410)
        assert (details["missed_from"], details["missed_until"]) == (None, None)
        assert (await page(node, "consumer=one"))["data"]["restarted_from"] == details["oldest_cursor"]


async def test_consumer_with_removed_events_restarts_and_gets_their_number(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 5)
        items = (await page(node, "consumer=one"))["data"]["items"]
        await ack(node, "one", items[0]["cursor"])
        await drop_before(node, 4)
        refused = await node.get(f"{FEED}?consumer=one")
        details = assert_refused(refused, "CURSOR_EXPIRED", 410)
        assert details["missed_from"] == items[0]["created_at"]
        assert details["missed_until"] == items[3]["created_at"]
        assert_refused(await ack(node, "one", items[4]["cursor"]), "CURSOR_EXPIRED", 410)
        data = (await page(node, f"consumer=one&{'types=*'}"))["data"]
        assert ([item["subject"]["id"] for item in data["items"]], data["unread"]) == (["key_3", "key_4"], 2)
        assert (data["restarted_from"], data["dropped"]) == (items[0]["cursor"], 2)


async def test_restart_is_reported_even_with_a_matching_etag(tmp_path: Path) -> None:
    """The page is the same as before the lapse, except for the one-time report."""
    async with open_test_node(tmp_path) as node:
        await append_some(node, 2)
        tag = (await node.get(f"{FEED}?consumer=one")).headers["etag"]
        await idle_for(node, LAPSE_S + SEEN_S + 60)
        assert (await node.get(f"{FEED}?consumer=one", headers={"if-none-match": tag})).status == 410
        answer = await node.get(f"{FEED}?consumer=one&wait_s=25", headers={"if-none-match": tag})
        assert "restarted_from" in answer.json["data"]


async def test_consumers_are_listed_and_read(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        assert (await node.get(CONSUMERS)).json["data"] == {"items": []}
        await append(node, revoked(node.account, 1), low(node.account))
        await page(node, "consumer=two&types=key.*&subject_id=key_1")
        await page(node, "consumer=one")
        body = (await node.get(CONSUMERS)).json
        assert body["endpoint"] == CONSUMERS
        assert body["pagination"] == {"next_cursor": None, "has_more": False, "page_size": 2}
        one, two = body["data"]["items"]
        assert one.keys() == two.keys() == SHOWN
        assert (one["consumer"], one["status"], one["unread"], one["types"]) == ("one", "active", 2, None)
        assert (two["types"], two["subject_id"], two["unread"]) == (["key.revoked"], ["key_1"], 1)
        assert unix(one["created_at"]) <= unix(one["last_read_at"])
        assert subjects(await page(node, f"cursor={one['cursor']}")) == ["key_1", node.account]
        assert (await shown(node, "two")).json["data"] == {"consumer": two}
        await idle_for(node, DAY_S + SEEN_S + 60)
        assert (await shown(node, "two")).json["data"]["consumer"]["status"] == "idle"


async def test_consumer_is_reset_to_any_kept_position(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 4)
        items = (await page(node, "consumer=one"))["data"]["items"]
        for cursor, found in (
            ("now", []),
            (items[1]["cursor"], ["key_2", "key_3"]),
            (items[2]["id"], ["key_3"]),
            ("oldest", ["key_0", "key_1", "key_2", "key_3"]),
        ):
            answer = await post(node, f"{CONSUMERS}/one/reset", {"cursor": cursor})
            assert answer.json["data"]["consumer"]["unread"] == len(found)
            assert subjects(await page(node, "consumer=one")) == found, cursor
        await drop_before(node, 4)
        refused = await post(node, f"{CONSUMERS}/one/reset", {"cursor": items[0]["cursor"]})
        assert_refused(refused, "CURSOR_EXPIRED", 410)
        unknown = await post(node, f"{CONSUMERS}/two/reset", {"cursor": "now"})
        assert assert_refused(unknown, "RESOURCE_NOT_FOUND", 404)["reason"] == "unknown_consumer"


async def test_deleted_consumer_starts_over(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 2)
        body = await page(node, "consumer=one&types=key.*")
        await ack(node, "one", cursor_of(body))
        deleted = await node.get(f"{CONSUMERS}/one", method="DELETE")
        assert (deleted.status, deleted.body) == (204, b"")
        assert_refused(await node.get(f"{CONSUMERS}/one", method="DELETE"), "RESOURCE_NOT_FOUND", 404)
        assert subjects(await page(node, "consumer=one&types=*")) == ["key_0", "key_1"], (
            "the new consumer has its own filters"
        )


async def test_consumer_sees_what_its_key_sees(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        other, other_id = await node.new_key(node.account)
        await append(
            node, alert(node.account, node.key_id, "run_1"), alert(node.account, other_id, "run_2"), low(node.account)
        )
        body = await page(node, "consumer=one")
        assert (subjects(body), body["data"]["unread"]) == (["run_1", node.account], 2)
        its = await page(node, "consumer=one", key=other)
        assert (subjects(its), its["data"]["unread"]) == (["run_2", node.account], 2)
