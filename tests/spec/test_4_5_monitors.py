"""Section 4.5, decisions 12: monitors over HTTP: create, list, change, run, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import trio

from events.instants import iso, unix
from scheduler.monitors.model.records import RunData
from scheduler.monitors.runs.run_rows import add_data
from tests.fakes.calling import Answered
from tests.fakes.feeding import post
from tests.fakes.monitoring import (
    FIRST,
    FOLLOWERS,
    HOOKED,
    HOUR_S,
    MONITORS,
    POSTS,
    listed,
    made,
    make,
    patch,
    ran,
)
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.fakes.upstream_server import until
from tests.spec.refusals import assert_free, assert_refused

RULE = {"metric": FOLLOWERS, "op": "gt", "value": 1000}
NUMBERS = [{"_": {FOLLOWERS: 10 * place}} for place in range(1, 6)]
RUN = {
    *("run_id", "monitor_id", "status", "scheduled_for", "started_at", "finished_at", "credits_used", "rows", "legs"),
    *("alerts_fired", "warnings", "webhook_delivery"),
}


async def delete(node: OpenNode, monitor_id: str, key: str = "") -> Answered:
    return await node.get(f"{MONITORS}/{monitor_id}", method="DELETE", key=key)


async def runs(node: OpenNode, monitor_id: str, query: str = "") -> Any:
    answer = await node.get(f"{MONITORS}/{monitor_id}/runs?{query}")
    assert answer.status == 200, answer.body
    return answer.json


async def finished(node: OpenNode, monitor_id: str) -> dict[str, Any]:
    """Return the newest run after it has ended."""
    while True:
        items = (await runs(node, monitor_id))["data"]["items"]
        if items and items[0]["finished_at"]:
            run: dict[str, Any] = items[0]
            return run
        await trio.sleep(0.02)


async def test_list_is_newest_first_paginated_and_active_by_default(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        account = (await node.operate("account.create", name="test", plan="growth"))["id"]
        key, _ = await node.new_key(account)
        ids = [await made(node, key=key) for _ in range(7)]
        await patch(node, ids[3], key, status="paused")
        newest_first, active = ids[::-1], [id_ for id_ in ids[::-1] if id_ != ids[3]]
        assert await listed(node, "", key=key) == await listed(node, "status=active", key=key) == active
        assert await listed(node, "status=paused", key=key) == [ids[3]]
        seen: list[str] = []
        query = "status=all&limit=3"
        while query:
            body = (await node.get(f"{MONITORS}?{query}", key=key)).json
            seen += [item["id"] for item in body["data"]["items"]]
            pagination = body["pagination"]
            assert pagination["page_size"] == len(body["data"]["items"])
            assert pagination["has_more"] == (pagination["next_cursor"] is not None)
            query = f"status=all&limit=3&cursor={pagination['next_cursor']}" if pagination["has_more"] else ""
        assert seen == newest_first
        assert await listed(node) == [], "the cursor belongs to another account"


async def test_cursor_is_bound_to_its_list(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for _ in range(2):
            await made(node)
        cursor = (await node.get(f"{MONITORS}?limit=1")).json["pagination"]["next_cursor"]
        for query in (f"limit=1&status=all&cursor={cursor}", "cursor=cur_AAAA"):
            details = assert_refused(await node.get(f"{MONITORS}?{query}"), "INVALID_REQUEST", 400)
            assert details["param"] == "cursor"
        details = assert_refused(await node.get(f"{MONITORS}?page=2"), "INVALID_REQUEST", 400)
        assert details["did_you_mean"] == "cursor"
        details = assert_refused(await node.get(f"{MONITORS}?status=activ"), "INVALID_REQUEST", 400)
        assert details["did_you_mean"] == "active"


OF_ONE: Mapping[str, Callable[[OpenNode, str, str], Awaitable[Answered]]] = {
    "read": lambda node, id_, key: node.get(f"{MONITORS}/{id_}", key=key),
    "change": lambda node, id_, key: patch(node, id_, key, name="mine now"),
    "pause": lambda node, id_, key: patch(node, id_, key, status="paused"),
    "delete": delete,
    "run": lambda node, id_, key: post(node, f"{MONITORS}/{id_}/run", b"", key=key),
    "runs": lambda node, id_, key: node.get(f"{MONITORS}/{id_}/runs", key=key),
    "timeseries": lambda node, id_, key: node.get(f"{MONITORS}/{id_}/timeseries", key=key),
    "export": lambda node, id_, key: node.get(f"{MONITORS}/{id_}/export", key=key),
    "chart": lambda node, id_, key: node.get(f"{MONITORS}/{id_}/chart.svg?metric={FOLLOWERS}", key=key),
    "backtest": lambda node, id_, key: post(node, f"{MONITORS}/{id_}/backtest", {}, key=key),
}


async def test_monitor_of_another_account_is_unknown(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node)
        stranger, _ = await node.new_key(await node.new_account())
        for name, ask in OF_ONE.items():
            for monitor_id in (id_, "mon_nothing"):
                answer = await ask(node, monitor_id, stranger)
                assert assert_refused(answer, "RESOURCE_NOT_FOUND", 404) == {"reason": "unknown_monitor"}, name
        assert (await node.get(f"{MONITORS}/{id_}")).json["data"]["monitor"]["name"] == "github/profile monitor"


async def test_monitor_belongs_to_account_not_to_key(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        key, key_id = await node.new_key(node.account)
        id_ = await made(node, key=key)
        await node.operate("key.revoke", key=key_id)
        assert await listed(node) == [id_]
        assert (await post(node, f"{MONITORS}/{id_}/run", b"")).status == 202
        assert (await finished(node, id_))["status"] == "ok"


async def test_only_changeable_fields_are_changed(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        before = (await make(node, HOOKED))["monitor"]
        changes: dict[str, Any] = {
            "name": "Another name",
            "cadence": {"cron": "0 6 * * *", "timezone": "Europe/Berlin"},
            "alert_rules": [RULE],
            "webhook_url": "https://example.com/other",
            "suppress_webhook_unless_alert": True,
        }
        after = (await patch(node, before["id"], **changes)).json["data"]["monitor"]
        expected = {
            **before,
            **{name: value for name, value in changes.items() if name != "webhook_url"},
            "webhook": {**before["webhook"], "url": "https://example.com/other"},
        }
        moved = {"next_run_at", "updated_at"}
        assert {k: v for k, v in after.items() if k not in moved} == {
            k: v for k, v in expected.items() if k not in moved
        }
        assert unix(after["next_run_at"]) > unix(after["updated_at"]) >= unix(before["updated_at"])
        assert (await node.get(f"{MONITORS}/{before['id']}")).json["data"]["monitor"] == after


# For each case: the body, the field in the error, and the suggestion.
WRONG_CHANGES: list[tuple[dict[str, Any], str, str | None]] = [
    ({}, "body", None),
    ({"name": "changed", "status": "on"}, "status", None),
    ({"status": "pause"}, "status", "paused"),
    ({"status": None}, "status", None),
    ({"name": ""}, "name", None),
    ({"cadence": "dayly"}, "cadence", "daily"),
    ({"cadence": None}, "cadence", None),
    ({"alert_rules": [{**RULE, "metric": "author.folowers"}]}, "alert_rules[0].metric", FOLLOWERS),
    ({"alert_rules": [{**RULE, "op": "gtt"}]}, "alert_rules[0].op", "gt"),
    ({"webhook_url": "https://127.0.0.1/"}, "webhook_url", None),
    ({"suppress_webhook_unless_alert": "yes"}, "suppress_webhook_unless_alert", None),
]


async def test_invalid_field_in_a_change_is_named_and_nothing_changes(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        before = (await make(node))["monitor"]
        for fields, param, meant in WRONG_CHANGES:
            answer = await patch(node, before["id"], **fields)
            details = assert_refused(answer, "INVALID_REQUEST", 400)
            assert (details["param"], details.get("did_you_mean")) == (param, meant), fields
        details = assert_refused(await patch(node, before["id"], recipe="github/search"), "INVALID_REQUEST", 400)
        assert details["remove_params"] == ["recipe"]
        assert (await node.get(f"{MONITORS}/{before['id']}")).json["data"]["monitor"] == before
        plain = await made(node, HOOKED)
        assert (
            assert_refused(await patch(node, plain, webhook_url=None), "INVALID_REQUEST", 400)["param"] == "webhook_url"
        )


async def test_first_webhook_gets_a_secret_and_removed_one_is_gone(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node)
        data = (await patch(node, id_, webhook_url="https://example.com/hook")).json["data"]
        assert data["webhook_secret"].startswith("whsec_")
        assert data["monitor"]["webhook"]["signing_secret_hint"] == f"...{data['webhook_secret'][-4:]}"
        data = (await patch(node, id_, webhook_url="https://example.com/other")).json["data"]
        assert "webhook_secret" not in data, "the webhook keeps its secret"
        assert (await patch(node, id_, webhook_url=None)).json["data"]["monitor"]["webhook"] is None


async def test_delete_removes_all_data_of_a_monitor(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_, other = await made(node, HOOKED), await made(node)
        await ran(node, id_, [{"_": {FOLLOWERS: place}} for place in range(1_201)], plain=True)
        await ran(node, other, NUMBERS)
        answer = await delete(node, id_)
        assert (answer.status, answer.body) == (204, b"")
        assert_refused(await delete(node, id_), "RESOURCE_NOT_FOUND", 404)
        counts = await node.node.stores.store.read(
            lambda tx: [
                tx.one(f"SELECT COUNT(*) FROM {table}") for table in ("monitors", "runs", "run_data", "webhooks")
            ]
        )
        assert counts == [(1,), (5,), (5,), (0,)]


async def test_monitor_deleted_during_a_run_costs_nothing(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        node.upstream.always(ScriptedAnswer(body=b"{}", delay_s=0.5))
        before = await node.money()
        id_ = await made(node, run_now=True)
        await until(lambda: node.upstream.requests)
        assert (await delete(node, id_)).status == 204
        await until(lambda: not node.node.monitors.clock.in_flight())
        assert await node.money() == before
        await node.assert_sound()


async def test_run_now_opens_a_slot_at_most_once_a_minute(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node)
        answer = await post(node, f"{MONITORS}/{id_}/run", b"")
        assert answer.status == 202
        run = answer.json["data"]["run"]
        assert run.keys() == RUN
        assert run["status"] == "pending"
        ended = await finished(node, id_)
        assert (ended["run_id"], ended["status"], ended["credits_used"]) == (run["run_id"], "ok", 2)
        again = await post(node, f"{MONITORS}/{id_}/run", b"")
        assert assert_refused(again, "RATE_LIMITED", 429) == {"reason": "run_too_soon"}
        assert 50 <= int(again.headers["retry-after"]) <= 60
        assert (await node.get(f"{MONITORS}/{id_}")).json["data"]["monitor"]["runs_total"] == 1
        await node.assert_sound()


async def test_concurrent_run_now_requests_open_one_run(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node)
        statuses: list[int] = []

        async def ask() -> None:
            statuses.append((await post(node, f"{MONITORS}/{id_}/run", b"")).status)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(ask)
        assert sorted(statuses) == [202] + [429] * 19
        await finished(node, id_)
        assert len((await runs(node, id_))["data"]["items"]) == 1


async def test_new_monitor_runs_immediately_on_request(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        body = await make(node, run_now=True)
        run = await finished(node, body["monitor"]["id"])
        assert (run["status"], run["credits_used"]) == ("ok", 2)
        assert unix(run["scheduled_for"]) < unix(body["monitor"]["next_run_at"])


async def test_runs_are_newest_first_paginated_and_windowed(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node)
        await ran(node, id_, NUMBERS)
        await ran(node, id_, [{}], status="failed", first=FIRST + 5 * HOUR_S)
        slots = [iso(FIRST + place * HOUR_S) for place in range(5, -1, -1)]
        seen: list[str] = []
        query = "limit=4"
        while query:
            body = await runs(node, id_, query)
            assert all(RUN <= item.keys() <= RUN | {"skip_reason"} for item in body["data"]["items"])
            seen += [item["scheduled_for"] for item in body["data"]["items"]]
            cursor = body["pagination"]["next_cursor"]
            query = f"limit=4&cursor={cursor}" if cursor else ""
        assert seen == slots
        window = f"from={slots[4]}&to={slots[2]}"
        found = [item["scheduled_for"] for item in (await runs(node, id_, window))["data"]["items"]]
        assert found == slots[3:5], "`from` is inclusive and `to` exclusive"
        (failed,) = (await runs(node, id_, "status=failed"))["data"]["items"]
        assert failed["skip_reason"] == "no_tracked_value"


async def test_runs_include_requested_parts(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node)
        await ran(node, id_, NUMBERS[:2])
        (plain, _) = (await runs(node, id_))["data"]["items"]
        assert plain.keys() == RUN
        (second, first) = (await runs(node, id_, "include=numbers"))["data"]["items"]
        assert (first["numbers"], first["deltas"], first["result"]) == (NUMBERS[0], None, None)
        delta = {"prev": 10, "cur": 20, "abs": 10, "pct": 100.0}
        assert second["deltas"] == {"rows": {"_": {FOLLOWERS: delta}}, "rows_new": [], "rows_gone": []}
        (second, _) = (await runs(node, id_, "include=result"))["data"]["items"]
        assert second["result"] == {"kept": True}
        assert "numbers" not in second
        (second, _) = (await runs(node, id_, "include=result,numbers"))["data"]["items"]
        assert (second["result"], second["numbers"]) == ({"kept": True}, NUMBERS[1])


async def test_invalid_runs_query_is_named(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node)
        for query, param, meant in (
            ("include=number", "include", "numbers"),
            ("include=x", "include", None),
            ("from=soon", "from", None),
            ("to=2026-13-01", "to", None),
            ("from=2026-01-02&to=2026-01-01", "to", None),
            ("status=okay", "status", "ok"),
            ("cursor=cur_AAAA", "cursor", None),
            ("limit=0", "limit", None),
            ("from=2026-01-01T00:00:00+01:00", "from", None),
        ):
            answer = await node.get(f"{MONITORS}/{id_}/runs?{query}")
            details = assert_refused(answer, "INVALID_REQUEST", 400)
            assert (details["param"], details.get("did_you_mean")) == (param, meant), query
            await assert_free(node, answer)


async def test_page_of_large_results_ends_early(tmp_path: Path) -> None:
    """Goal: responses have a bounded size. Method: three runs of 1.9 MB each, and pages of at most 4 MB."""
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, POSTS)
        await ran(node, id_, NUMBERS[:3])
        large = orjson.dumps({"text": "x" * 1_900_000})
        await node.node.stores.store.write(lambda tx: tx.run("DELETE FROM run_data"))
        found = (await runs(node, id_))["data"]["items"]

        def fill(tx: Any) -> None:
            for item in found:
                add_data(tx, item["run_id"], RunData(large), at=0.0)

        await node.node.stores.store.write(fill)
        body = await runs(node, id_, "include=result")
        assert [item["run_id"] for item in body["data"]["items"]] == [item["run_id"] for item in found[:2]]
        rest = await runs(node, id_, f"include=result&cursor={body['pagination']['next_cursor']}")
        assert [item["run_id"] for item in rest["data"]["items"]] == [found[2]["run_id"]]
