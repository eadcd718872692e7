"""Everything that a key starts counts toward its counter and its limit (decisions 24)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from scheduler.monitors.model.records import Monitor, Run
from scheduler.monitors.runs.run_rows import RunLease
from scheduler.monitors.runs.runs import charge_request
from scheduler.recipes import Recipe
from tests.fakes.calling import Answered
from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.scheduler.desk import EPOCH
from tests.spec.rows import CREDENTIALS, ENVIRON, ROWS

pytestmark = pytest.mark.critical

MONITOR = {"cadence": "daily", "webhook_url": "https://hooks.example.org/x", "run_now": True}
JOBS: dict[str, tuple[dict[str, Any], str]] = {
    "/v1/web/crawl": ({"url": "https://example.com/", "limit": 1}, "/v1/web/jobs/{job_id}"),
    "/v1/web/batch-scrape": ({"urls": ["https://example.com/"]}, "/v1/web/jobs/{job_id}"),
    "/v1/prism/discover/runs": (
        {"keywords": ["trio"], "platforms": ["hackernews"], "max_credits": 2, "background": True},
        "/v1/prism/discover/runs/{run_id}",
    ),
}
OVER = ("completed", "partial", "failed", "cancelled", "paused")


async def send(node: OpenNode, method: str, path: str, key: str, body: object = None) -> Answered:
    headers = {"x-api-key": key, "content-type": "application/json"}
    content = None if body is None else orjson.dumps(body)
    answer = await node.client.request(method, node.url + path, headers=headers, content=content)
    return Answered(answer.status_code, dict(answer.headers), answer.content)


async def used(node: OpenNode, key_id: str) -> int:
    await node.money()
    (record,) = [one for one in await node.operate("key.list", account=node.account) if one["id"] == key_id]
    count: int = record["used"]
    return count


async def first_run(node: OpenNode, key: str, **monitor: Any) -> dict[str, Any]:
    """The run that a new Monitor of this key begins at once, when it has ended."""
    made = await send(node, "POST", "/v1/monitors", key, {**MONITOR, **monitor})
    assert made.status == 201, made.body
    return await ended_run(node, made.json["monitor"]["id"])


async def ended_run(node: OpenNode, monitor_id: str) -> dict[str, Any]:
    while True:
        run: dict[str, Any] = (await node.get(f"/v1/monitors/{monitor_id}/runs")).json["data"]["items"][0]
        if run["status"] not in ("pending", "running"):
            return run
        await trio.sleep(0.05)


async def test_a_monitor_of_every_recipe_counts_toward_its_key(tmp_path: Path) -> None:
    """The charge of each recipe by its declaration, through the node's own recipes; then one run of a few for real."""
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS) as node:
        for row in ROWS:
            recipe = Recipe(f"/v1/{row.id}", {}, row.endpoint.archetype, row.platform.slug, 1, 2)
            lease = RunLease(_run(), _monitor(node.key_id))
            request = charge_request(lease, recipe)
            assert (request.key_id, request.in_background) == (node.key_id, True), row.id
        for recipe_id, params in (
            ("github/profile", {"handle": "octocat"}),
            ("hackernews/search", {"query": "trio"}),
            ("prism/mentions", {"phrase": "trio", "platforms": "hackernews"}),
        ):
            key, key_id = await node.new_key(node.account, credit_limit=100)
            run = await first_run(node, key, recipe=recipe_id, params=params)
            assert run["credits_used"] > 1, run
            assert await used(node, key_id) == run["credits_used"]
            await node.operate("key.revoke", key=key_id)
        await node.assert_sound()


def _run() -> Run:
    return Run("run_" + "0" * 32, "mon_1", "acc_1", EPOCH, "running", EPOCH, attempt=1)


def _monitor(key_id: str) -> Monitor:
    texts = ("name", "github/profile", "{}", '"daily"', None, "[]")
    return Monitor("mon_1", "acc_1", key_id, *texts, "full", False, "active", None, "{}", None, 0, 0, EPOCH, EPOCH, 1)


async def test_a_capped_key_does_not_spend_past_its_cap_by_monitors(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        key, key_id = await node.new_key(node.account, credit_limit=3)
        profile = {"recipe": "github/profile", "params": {"handle": "octocat"}}
        assert (await first_run(node, key, **profile))["status"] == "ok"
        run = await first_run(node, key, **profile)
        assert (run["status"], run["skip_reason"], run["credits_used"]) == ("skipped", "key_budget_reached", 0)
        assert await used(node, key_id) == 2
        assert await node.money() == (CREDITS - 2, 0)
        assert (await node.get("/v1/bluesky/profile?handle=a.test", key=key)).status == 200
        refused = await node.get("/v1/bluesky/profile?handle=b.test", key=key)
        assert (refused.status, refused.code) == (402, "KEY_BUDGET_EXCEEDED")
        await node.assert_sound()


async def ended_job(node: OpenNode, target: str) -> dict[str, Any]:
    while True:
        job: dict[str, Any] = (await node.get(target)).json["data"]
        if job["status"] in OVER:
            return job
        await trio.sleep(0.05)


@pytest.mark.parametrize("path", JOBS)
async def test_a_job_counts_toward_its_key(path: str, tmp_path: Path) -> None:
    body, place = JOBS[path]
    async with open_test_node(tmp_path) as node:
        key, key_id = await node.new_key(node.account, credit_limit=2)
        begun = await send(node, "POST", path, key, body)
        assert begun.status == 202, begun.body
        target = place.format(**begun.json["data"])
        job = await ended_job(node, target)
        balance, held = await node.money()
        assert (await used(node, key_id), held) == (CREDITS - balance, 0), job
        assert CREDITS - balance <= 2
        await node.assert_sound()
