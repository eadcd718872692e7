"""Sections 2.6, 2.7, 3, 4.5 and 6.2: the life of a numbers-only monitor, value by value, on a whole node."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from gateway.admin.operations import OperationRefused
from tests.fakes.feeding import page
from tests.fakes.node import open_test_node
from tests.fakes.scripted_upstream import json_answer
from tests.spec.monitor_life import (
    COMMENTS,
    LIKES,
    MONITORS,
    SLOTS,
    STORIES,
    TOTAL,
    WEEKS,
    Life,
    open_life,
    open_past,
    send,
)
from tests.spec.refusals import assert_refused


def of(likes: int, comments: int) -> dict[str, int]:
    return {LIKES: likes, COMMENTS: comments}


NUMBERS: tuple[Any, ...] = (
    {"_": {TOTAL: 3}, "8863": of(104, 71), "9001": of(0, 3), "9002": of(10, 1)},
    {"_": {TOTAL: 4}, "8863": of(130, 71), "9001": of(5, 6), "9003": of(7, 0)},
    {"_": {TOTAL: 4}, "8863": of(91, 71), "9001": of(5, 6)},
    None,
    {"_": {TOTAL: 3}, "8863": of(91, 70), "9001": of(10, 6), "9002": of(12, 1)},
    None,
    None,
)


def delta(prev: int, cur: int, pct: float | None) -> dict[str, Any]:
    return {"prev": prev, "cur": cur, "abs": cur - prev, "pct": pct}


DELTAS: tuple[Any, ...] = (
    None,
    {
        "rows": {
            "_": {TOTAL: delta(3, 4, pytest.approx(100 / 3))},
            "8863": {LIKES: delta(104, 130, 25.0), COMMENTS: delta(71, 71, 0.0)},
            "9001": {LIKES: delta(0, 5, None), COMMENTS: delta(3, 6, 100.0)},
        },
        "rows_new": ["9003"],
        "rows_gone": ["9002"],
    },
    {
        "rows": {
            "_": {TOTAL: delta(4, 4, 0.0)},
            "8863": {LIKES: delta(130, 91, -30.0), COMMENTS: delta(71, 71, 0.0)},
            "9001": {LIKES: delta(5, 5, 0.0), COMMENTS: delta(6, 6, 0.0)},
        },
        "rows_new": [],
        "rows_gone": ["9003"],
    },
    None,
    {  # compared with the third run, because the fourth failed
        "rows": {
            "_": {TOTAL: delta(4, 3, -25.0)},
            "8863": {LIKES: delta(91, 91, 0.0), COMMENTS: delta(71, 70, pytest.approx(-100 / 71))},
            "9001": {LIKES: delta(5, 10, 100.0), COMMENTS: delta(6, 6, 0.0)},
        },
        "rows_new": ["9002"],
        "rows_gone": [],
    },
    None,
    None,
)


def alert(metric: str, op: str, row: str, *change: float | None) -> dict[str, Any]:
    prev, cur, difference, pct = change
    told_of = {"metric": metric, "op": op, "from": prev, "to": cur, "delta": difference, "pct_change": pct}
    return {**told_of, "row_id": row}


ALERTS: tuple[list[dict[str, Any]], ...] = (
    [],
    [
        alert(LIKES, "pct_change_gt", "8863", 104, 130, 26, 25.0),
        alert(COMMENTS, "gte", "8863", None, 71, None, None),
    ],
    [alert(LIKES, "pct_change_lt", "8863", 130, 91, -39, -30.0)],  # the rule on comments does not fire
    [],
    [alert(LIKES, "pct_change_gt", "9001", 5, 10, 5, 100.0)],
    [],
    [],
)
ENDS = ("ok", "ok", "partial", "failed", "ok", "failed", "skipped")
COSTS = (3, 3, 2, 0, 3, 0, 0)
REASONS = (
    *(None, None, None, "UPSTREAM_ERROR", None),
    *("no_results", "insufficient_credits"),
)


async def test_numbers_only_monitor_is_created_as_sent_with_estimates(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        made = await send(node, "POST", MONITORS, STORIES)
        body, monitor = made.json, made.json["monitor"]
        assert (made.status, made.headers["location"]) == (201, f"{MONITORS}/{monitor['id']}")
        assert (body["success"], body["credits_used"], body["webhook_secret"]) == (True, 0, None)
        assert monitor["id"].startswith("mon_")
        told_of = {name: monitor[name] for name in ("recipe", "params", "cadence", "alert_rules", "name")}
        assert told_of == {name: STORIES[name] for name in told_of}
        assert monitor["track"] == {"metrics": [TOTAL, LIKES, COMMENTS], "row_key": "post.id", "max_rows": 100}
        costs = (monitor["estimated_cost_per_run"], monitor["estimated_monthly_cost"])
        assert costs == (3, 12)  # two pages and one credit, four times
        warnings = ["a run usually costs 3 credits and may cost up to 7"]
        assert (monitor["status"], monitor["warnings"], monitor["webhook"]) == ("active", warnings, None)
        assert (monitor["runs_total"], monitor["credits_spent"]) == (0, 0)
        assert monitor["next_run_at"] > monitor["created_at"]
        monitor["warnings"] = []  # the warning about the expected cost appears only for a new monitor
        assert (await node.get(f"{MONITORS}/{monitor['id']}")).json["data"]["monitor"] == monitor
        assert (await node.get(MONITORS)).json["data"]["items"] == [monitor]
        await node.assert_sound()


async def test_path_without_a_number_gets_suggestion(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for path, problem in (
            ("items[].post.engagement.lieks", f"is not a number in this recipe's responses; did you mean {LIKES}?"),
            ("post.engagement.likes", f"at the wrong level; its path is {LIKES}."),
        ):
            refused = await send(node, "POST", MONITORS, {**STORIES, "track": {"metrics": [path]}})
            details = assert_refused(refused, "INVALID_REQUEST", 400)
            assert (details["param"], details["did_you_mean"]) == ("track.metrics[0]", LIKES)
            assert refused.json["error"]["message"].endswith(problem)


async def _outcome_cost_and_alerts_of_runs_follow_from_their_numbers(life: Life) -> None:
    assert [run["scheduled_for"] for run in life.runs] == list(SLOTS)
    assert tuple(run["status"] for run in life.runs) == ENDS
    assert tuple(run["credits_used"] for run in life.runs) == COSTS
    assert tuple(run.get("skip_reason") for run in life.runs) == REASONS
    assert tuple(run["alerts_fired"] for run in life.runs) == ALERTS
    assert [run["rows"] for run in life.runs] == [3, 3, 2, None, 3, 0, None]
    assert {run["webhook_delivery"] for run in life.runs} == {None}
    (leg,) = life.runs[0]["legs"]
    assert (leg["endpoint"], leg["source"], leg["rung"]) == ("hackernews/search", "algolia", "primary")
    assert (leg["rung_index"], leg["status"], leg["error"]) == (0, "ok", None)
    spent = [sum(leg["credits_used"] for leg in run["legs"]) for run in life.runs]
    assert spent == [max(0, cost - 1) for cost in COSTS], "everything except the credit for scheduling is refunded"
    monitor = (await life.data(""))["monitor"]
    assert (monitor["runs_total"], monitor["credits_spent"]) == (6, sum(COSTS))
    assert await life.node.money() == (14 - sum(COSTS) - 1, 0)
    await life.assert_paid()


SHORT = "2 of 120 items were collected: page 2 could not be read (algolia: status 500)"


async def _partial_run_reports_its_extent_and_reason(life: Life) -> None:
    far = [{name: leg[name] for name in ("pages", "pages_needed", "rows", "rows_asked")} for leg in legs_of(life)]
    assert [tuple(each.values()) for each in far] == [(2, 2, 3, 120)] * 2 + [(1, 2, 2, 120), (2, 2, 3, 120)]
    ended = [(leg["status"], leg["error"]) for leg in legs_of(life)]
    assert ended == [("ok", None)] * 2 + [("partial", "UPSTREAM_ERROR"), ("ok", None)]
    assert [run["warnings"] for run in life.runs if run["status"] in ("ok", "partial")] == [[], [], [SHORT], []]
    results = (await life.data("/runs?include=result&status=partial"))["items"]
    assert [run["result"]["_warnings"] for run in results] == [[SHORT]]


def legs_of(life: Life) -> list[dict[str, Any]]:
    return [run["legs"][0] for run in life.runs if run["status"] in ("ok", "partial")]


async def _runs_include_numbers_changes_and_results(life: Life) -> None:
    assert (await life.data("/runs"))["items"] == life.runs[::-1]
    told_of = (await life.data("/runs?include=numbers"))["items"][::-1]
    assert tuple(run["numbers"] for run in told_of) == NUMBERS
    assert tuple(run["deltas"] for run in told_of) == DELTAS
    assert {run["result"] for run in told_of} == {None}
    results = [run["result"] for run in (await life.data("/runs?include=result"))["items"][::-1]]
    assert [None if result is None else result["total"] for result in results] == [3, 4, 4, None, 3, None, None]
    rows = [(row["post"]["id"], row["post"]["engagement"]["likes"]) for row in results[1]["items"]]
    assert rows == [("8863", 130), ("9001", 5), ("9003", 7)]
    both = (await life.data("/runs?include=numbers,result&status=partial"))["items"]
    assert [(run["numbers"], len(run["result"]["items"])) for run in both] == [(NUMBERS[2], 2)]
    window = (await life.data(f"/runs?from={SLOTS[2]}&to={SLOTS[4]}"))["items"]
    assert window == [life.runs[3], life.runs[2]]


KEPT = [(slot, numbers) for slot, numbers in zip(SLOTS, NUMBERS, strict=True) if numbers]


async def _timeseries_has_a_point_per_run_and_a_series_per_row(life: Life) -> None:
    data = await life.data("/timeseries")
    assert (data["monitor_id"], data["metric_keys"]) == (life.id, [TOTAL, LIKES, COMMENTS])
    assert data["points"] == [{"t": slot, "metrics": numbers["_"]} for slot, numbers in KEPT]
    series = {(each["row_id"], each["metric"]): each["points"] for each in data["series"]}
    assert series == {
        (row, metric): [
            {"t": slot, "value": numbers[row][metric]} for slot, numbers in KEPT if metric in numbers.get(row, {})
        ]
        for row, metric in series
    }
    assert len(series) == 9
    narrow = await life.data(f"/timeseries?metric={LIKES}&row=9002")
    points = [{"t": SLOTS[0], "value": 10}, {"t": SLOTS[4], "value": 12}]
    assert narrow["series"] == [{"row_id": "9002", "metric": LIKES, "points": points}]
    assert narrow["points"] == [{"t": point["t"], "metrics": {LIKES: point["value"]}} for point in points]


def export_rows() -> list[tuple[str, str, str, int, Any, Any]]:
    """Return every stored number in the form of an export."""
    found = []
    for slot, numbers, deltas in zip(SLOTS, NUMBERS, DELTAS, strict=True):
        changes = {} if deltas is None else deltas["rows"]
        for row, values in (numbers or {}).items():
            for metric, value in values.items():
                change = changes.get(row, {}).get(metric, {})
                found.append((slot, row, metric, value, change.get("abs"), change.get("pct")))
    return found


async def _exports_have_a_line_per_number_oldest_first(life: Life) -> None:
    csv = await life.node.get(f"{life.path}/export?format=csv")
    assert csv.headers["content-type"].startswith("text/csv")
    head, *lines = csv.body.decode().removesuffix("\r\n").split("\r\n")
    assert head == "t,row_id,metric,value,abs_change,pct_change"
    cells = [line.split(",") for line in lines]
    numbers = [[float(cell) if cell else None for cell in line[3:]] for line in cells]
    assert [(*line[:3], *of_line) for line, of_line in zip(cells, numbers, strict=True)] == export_rows()
    assert lines[6:10] == [
        "2026-01-01T06:00:00.000Z,9002,items[].post.engagement.comments,1,,",
        "2026-02-01T06:00:00.000Z,_,total,4,1,33.33333333333333",
        "2026-02-01T06:00:00.000Z,8863,items[].post.engagement.likes,130,26,25.0",
        "2026-02-01T06:00:00.000Z,8863,items[].post.engagement.comments,71,0,0.0",
    ]
    ndjson = await life.node.get(f"{life.path}/export?format=ndjson")
    assert [tuple(orjson.loads(line).values()) for line in ndjson.body.splitlines()] == export_rows()
    late = await life.node.get(f"{life.path}/export?format=ndjson&from={SLOTS[4]}")
    assert late.body.splitlines() == ndjson.body.splitlines()[-7:]


async def _chart_has_a_dot_per_number_and_a_marker_per_alert(life: Life) -> None:
    chart = await life.node.get(f"{life.path}/chart.svg?metric={LIKES}&row=8863")
    assert chart.headers["content-type"].startswith("image/svg+xml")
    text = chart.body.decode()
    assert f"apples: {LIKES} of 8863</text>" in text
    circle = r'<circle class="(\w+)"[^>]*><title>([^<]*)</title>'
    assert sorted((at, kind) for kind, at in re.findall(circle, text)) == [
        ("2026-01-01 06:00 UTC: 104", "dot"),
        ("2026-02-01 06:00 UTC: 130; alert pct_change_gt: 130", "alert"),
        ("2026-03-01 06:00 UTC: 91; alert pct_change_lt: 91", "alert"),
        ("2026-05-01 06:00 UTC: 91", "dot"),
    ]


async def _backtest_of_own_rules_fires_like_the_runs(life: Life) -> None:
    own = (await send(life.node, "POST", f"{life.path}/backtest", {})).json["data"]
    assert (own["runs"], own["runs_fired"], own["alerts_fired"], own["truncated"]) == (5, 3, 4, False)
    assert own["fired"] == [
        {"run_id": run["run_id"], "t": run["scheduled_for"], "alerts": run["alerts_fired"]}
        for run in life.runs
        if run["alerts_fired"]
    ]
    rules = [{"metric": TOTAL, "op": "abs_change_gt", "value": 0}]
    other = (await send(life.node, "POST", f"{life.path}/backtest", {"alert_rules": rules})).json["data"]
    assert [fired["alerts"] for fired in other["fired"]] == [
        [alert(TOTAL, "abs_change_gt", "_", 3, 4, 1, pytest.approx(100 / 3))],
        [alert(TOTAL, "abs_change_gt", "_", 4, 3, -1, -25.0)],
    ]


async def _feed_has_every_run_followed_by_its_alerts(life: Life) -> None:
    items = (await page(life.node, "types=monitor.*"))["data"]["items"]
    expected = []
    for run in life.runs:
        names = {"ok": "completed", "partial": "completed"}
        fired = len(run["alerts_fired"])
        common = {"monitor_id": life.id, "run_id": run["run_id"], "scheduled_for": run["scheduled_for"]}
        ended = {"status": run["status"], "rows": run["rows"], "credits_spent": run["credits_used"]}
        data = {**common, **ended, "alerts_fired": fired, "skip_reason": run.get("skip_reason")}
        expected.append((f"monitor.run_{names.get(run['status'], run['status'])}", data))
        if fired:
            expected.append(("monitor.alert_fired", {**common, "alerts_fired": fired}))
    assert [(item["type"], item["data"]) for item in items] == expected
    assert [item["subject"]["id"] for item in items] == [data["run_id"] for _, data in expected]
    assert {item["subject"]["name"] for item in items} == {"apples"}
    assert {item["links"]["runs"] for item in items} == {f"{life.node.url}{life.path}/runs"}
    assert (await page(life.node, f"subject_id={life.id}"))["data"]["items"] == items


VIEWS = (
    _outcome_cost_and_alerts_of_runs_follow_from_their_numbers,
    _partial_run_reports_its_extent_and_reason,
    _runs_include_numbers_changes_and_results,
    _timeseries_has_a_point_per_run_and_a_series_per_row,
    _exports_have_a_line_per_number_oldest_first,
    _chart_has_a_dot_per_number_and_a_marker_per_alert,
    _backtest_of_own_rules_fires_like_the_runs,
    _feed_has_every_run_followed_by_its_alerts,
)


async def test_past_of_a_monitor_is_the_same_in_every_view(tmp_path: Path) -> None:
    async with open_past(tmp_path) as life:
        for view in VIEWS:
            await view(life)


async def ran(life: Life, since: int) -> list[dict[str, Any]]:
    """Wait until there are more than `since` runs and the newest has ended. Return all runs."""
    with trio.fail_after(20.0):
        while True:
            items: list[dict[str, Any]] = (await life.data("/runs"))["items"]
            if len(items) > since and items[0]["finished_at"]:
                return items
            await trio.sleep(0.02)


async def test_paused_monitor_runs_nothing_and_resumes_at_its_slots(tmp_path: Path) -> None:
    async with open_life(tmp_path, credits=100) as life:
        node = life.node
        before = (await life.data(""))["monitor"]
        due = "UPDATE monitors SET next_slot_at = 1000000.0"
        await node.node.stores.store.write(lambda tx: tx.run(due))  # a slot that the scheduler has not seen yet
        paused = (await send(node, "PATCH", life.path, {"status": "paused"})).json["data"]["monitor"]
        assert (paused["status"], paused["next_run_at"]) == ("paused", None)
        details = assert_refused(await send(node, "POST", f"{life.path}/run"), "INVALID_REQUEST", 400)
        assert details["reason"] == "monitor_paused"
        node.upstream.script = WEEKS[0].answer
        other = (await send(node, "POST", MONITORS, {**STORIES, "run_now": True})).json["monitor"]
        await ran(Life(node, other["id"], []), 0)  # by then the scheduler has checked for due slots
        assert (await life.data("/runs"))["items"] == []
        listed = (await node.get(f"{MONITORS}?status=paused")).json["data"]["items"]
        assert [monitor["id"] for monitor in listed] == [life.id]

        resumed = (await send(node, "PATCH", life.path, {"status": "active"})).json["data"]["monitor"]
        assert (resumed["status"], resumed["next_run_at"]) == ("active", before["next_run_at"])
        opened = await send(node, "POST", f"{life.path}/run")
        assert (opened.status, opened.json["data"]["run"]["status"]) == (202, "pending")
        (run,) = await ran(life, 0)
        assert (run["run_id"], run["status"]) == (opened.json["data"]["run"]["run_id"], "ok")
        again = await send(node, "POST", f"{life.path}/run")
        assert_refused(again, "RATE_LIMITED", 429)
        assert 50 <= int(again.headers["retry-after"]) <= 60
        life.runs.append(run)
        await life.assert_paid()


async def test_deleted_monitor_is_gone_and_its_cost_stays_in_ledger(tmp_path: Path) -> None:
    async with open_past(tmp_path) as life:
        events = (await page(life.node, "types=monitor.*"))["data"]["items"]
        gone = await send(life.node, "DELETE", life.path)
        assert (gone.status, gone.body) == (204, b"")
        for below in ("", "/runs", "/timeseries", "/export", f"/chart.svg?metric={TOTAL}"):
            details = assert_refused(await life.node.get(life.path + below), "RESOURCE_NOT_FOUND", 404)
            assert details == {"reason": "unknown_monitor"}
        for method, below, body in (("PATCH", "", {"name": "b"}), ("POST", "/run", None), ("DELETE", "", None)):
            assert_refused(await send(life.node, method, life.path + below, body), "RESOURCE_NOT_FOUND", 404)
        assert (await life.node.get(MONITORS)).json["data"]["items"] == []
        with pytest.raises(OperationRefused, match="unknown monitor"):
            await life.node.operate("monitor.run", monitor=life.id)
        assert (await page(life.node, "types=monitor.*"))["data"]["items"] == events
        await life.assert_paid()


VELOCITY = {
    "recipe": "github/user/profile-velocity",
    "params": {"handle": "jacquev6"},
    "cadence": "daily",
    "track": {"metrics": ["author.followers", "velocity.own_repos_stars"]},
    "alert_rules": [{"metric": "velocity.own_repos_stars", "op": "no_data"}],
}


async def test_run_with_one_successful_leg_is_partial_and_costs_its_share(tmp_path: Path) -> None:
    async with open_life(tmp_path, VELOCITY, credits=100) as life:
        price = (await life.data(""))["monitor"]["estimated_cost_per_run"] - 1
        whole = await life.run(SLOTS[0])
        life.node.upstream.script = lambda asked: json_answer({}, status=500) if "/repos?" in asked else None
        partial = await life.run(SLOTS[1])
        assert (whole["status"], whole["credits_used"], whole["alerts_fired"]) == ("ok", price + 1, [])
        assert (partial["status"], partial["credits_used"]) == ("partial", -(-price // 2) + 1)
        assert [(leg["status"], leg["error"]) for leg in partial["legs"]] == [
            ("ok", None),
            ("failed", "UPSTREAM_ERROR"),
        ]
        shares = [[leg["credits_used"] for leg in run["legs"]] for run in (whole, partial)]
        assert shares == [[3, 2], [3, 0]]
        results = (await life.data("/runs?include=result"))["items"]
        assert [run["result"]["legs"] for run in results] == [partial["legs"], whole["legs"]]
        missing = partial["legs"][1]
        assert partial["warnings"] == [f"{missing['endpoint']} is missing: {missing['source']}: status 500"]
        fired = {"metric": "velocity.own_repos_stars", "op": "no_data", "from": None, "to": None}
        assert partial["alerts_fired"] == [{**fired, "delta": None, "pct_change": None, "row_id": "_"}]
        newest, _ = (await life.data("/runs?include=numbers"))["items"]
        assert newest["numbers"]["_"].keys() == {"author.followers"}
        assert newest["deltas"]["rows"]["_"].keys() == {"author.followers"}
        await life.assert_paid()
