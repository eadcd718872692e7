"""Section 4.5, decisions 12: a monitor's history over HTTP: series, exports, charts and backtests."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import httpx
import orjson
import pytest
import trio

from events.instants import iso
from tests.fakes.calling import Answered
from tests.fakes.feeding import post
from tests.fakes.monitoring import COMMENTS, FIRST, FOLLOWERS, HOOKED, HOUR_S, LIKES, MONITORS, POSTS, made, ran
from tests.fakes.node import OpenNode, open_test_node
from tests.spec.refusals import assert_free, assert_refused

COLUMNS = ["t", "row_id", "metric", "value", "abs_change", "pct_change"]
ROWS = [
    {"p1": {LIKES: 10, COMMENTS: 5}},
    {"p1": {LIKES: 15}, "-p2": {LIKES: 0}},
    {"p1": {LIKES: 12}, "-p2": {LIKES: 4}},
]
T = [iso(FIRST + place * HOUR_S) for place in range(6)]
ALERT = {"metric": LIKES, "op": "gt", "from": None, "to": 15, "delta": None, "pct_change": None, "row_id": "p1"}


async def past(node: OpenNode, id_: str, target: str) -> Answered:
    answer = await node.get(f"{MONITORS}/{id_}/{target}")
    assert answer.status == 200, answer.body
    return answer


async def free_again(node: OpenNode) -> None:
    """Wait until the key's only lease is released."""
    with trio.fail_after(20):
        while (await node.get(MONITORS)).status != 200:  # noqa: ASYNC110 - a socket sets no event
            await trio.sleep(0.01)


async def series(node: OpenNode, id_: str, query: str = "") -> Any:
    return (await past(node, id_, f"timeseries?{query}")).json["data"]


async def test_numbers_only_monitor_has_series(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, POSTS)
        assert await series(node, id_) == {"monitor_id": id_, "metric_keys": [], "points": [], "series": []}
        await ran(node, id_, ROWS)
        data = await series(node, id_)
        assert data.keys() == {"monitor_id", "metric_keys", "points", "series"}
        assert data["metric_keys"] == [LIKES, COMMENTS]
        of_likes = {one["row_id"]: one["points"] for one in data["series"] if one["metric"] == LIKES}
        assert of_likes["p1"] == [{"t": T[0], "value": 10}, {"t": T[1], "value": 15}, {"t": T[2], "value": 12}]
        assert of_likes["-p2"] == [{"t": T[1], "value": 0}, {"t": T[2], "value": 4}]
        narrowed = await series(node, id_, f"metric={LIKES}&row=-p2&from={T[1]}&to={T[2]}")
        assert narrowed["points"] == [{"t": T[1], "metrics": {LIKES: 0}}]
        assert narrowed["series"] == [{"row_id": "-p2", "metric": LIKES, "points": [{"t": T[1], "value": 0}]}]


async def test_ordinary_monitor_has_points(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, HOOKED)
        await ran(node, id_, [{"_": {FOLLOWERS: 1, "total": 2}}, {"_": {FOLLOWERS: 3}}], plain=True)
        data = await series(node, id_)
        assert data == {
            "monitor_id": id_,
            "metric_keys": [FOLLOWERS, "total"],
            "points": [{"t": T[0], "metrics": {FOLLOWERS: 1, "total": 2}}, {"t": T[1], "metrics": {FOLLOWERS: 3}}],
        }
        assert (await series(node, id_, "metric=total"))["points"] == [{"t": T[0], "metrics": {"total": 2}}]
        (warning,) = (await series(node, id_, "metric=author.folowers,total"))["_warnings"]
        assert warning.endswith(f"did you mean {FOLLOWERS}?")


async def test_untracked_metric_is_rejected_with_suggestion(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, POSTS)
        for target in ("timeseries?metric=items[].post.engagement.like", "chart.svg?metric=likes"):
            details = assert_refused(await node.get(f"{MONITORS}/{id_}/{target}"), "INVALID_REQUEST", 400)
            assert (details["param"], details["did_you_mean"]) == ("metric", LIKES)
        for target, param in (("chart.svg", "metric"), (f"chart.svg?metric={LIKES}", "row"), ("export?to=x", "to")):
            answer = await node.get(f"{MONITORS}/{id_}/{target}")
            assert assert_refused(answer, "INVALID_REQUEST", 400)["param"] == param
        details = assert_refused(await node.get(f"{MONITORS}/{id_}/export?format=cvs"), "INVALID_REQUEST", 400)
        assert (details["did_you_mean"], details["param"]) == ("csv", "format")
        await assert_free(node, answer)


async def test_csv_export_is_oldest_first_with_changes_and_no_formulas(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, POSTS)
        await ran(node, id_, ROWS)
        answer = await past(node, id_, "export")
        assert answer.headers["content-type"].startswith("text/csv")
        assert answer.headers["content-disposition"] == f'attachment; filename="{id_}.csv"'
        assert "content-length" not in answer.headers
        header, *rows = csv.reader(io.StringIO(answer.body.decode(), newline=""), strict=True)
        assert header == COLUMNS
        assert rows == [
            [T[0], "p1", LIKES, "10", "", ""],
            [T[0], "p1", COMMENTS, "5", "", ""],
            [T[1], "p1", LIKES, "15", "5", "50.0"],
            [T[1], "'-p2", LIKES, "0", "", ""],
            [T[2], "p1", LIKES, "12", "-3", "-20.0"],
            [T[2], "'-p2", LIKES, "4", "4", ""],
        ]
        windowed = (await past(node, id_, f"export?from={T[1]}&to={T[2]}")).body.decode()
        assert [line.split(",")[0] for line in windowed.splitlines()] == ["t", T[1], T[1]]


async def test_ndjson_export_has_csv_columns_as_keys_and_unescaped_texts(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, POSTS)
        await ran(node, id_, ROWS)
        answer = await past(node, id_, "export?format=ndjson")
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [orjson.loads(line) for line in answer.body.splitlines()]
        assert all(list(line) == COLUMNS for line in lines)
        assert lines[3] == {
            "t": T[1],
            "row_id": "-p2",
            "metric": LIKES,
            "value": 0,
            "abs_change": None,
            "pct_change": None,
        }


async def test_ordinary_monitor_exports_numbers_or_reports_none(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, HOOKED)
        assert (await past(node, id_, "export")).body == (",".join(COLUMNS) + "\r\n").encode(), "there are no runs yet"
        await ran(node, id_, [{"_": {}}] * 20, plain=True)
        answer = await node.get(f"{MONITORS}/{id_}/export")
        assert assert_refused(answer, "INVALID_REQUEST", 400)["reason"] == "no_numbers"
        await ran(node, id_, [{"_": {"total": 5}}, {"_": {"total": 10}}], plain=True, first=FIRST + 100 * HOUR_S)
        lines = [orjson.loads(line) for line in (await past(node, id_, "export?format=ndjson")).body.splitlines()]
        assert [(line["row_id"], line["value"], line["abs_change"], line["pct_change"]) for line in lines] == [
            ("_", 5, None, None),
            ("_", 10, 5, 100.0),
        ]


async def test_only_latest_thousand_runs_are_read(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, POSTS)
        await ran(node, id_, [{"_": {LIKES: place}} for place in range(1_005)])
        lines = [orjson.loads(line) for line in (await past(node, id_, "export?format=ndjson")).body.splitlines()]
        assert [line["value"] for line in lines] == list(range(5, 1_005))
        assert [point["metrics"][LIKES] for point in (await series(node, id_))["points"]] == list(range(5, 1_005))


async def test_series_are_truncated_beyond_a_hundred_thousand_points(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, POSTS)
        rows = {f"p{row}": {LIKES: row, COMMENTS: row} for row in range(200)}
        await ran(node, id_, [rows] * 260)
        data = await series(node, id_)
        assert data["series_truncated"] is True
        assert sum(len(one["points"]) for one in data["series"]) == 100_000
        assert data["series"][0]["points"][0]["t"] == iso(FIRST + 10 * HOUR_S), "the newest 250 runs"
        assert "series_truncated" not in await series(node, id_, f"metric={LIKES}")


async def test_export_is_streamed_and_holds_the_lease(tmp_path: Path) -> None:
    """Goal: an export needs little memory and respects the key's limits. Method: a reader that stops after a piece."""
    async with open_test_node(tmp_path, limits={"concurrent_requests": 1}) as node:
        id_ = await made(node, POSTS)
        rows = {f"p{row}": {LIKES: row, COMMENTS: row} for row in range(200)}
        await ran(node, id_, [rows] * 400)
        other, _ = await node.new_key(node.account)
        url, own = f"{node.url}{MONITORS}/{id_}/export", {"x-api-key": node.key}
        async with node.client.stream("GET", url, headers=own) as answer:
            pieces = answer.aiter_raw(1_000)
            assert (await anext(pieces)).startswith(b"t,row_id,metric")
            assert_refused(await node.get(MONITORS), "CONCURRENCY_LIMIT", 429)
            assert (await node.get(MONITORS, key=other)).status == 200
            count = 1_000
            async for piece in pieces:
                count += len(piece)
        assert count > 160_000 * len(T[0])
        await free_again(node)


async def test_disconnected_reader_releases_the_lease(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits={"concurrent_requests": 1}) as node:
        id_ = await made(node, POSTS)
        rows = {f"p{row}": {LIKES: row, COMMENTS: row} for row in range(200)}
        await ran(node, id_, [rows] * 400)
        parts = urlsplit(node.url)
        async with await trio.open_tcp_stream(parts.hostname or "", parts.port or 0) as socket:
            head = f"GET {MONITORS}/{id_}/export HTTP/1.1\r\nhost: a\r\nx-api-key: {node.key}\r\n\r\n"
            await socket.send_all(head.encode())
            assert (await socket.receive_some(1_000)).startswith(b"HTTP/1.1 200")
            assert_refused(await node.get(MONITORS), "CONCURRENCY_LIMIT", 429)
        await free_again(node)


async def test_export_with_an_unreadable_row_is_cut_off_visibly(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, POSTS)
        await ran(node, id_, [{"p1": {LIKES: 1}}] * 40)
        newest = "SELECT id FROM runs ORDER BY scheduled_for DESC LIMIT 1"
        broken = f"UPDATE run_data SET numbers = ? WHERE run_id = ({newest})"
        await node.node.stores.store.write(lambda tx: tx.run(broken, (b"broken",)))
        with pytest.raises(httpx.TransportError):
            await node.get(f"{MONITORS}/{id_}/export")
        assert (await node.get(MONITORS)).status == 200


async def test_head_of_export_has_no_body(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, POSTS)
        await ran(node, id_, ROWS)
        answer = await node.get(f"{MONITORS}/{id_}/export", method="HEAD")
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["content-type"].startswith("text/csv")
        assert "content-length" not in answer.headers, "the length is unknown, because the export is streamed"


async def test_export_is_the_same_on_both_engines(tmp_path: Path) -> None:
    bodies = []
    for engine in ("native", "hypercorn"):
        async with open_test_node(tmp_path / engine, server={"engine": engine}) as node:
            id_ = await made(node, POSTS)
            await ran(node, id_, ROWS * 20)
            bodies.append((await past(node, id_, "export")).body)
    assert bodies[0] == bodies[1]
    assert bodies[0].count(b"\r\n") == 1 + 20 * 6


async def test_chart_marks_alerts_of_its_metric(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, POSTS, name="<b>&")
        await ran(node, id_, ROWS, alerts={1: [ALERT]})
        answer = await past(node, id_, f"chart.svg?metric={LIKES}&row=p1")
        assert answer.headers["content-type"].startswith("image/svg+xml")
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        root = ElementTree.fromstring(answer.body)
        assert root.get("aria-label") == f"<b>&: {LIKES} of p1"
        kinds = [node.get("class") for node in root.iter("{http://www.w3.org/2000/svg}circle")]
        assert sorted(kind or "" for kind in kinds) == ["alert", "dot", "dot"]


async def test_rules_can_be_backtested(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        own = {"metric": LIKES, "op": "abs_change_gt", "value": 3}
        id_ = await made(node, POSTS, alert_rules=[own])
        await ran(node, id_, ROWS)
        await ran(node, id_, [{}], status="failed", first=FIRST + 3 * HOUR_S)
        data = (await post(node, f"{MONITORS}/{id_}/backtest", {})).json["data"]
        assert (data["monitor_id"], data["runs"], data["runs_fired"], data["alerts_fired"]) == (id_, 4, 2, 2)
        assert data["truncated"] is False
        fired = [(one["t"], [(alert["row_id"], alert["delta"]) for alert in one["alerts"]]) for one in data["fired"]]
        assert fired == [(T[1], [("p1", 5)]), (T[2], [("-p2", 4)])]
        other = {"alert_rules": [{"metric": LIKES, "op": "no_data"}], "from": T[1]}
        data = (await post(node, f"{MONITORS}/{id_}/backtest", other)).json["data"]
        assert [(one["t"], len(one["alerts"])) for one in data["fired"]] == [(T[3], 1)]
        assert data["runs"] == 3
        wrong = {"alert_rules": [{"metric": "likes", "op": "gt", "value": 1}]}
        details = assert_refused(await post(node, f"{MONITORS}/{id_}/backtest", wrong), "INVALID_REQUEST", 400)
        assert (details["param"], details["did_you_mean"]) == ("alert_rules[0].metric", LIKES)
        details = assert_refused(await post(node, f"{MONITORS}/{id_}/backtest", {"from": "x"}), "INVALID_REQUEST", 400)
        assert details["param"] == "from"


async def test_backtest_with_too_many_alerts_ends_early(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, POSTS)
        rows = {f"p{row}": {LIKES: row} for row in range(200)}
        await ran(node, id_, [rows] * 60)
        rules = {"alert_rules": [{"metric": LIKES, "op": "gte", "value": 0}]}
        data = (await post(node, f"{MONITORS}/{id_}/backtest", rules)).json["data"]
        assert (data["runs"], data["alerts_fired"], data["truncated"]) == (50, 10_000, True)
