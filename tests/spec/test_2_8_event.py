"""Section 2.8: an event, and the page of the feed that contains it, field by field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from events.instants import unix
from events.log.kinds import API_VERSION
from tests.fakes.feeding import CONSUMERS, FEED, append, append_some, discovered, drop_before, page, revoked
from tests.fakes.node import OpenNode, open_test_node

EVENT = {"id", "type", "api_version", "created_at", "cursor", "subject", "data", "links"}
PAGE = {"items", "retained_from", "next_step", "next", "dropped"}
DISCOVER_TYPES = ("discover.completed", "discover.partial", "discover.paused", "discover.failed", "discover.progress")
_ID = re.compile(r"evt_[0-9a-z]+")
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")


async def test_event_has_exactly_the_specified_fields(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 2)
        first, second = (await page(node))["data"]["items"]
    assert first.keys() == EVENT
    assert _ID.fullmatch(first["id"])
    assert first["id"] != second["id"]
    assert first["type"] == "key.revoked"
    assert first["api_version"] == API_VERSION
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", API_VERSION)
    assert _ISO.fullmatch(first["created_at"])
    assert first["subject"] == {"kind": "key", "id": "key_0", "name": "mine"}
    assert first["data"] == {"key_id": "key_0", "last4": "abcd"}
    assert first["links"] == {}


async def test_discover_event_has_counts_ids_and_link_to_run(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"base_url": "https://api.example.com", "port": 0}) as node:
        await append(node, *(discovered(node.account, node.key_id, type_) for type_ in DISCOVER_TYPES))
        items = (await page(node))["data"]["items"]
    assert [event["type"] for event in items] == list(DISCOVER_TYPES)
    for event in items:
        assert_discovered(event)


def assert_discovered(event: dict[str, Any]) -> None:
    assert event["data"] == {
        "run_id": "dr_1",
        "status": "completed",
        "stopped_because": None,
        "counts": {
            "legs": {"planned": 3, "done": 1, "empty": 1, "failed": 1, "skipped": 0, "pending": 0},
            "rows_kept": 12,
        },
        "credits": {"spent": 3},
        "version": 7,
        "schedule_id": "ds_1",
    }
    assert event["subject"] == {"kind": "discover_run", "id": "dr_1"}, (
        "a schedule without a name has no name in its event"
    )
    run = "https://api.example.com/v1/prism/discover/runs/dr_1"
    assert event["links"] == {"run": run, "results": f"{run}/results.jsonl", "changes": f"{run}?changes_since=6"}


async def test_event_is_the_same_for_every_read(tmp_path: Path) -> None:
    """The id is stable, and so is every other byte, including the cursor."""
    async with open_test_node(tmp_path) as node:
        await append_some(node, 3)
        other, _ = await node.new_key(node.account)
        items = (await page(node))["data"]["items"]
        assert (await page(node, "cursor=oldest&types=key.*&limit=3", key=other))["data"]["items"] == items
        assert (await page(node, "consumer=one"))["data"]["items"] == items
        assert (await page(node, f"cursor={items[1]['id']}"))["data"]["items"] == items[2:]


async def test_event_cursor_is_the_position_after_it(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 3)
        body = await page(node)
        items = body["data"]["items"]
        for number, event in enumerate(items):
            assert (await page(node, f"cursor={event['cursor']}"))["data"]["items"] == items[number + 1 :]
        assert items[-1]["cursor"] == body["pagination"]["next_cursor"]


async def test_page_has_exactly_the_specified_fields(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 3)
        answer = await node.get(f"{FEED}?limit=2&types=key.*")
        body = answer.json
        assert body.keys() == {
            "success",
            "platform",
            "endpoint",
            "data",
            "pagination",
            "credits_used",
            "credits_remaining",
            "request_id",
            "cached",
        }
        assert (body["platform"], body["endpoint"], body["credits_used"]) == ("account", FEED, 0)
        assert (answer.headers["x-credits-used"], answer.headers["x-request-id"]) == ("0", body["request_id"])
        assert body["pagination"].keys() == {"next_cursor", "has_more", "page_size"}
        assert (body["pagination"]["has_more"], body["pagination"]["page_size"]) == (True, 2)
        data = body["data"]
        assert data.keys() == PAGE
        assert data["retained_from"] == data["items"][0]["created_at"]
        assert data["dropped"] == 0
        assert isinstance(data["next_step"], str)
        assert data["next"].keys() == {"poll_url"}
        follow = data["next"]["poll_url"].removeprefix(node.url)
        assert "types=key.*" in follow
        following = (await node.get(follow)).json
        assert [item["subject"]["id"] for item in following["data"]["items"]] == ["key_2"]


async def test_consumer_page_has_unread_and_ack_url(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 3)
        data = (await page(node, "consumer=one&limit=2"))["data"]
        assert data.keys() == PAGE | {"unread"}
        assert data["unread"] == 3
        assert data["next"].keys() == {"poll_url", "ack_url"}
        assert data["next"]["ack_url"] == f"{node.url}{CONSUMERS}/one/ack"
        follow = await node.get(data["next"]["poll_url"].removeprefix(node.url))
        assert follow.json["data"]["items"] == data["items"], "reading does not acknowledge"


async def test_empty_log_retains_from_its_first_event(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        body = await page(node)
        assert (body["data"]["items"], body["data"]["retained_from"]) == ([], None)
        assert body["pagination"]["has_more"] is False
        await append_some(node, 1)
        body = await page(node, f"cursor={body['pagination']['next_cursor']}")
        assert body["data"]["retained_from"] == body["data"]["items"][0]["created_at"]


async def test_retained_from_is_time_of_oldest_kept_event(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 1)
        await append_some(node, 2, first=1)
        oldest, middle, _ = (await page(node))["data"]["items"]
        await drop_before(node, 2)
        data = (await page(node))["data"]
        assert data["retained_from"] == middle["created_at"]
        assert unix(data["retained_from"]) >= unix(oldest["created_at"])


async def test_events_are_ordered_by_write_not_by_clock(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for number in range(20):
            await append(node, revoked(node.account, number))
        items = (await page(node))["data"]["items"]
    assert [item["subject"]["id"] for item in items] == [f"key_{number}" for number in range(20)]
    created = [unix(item["created_at"]) for item in items]
    assert created == sorted(created)


async def test_events_are_private_to_their_account(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 2)
        key, _ = await node.new_key(await node.new_account())
        assert (await page(node, key=key))["data"]["items"] == []
        cursor = (await page(node))["data"]["items"][0]["cursor"]
        answer = await node.get(f"{FEED}?cursor={cursor}", key=key)
        assert answer.status == 400, "the feed accepted a cursor of another account"
        await assert_unused(node, key)


async def assert_unused(node: OpenNode, key: str) -> None:
    """Check that no credit was spent."""
    balance = (await node.get("/v1/credits/balance", key=key)).json["data"]["balance"]
    assert balance == 100_000
