"""Monitors on a whole node with real recipes: scheduled runs start automatically, and an operator can run a slot."""

from pathlib import Path

import orjson
import pytest
import trio

from gateway.admin.operations import OperationRefused
from scheduler.monitors.model import store
from scheduler.monitors.model.records import Monitor
from scheduler.recipes import RecipeInvalid
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import json_answer
from tests.scheduler.stored import kept_data

PROFILE = {"handle": "octocat"}
FOLLOWERS = {"metrics": ["author.followers"], "row_key": None, "max_rows": 100}


async def made(
    opened: OpenNode, *, recipe: str = "github/profile", params: object = None, due_in_s: float = 3600.0
) -> Monitor:
    now = opened.node.monitors.clock._now()
    monitor = Monitor(
        id="mon_1",
        account_id=opened.account,
        key_id=opened.key_id,
        name="test",
        recipe=recipe,
        params=orjson.dumps(params or PROFILE).decode(),
        cadence='"hourly"',
        track=orjson.dumps(FOLLOWERS).decode() if recipe == "github/profile" else None,
        alert_rules="[]",
        webhook_format="full",
        suppress=False,
        status="active",
        next_slot_at=float(int(now + due_in_s) // 3600 * 3600),
        rule_state="{}",
        baseline_run_id=None,
        runs_total=0,
        credits_spent=0,
        created_at=now - 7200.0,
        updated_at=now,
        version=0,
    )
    await opened.node.stores.store.write(lambda tx: store.add_monitor(tx, monitor))
    return monitor


async def test_operator_run_reports_its_outcome(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as opened:
        await made(opened, due_in_s=36_000)
        record = await opened.operate("monitor.run", monitor="mon_1", slot="2026-01-31T12:00:00Z")
        assert (record["status"], record["credits_used"], record["rows"]) == ("ok", 2, None)
        assert record["scheduled_for"] == "2026-01-31T12:00:00.000Z"
        (leg,) = record["legs"]
        assert (leg["endpoint"], leg["rung"], leg["rung_index"]) == ("github/profile", "primary", 0)
        assert record["webhook_delivery"] is None
        again = await opened.operate("monitor.run", monitor="mon_1", slot="2026-01-31T12:00:00Z")
        assert again == {**record, "begun_now": False}
        assert await opened.net(record["run_id"]) == 2
        data = await opened.node.stores.store.read(lambda tx: kept_data(tx, record["run_id"]))
        assert orjson.loads(data.numbers or b"")["_"].keys() == {"author.followers"}
        await opened.assert_sound()


async def test_invalid_runs_and_recipes_are_rejected_with_their_reason(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as opened:
        for arguments, why in (
            ({"monitor": "mon_none"}, "unknown monitor mon_none"),
            ({"monitor": "mon_1", "slot": "9999-12-31T23:59:59-14:00"}, "9999-12-31T23:59:59-14:00 is not an ISO"),
            ({"monitor": "mon_1", "slot": "soon"}, "soon is not an ISO 8601 time such as 2030-01-31T12:00:00Z"),
        ):
            with pytest.raises(OperationRefused, match=why):
                await opened.operate("monitor.run", **arguments)
        for recipe, params, param, meant in (
            ("github/profil", PROFILE, "recipe", "github/profile"),
            ("github/profile", {"handel": "octocat"}, "params.handel", "handle"),
        ):
            with pytest.raises(RecipeInvalid) as refused:
                opened.node.monitors.recipes.read(recipe, params)
            assert (refused.value.param, refused.value.did_you_mean) == (param, meant)
            assert refused.value.problem


async def test_scheduled_runs_start_automatically_without_the_cache(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as opened:
        await opened.get("/v1/github/profile?handle=octocat")
        monitor = await made(opened, due_in_s=0)
        opened.node.monitors.clock.wake()
        read = opened.node.stores.store.read
        while (after := await read(lambda tx: store.read_monitor(tx, monitor.id))) and not after.runs_total:  # noqa: ASYNC110 - a run of the node sets no event
            await trio.sleep(0.02)
        assert after is not None
        assert (after.runs_total, after.credits_spent) == (1, 2)
        assert await opened.gauge("sluice_monitor_runs_begun_total") == 1
        assert await opened.gauge("sluice_monitor_runs_in_flight") == 0
        await opened.assert_sound()


async def test_walk_costs_its_pages_and_one_credit(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as opened:
        await made(opened, recipe="hackernews/search", params={"query": "trio", "limit": 5}, due_in_s=36_000)
        record = await opened.operate("monitor.run", monitor="mon_1")
        assert (record["status"], record["credits_used"], record["rows"]) == ("ok", 2, 5)
        taken = [entry["amount"] for entry in await opened.entries(record["run_id"])]
        assert sorted(taken) == [-6, 4]  # five pages were reserved, and one was used
        assert await opened.net(record["run_id"]) == 2
        await opened.assert_sound()


async def test_run_with_failed_upstream_is_free(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as opened:
        opened.upstream.always(json_answer({}, status=500))
        await made(opened, due_in_s=36_000)
        record = await opened.operate("monitor.run", monitor="mon_1")
        assert (record["status"], record["credits_used"]) == ("failed", 0)
        assert (record["skip_reason"], record["warnings"]) == ("UPSTREAM_ERROR", ["api: status 500"])
        await opened.assert_sound()
