"""Discover over HTTP, on a whole node whose egress leads to a simulated search (decisions 19)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from tests.fakes.node import OpenNode, open_test_node
from tests.gateway.api.routes.asking import ask
from tests.gateway.api.routes.discover.algolia import Algolia

RUNS = "/v1/prism/discover/runs"
SCHEDULES = "/v1/prism/discover/schedules"
BODY: dict[str, Any] = {"keywords": ["trio"], "platforms": ["hackernews"], "max_credits": 20}


@pytest.fixture
def algolia() -> Algolia:
    return Algolia({"trio": range(120), "anyio": range(100, 130)})


@pytest.fixture
async def node(tmp_path: Path, algolia: Algolia) -> AsyncIterator[OpenNode]:
    async with open_test_node(tmp_path, credits=500) as opened:
        opened.upstream.script = algolia.answer
        yield opened
        await opened.assert_sound()


async def lines(node: OpenNode, run_id: str, query: str = "") -> list[dict[str, Any]]:
    found = (await node.get(f"{RUNS}/{run_id}/results.jsonl{query}")).body.splitlines()
    return [orjson.loads(one) for one in found]


async def test_foreground_run_returns_its_settled_state(node: OpenNode) -> None:
    status, priced = await ask(node, "POST", f"{RUNS}?dry_run=1", BODY)
    assert (status, priced["data"]) == (
        200,
        {"estimated_credits": 20, "would_hit_cache": False, "legs": 1, "searches": ["hackernews/search"]},
    )
    status, answer = await ask(node, "POST", RUNS, {**BODY, "keywords": ["trio", "anyio", "nothing"]})
    run = answer["data"]
    assert (status, answer["platform"], run["status"], run["stopped_because"]) == (200, "prism", "completed", None)
    assert run["counts"] == {
        "legs": {"planned": 3, "done": 2, "empty": 1, "failed": 0, "skipped": 0, "pending": 0},
        "rows_kept": 130,
        "rows_new": None,
    }
    assert run["credits"] == {"max": 20, "reserved": 20, "spent": 4, "refunded": 16}  # a run without results is free
    rows = await lines(node, run["run_id"])
    assert len({row["row_id"] for row in rows}) == len(rows) == 130
    row = next(one for one in rows if one["record"]["post"]["id"] == "110")
    assert (sorted(row["keywords"]), row["kind"], row["platform"]) == (["anyio", "trio"], "post", "hackernews")
    assert sorted((one["keyword"], one["rank"]) for one in row["found_in"]) == [("anyio", 11), ("trio", 111)]
    assert (row["rank"], row["is_new"]) == (11, None)
    assert await lines(node, run["run_id"], f"?after={rows[99]['row_id']}") == rows[100:]
    _, moved = await ask(node, "GET", "/v1/credits/transactions")
    assert [(one["type"], one["amount"], one["endpoint"]) for one in moved["data"]["items"][:2]] == [
        ("refund", 16, RUNS),
        ("deduction", -20, RUNS),
    ]
    links = run["links"]
    for target in (links["run"], links["results"], links["changes"]):
        assert (await node.get(target.removeprefix(node.url))).status == 200
    _, listed = await ask(node, "GET", RUNS)
    assert [one["run_id"] for one in listed["data"]["items"]] == [run["run_id"]]
    _, jobs = await ask(node, "GET", "/v1/web/jobs")
    assert jobs["data"]["items"] == []


async def test_background_run_can_be_paused_resumed_and_cancelled(node: OpenNode, algolia: Algolia) -> None:
    algolia.takes_s = 0.05
    algolia.found = {f"k{n}": range(n * 1000, n * 1000 + 500) for n in range(20)}
    sent = {**BODY, "keywords": list(algolia.found), "background": True, "max_credits": 100}
    status, begun = await ask(node, "POST", RUNS, sent)
    place = f"{RUNS}/{begun['data']['run_id']}"
    assert (status, begun["data"]["credits"]["reserved"]) == (202, 100)
    _, paused = await ask(node, "PATCH", place, {"status": "paused"})
    assert (paused["data"]["status"], paused["data"]["stopped_because"]) == ("paused", "owner")
    credits_ = paused["data"]["credits"]
    assert credits_["spent"] + credits_["refunded"] == credits_["reserved"]
    _, going = await ask(node, "PATCH", place, {"status": "running", "max_credits": 120})
    assert going["data"]["status"] in ("queued", "running")

    _, ended = await ask(node, "DELETE", place)
    assert (ended["data"]["status"], ended["data"]["counts"]["legs"]["pending"]) == ("cancelled", 0)
    status, over = await ask(node, "PATCH", place, {"status": "running"})
    assert (status, over["error"]["details"]["reason"]) == (400, "job_over")
    assert (await ask(node, "DELETE", place))[0] == 200


async def test_run_stream_sends_each_page_then_the_result(node: OpenNode) -> None:
    async with node.client.stream(
        "POST",
        node.url + RUNS,
        headers={"x-api-key": node.key, "accept": "text/event-stream"},
        content=orjson.dumps(BODY),
    ) as answer:
        text = (await answer.aread()).decode()
    frames = [dict(line.split(": ", 1) for line in one.splitlines()) for one in text.strip().split("\n\n")]
    assert [one["event"] for one in frames] == ["page", "page", "page", "result"]
    pages = [orjson.loads(one["data"]) for one in frames[:3]]
    assert [(one["step"], one["status"], one["credits_used"]) for one in pages] == [
        ("1.1", "done", 1), ("1.2", "done", 1), ("1.3", "done", 1),
    ]  # fmt: skip
    result = orjson.loads(frames[3]["data"])
    assert (result["success"], result["data"]["status"]) == (True, "completed")


INVALID: tuple[tuple[str, object, str], ...] = (
    (RUNS, {**BODY, "platforms": ["hackernws"]}, "platforms[0]"),
    (RUNS, {**BODY, "view": "post"}, "view"),
    (f"{RUNS}?max_credits=1", BODY, "max_credits"),
    (SCHEDULES, {"run": BODY, "cadence": "hourli"}, "cadence"),
    (SCHEDULES, {"run": {**BODY, "max_rows": 0}, "cadence": "daily"}, "run.max_rows"),
    (SCHEDULES, {"run": {**BODY, "background": True}, "cadence": "daily"}, "run.background"),
)


async def test_rejection_names_invalid_field_and_is_free(node: OpenNode) -> None:
    for target, body, param in INVALID:
        status, refused = await ask(node, "POST", target, body)
        assert (status, refused["credits_used"]) == (400, 0), refused
        details = refused["error"]["details"]
        assert details.get("param", details.get("remove_params", [""])[0]) == param
    _, answer = await ask(node, "POST", RUNS, BODY)
    run = answer["data"]
    place = f"{RUNS}/{run['run_id']}"
    changes: tuple[tuple[str, str, object, str], ...] = (
        ("GET", f"?changes_since={run['version'] + 1}", None, "changes_since"),
        ("GET", "?changes_since=-1", None, "changes_since"),
        ("GET", "/results.jsonl?after=row_none", None, "after"),
        ("PATCH", "", {}, "body"),
        ("PATCH", "", {"status": "going"}, "status"),
    )
    for method, rest, body, param in changes:
        status, refused = await ask(node, method, f"{place}{rest}", body)
        assert (status, refused["error"]["details"]["param"]) == (400, param)
    data = (await ask(node, "GET", f"{place}?changes_since=0"))[1]["data"]
    assert (len(data["added"]), data["changed"], data["gone"]) == (120, [], [])
    assert (data["has_more"], data["version"]) == (False, run["version"])


async def test_schedule_can_be_created_read_changed_and_deleted(node: OpenNode) -> None:
    sent = {"run": BODY, "cadence": {"cron": "0 6 * * 1", "timezone": "Europe/Berlin"}, "name": "Our topic"}
    status, made = await ask(node, "POST", SCHEDULES, sent, idempotency_key="s-1")
    schedule = made["data"]
    assert (status, schedule["status"], schedule["name"]) == (201, "active", "Our topic")
    assert (schedule["cadence"], schedule["run"]["keywords"]) == (sent["cadence"], ["trio"])
    again = await ask(node, "POST", SCHEDULES, sent, idempotency_key="s-1")
    assert (again[0], again[1]["data"]["schedule_id"]) == (201, schedule["schedule_id"])
    place = f"{SCHEDULES}/{schedule['schedule_id']}"
    _, paused = await ask(node, "PATCH", place, {"status": "paused", "run": {"max_credits": 5}})
    assert (paused["data"]["paused_because"], paused["data"]["next_run_at"]) == ("owner", None)
    assert paused["data"]["run"]["max_credits"] == 5
    _, listed = await ask(node, "GET", SCHEDULES)
    assert [one["schedule_id"] for one in listed["data"]["items"]] == [schedule["schedule_id"]]
    _, slots = await ask(node, "GET", f"{place}/occurrences")
    assert slots["data"]["items"] == []
    assert (await ask(node, "DELETE", place))[0] == 204
    status, gone = await ask(node, "GET", place)
    assert (status, gone["error"]["details"]["reason"]) == (404, "unknown_schedule")


async def occurrence(node: OpenNode, schedule_id: str) -> str:
    """Move all slots into the past, wait for the run of the next occurrence to end, and return its id."""

    def shift_slots(tx: Any) -> None:
        tx.run("UPDATE discover_occurrences SET scheduled_for = scheduled_for - 3600")
        tx.run("UPDATE discover_schedules SET created_at = created_at - 90000, next_slot_at = next_slot_at - 3600")

    before = len((await ask(node, "GET", f"{SCHEDULES}/{schedule_id}/occurrences"))[1]["data"]["items"])
    await node.node.stores.store.write(shift_slots)
    node.node.monitors.clock.wake()
    with trio.fail_after(60):
        while True:
            slots = (await ask(node, "GET", f"{SCHEDULES}/{schedule_id}/occurrences"))[1]["data"]["items"]
            if len(slots) > before:
                run_id: str = slots[0]["run_id"]
                run = (await ask(node, "GET", f"{RUNS}/{run_id}"))[1]["data"]
                if run["finished_at"] is not None:
                    return run_id
            await trio.sleep(0.05)


async def test_node_clock_runs_a_schedule_that_reports_new_rows(node: OpenNode, algolia: Algolia) -> None:
    """Goal: the node's own clock, store and workers run a schedule. Method: its slots are moved to the past."""
    _, made = await ask(node, "POST", SCHEDULES, {"run": BODY, "cadence": "hourly"})
    id_ = made["data"]["schedule_id"]
    for found, new in ((range(120), 120), (range(100, 130), 10), (range(100, 130), 0)):
        algolia.found = {"trio": found}
        run_id = await occurrence(node, id_)
        run = (await ask(node, "GET", f"{RUNS}/{run_id}"))[1]["data"]
        assert (run["status"], run["schedule_id"], run["counts"]["rows_new"]) == ("completed", id_, new)
        rows = await lines(node, run_id)
        assert [int(row["record"]["post"]["id"]) for row in rows] == list(found)
        assert [row["is_new"] for row in rows] == [number >= found[-1] + 1 - new for number in found]
        assert await lines(node, run_id, "?new=true") == [row for row in rows if row["is_new"]]
    _, events = await ask(node, "GET", f"/v1/events?subject_id={id_}&types=discover.*")
    settled = ["discover.progress", "discover.completed"]
    types = [one["type"] for one in events["data"]["items"]]
    assert types == [*settled, "discover.new_rows", *settled, "discover.new_rows", *settled]
    for link in events["data"]["items"][2]["links"].values():
        assert (await node.get(link.removeprefix(node.url))).status == 200
