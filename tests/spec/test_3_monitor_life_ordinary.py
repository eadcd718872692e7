"""Sections 2.6, 2.7, 3 and 4.5 for a monitor without `track`, which finds its metrics in its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from tests.fakes.node import open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.spec.monitor_life import MONITORS, SLOTS, STORIES, WEEKS, open_life, send
from tests.spec.refusals import assert_refused

PROFILE = {
    "recipe": "github/profile",
    "params": {"handle": "jacquev6"},
    "cadence": {"cron": "30 6 1 1 *", "timezone": "Europe/Berlin"},
    "webhook_url": "http://127.0.0.1:1/hook",
    "suppress_webhook_unless_alert": True,
    "alert_rules": [
        {"metric": "followers", "op": "abs_change_gt", "value": 5},
        {"metric": "folowers", "op": "gt", "value": 1},
    ],
}
USER = {"login": "jacquev6", "id": 327146, "type": "User", "name": "Vincent Jacques", "site_admin": False}


def user(followers: int, public_repos: int) -> Any:
    """Return a GitHub user with these numbers."""
    counts = {"followers": followers, "following": 24, "public_repos": public_repos, "public_gists": 8}
    times = {"created_at": "2010-07-09T06:10:06Z", "updated_at": "2012-05-29T16:35:41Z"}
    return json_answer({**USER, **counts, **times, "html_url": "https://github.com/jacquev6", "location": "Paris"})


async def test_ordinary_monitor_compares_metrics_of_its_result(tmp_path: Path) -> None:
    async with open_life(tmp_path, PROFILE, credits=5) as life:
        for slot, answer in zip(
            SLOTS, (user(40, 10), json_answer({}, status=500), user(50, 10), user(60, 10)), strict=False
        ):
            life.node.upstream.always(answer)
            await life.run(slot)
        assert [(run["status"], run["credits_used"]) for run in life.runs] == [
            ("ok", 2),
            ("failed", 0),
            ("ok", 2),
            ("skipped", 0),
        ]
        first, _, third, _ = (await life.data("/runs?include=numbers"))["items"][::-1]
        metrics = first["numbers"]["_"]
        assert (metrics["followers"], metrics["public_repos"]) == (40, 10)
        assert metrics.keys() == {"id", "followers", "following", "public_repos", "public_gists"}
        assert (first["deltas"], third["deltas"]["followers"]) == ({}, 10)
        assert third["deltas"]["public_repos"] == 0
        fired = {"metric": "followers", "op": "abs_change_gt", "from": 40, "to": 50, "delta": 10}
        assert [run["alerts_fired"] for run in life.runs] == [[], [], [{**fired, "pct_change": 25.0}], []]
        assert life.runs[2]["warnings"] == [
            "the rule folowers gt was skipped: this run has no such number",
        ]
        assert [run["webhook_delivery"] is None for run in life.runs] == [True, True, False, True]
        await life.assert_paid()


async def test_ordinary_result_is_the_raw_source_body(tmp_path: Path) -> None:
    async with open_life(tmp_path, PROFILE) as life:
        life.node.upstream.always(user(40, 10))
        await life.run(SLOTS[0])
        (run,) = (await life.data("/runs?include=result"))["items"]
        assert run["result"] == orjson.loads(user(40, 10).body)


async def test_composite_result_is_the_unified_response(tmp_path: Path) -> None:
    composite = {**PROFILE, "recipe": "github/user/profile-velocity", "alert_rules": []}
    async with open_life(tmp_path, composite) as life:
        await life.run(SLOTS[0])
        (run,) = (await life.data("/runs?include=result"))["items"]
        assert {"author", "velocity", "legs"} <= run["result"].keys()


async def test_result_of_several_calls_has_each_path_and_body(tmp_path: Path) -> None:
    many = {**PROFILE, "recipe": "hackernews/search", "params": STORIES["params"], "alert_rules": []}
    async with open_life(tmp_path, many) as life:
        life.node.upstream.script = WEEKS[0].answer
        await life.run(SLOTS[0])
        (run,) = (await life.data("/runs?include=result"))["items"]
        assert [call["body"]["page"] for call in run["result"]["calls"]] == [0, 1]
        assert {call["path"].split("?")[0] for call in run["result"]["calls"]} == {"/search"}
        assert run["rows"] == 3


async def test_history_of_an_ordinary_monitor_has_a_single_row(tmp_path: Path) -> None:
    async with open_life(tmp_path, PROFILE) as life:
        for slot, followers in zip(SLOTS[:2], (40, 50), strict=True):
            life.node.upstream.always(user(followers, 10))
            await life.run(slot)
        data = await life.data("/timeseries?metric=followers")
        assert data == {
            "monitor_id": life.id,
            "metric_keys": ["followers"],
            "points": [
                {"t": slot, "metrics": {"followers": count}} for slot, count in zip(SLOTS[:2], (40, 50), strict=True)
            ],
        }
        csv = (await life.node.get(f"{life.path}/export")).body.decode()
        assert [line for line in csv.split("\r\n") if "followers," in line] == [
            "2026-01-01T06:00:00.000Z,_,followers,40,,",
            "2026-02-01T06:00:00.000Z,_,followers,50,10,25.0",
        ]
        chart = (await life.node.get(f"{life.path}/chart.svg?metric=followers")).body.decode()
        assert "2026-02-01 06:00 UTC: 50; alert abs_change_gt: 50" in chart
        rules = {"alert_rules": [{"metric": "followers", "op": "gte", "value": 40, "consecutive": 2}]}
        tried = (await send(life.node, "POST", f"{life.path}/backtest", rules)).json["data"]
        assert [fired["run_id"] for fired in tried["fired"]] == [life.runs[1]["run_id"]]
        assert (await life.data(""))["monitor"]["webhook"]["status"] == "active"
        await life.assert_paid()


async def test_ordinary_monitor_shows_secret_once_and_needs_a_webhook(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, webhooks={"allow_insecure_targets": True}) as node:
        made = (await send(node, "POST", MONITORS, PROFILE)).json
        secret, monitor = made["webhook_secret"], made["monitor"]
        assert secret.startswith("whsec_")
        assert monitor["webhook"]["signing_secret_hint"] == f"...{secret[-4:]}"
        assert (monitor["name"], monitor["cadence"]) == ("github/profile monitor", PROFILE["cadence"])
        assert monitor["next_run_at"][4:] == "-01-01T05:30:00.000Z"  # 6:30 in Berlin
        assert secret not in (await node.get(f"{MONITORS}/{monitor['id']}")).body.decode()
        without = {name: value for name, value in PROFILE.items() if name != "webhook_url"}
        details = assert_refused(await send(node, "POST", MONITORS, without), "INVALID_REQUEST", 400)
        assert details["param"] == "webhook_url"


async def test_text_result_is_stored_unchanged(tmp_path: Path) -> None:
    """Method: GitHub fails, and the fallback returns the README itself."""
    recipe = {
        **PROFILE,
        "recipe": "github/repo/readme",
        "params": {"url": "github.com/octocat/hello"},
        "alert_rules": [],
    }
    async with open_life(tmp_path, recipe) as life:
        text = ScriptedAnswer(200, b"# Hello", {"content-type": "text/plain; charset=utf-8"})
        life.node.upstream.script = lambda asked: (
            text if asked.endswith("/HEAD/README.md") else json_answer({}, status=404 if "raw.github" in asked else 500)
        )
        run = await life.run(SLOTS[0])
        assert (run["status"], run["legs"][0]["rung"]) == ("ok", "fallback")
        (run,) = (await life.data("/runs?include=result"))["items"]
        assert run["result"] == "# Hello"
