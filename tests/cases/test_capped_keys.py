"""Everything that a key starts counts toward its counter and its limit (decisions 24)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from scheduler.monitors.model.records import Monitor, Run
from scheduler.monitors.runs.run_rows import RunLease
from scheduler.monitors.runs.runs import charge_request
from scheduler.recipes import Recipe
from tests.cases.error_cases import SESSION, add_sessions
from tests.cases.files import check_all
from tests.cases.paid_calls import BODIES, DEAD_BROWSER, SESSIONS, ended, paid_routes, send, send_paid, settled
from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.scheduler.desk import EPOCH
from tests.spec.rows import CREDENTIALS, ENVIRON, ROWS, SOME_ROWS

pytestmark = pytest.mark.critical

MONITORS: Final = "/v1/monitors"
WATCHES: Final = "/v1/web/monitors"
RUNS: Final = "/v1/prism/discover/runs"
SCHEDULES: Final = "/v1/prism/discover/schedules"
MONITOR: Final = {"cadence": "daily", "webhook_url": "https://hooks.example.org/x", "run_now": True}
PROFILE: Final = {"recipe": "github/profile", "params": {"handle": "octocat"}}
WATCH: Final = {"url": "https://example.com/", "cadence_minutes": 60, "run_now": True}
SEARCH: Final = {"keywords": ["trio"], "platforms": ["hackernews"], "max_credits": 3}
STARTS: Final = {
    *(("POST", path) for path in (MONITORS, WATCHES, SCHEDULES)),
    *(("POST", f"{path}/{{monitor_id}}/run") for path in (MONITORS, WATCHES)),
    ("PATCH", f"{RUNS}/{{run_id}}"),
    ("PATCH", f"{SESSIONS}/{{session_id}}"),
}
"""Routes that are free, but lead to later charges; each has a test below."""
FREE: Final = {
    *(("DELETE", f"{MONITORS}/{{monitor_id}}"), ("DELETE", f"{WATCHES}/{{monitor_id}}")),
    *(("PATCH", f"{MONITORS}/{{monitor_id}}"), ("PATCH", f"{WATCHES}/{{monitor_id}}")),
    *(("DELETE", f"{RUNS}/{{run_id}}"), ("DELETE", f"{SESSIONS}/{{session_id}}")),
    *(("PATCH", f"{SCHEDULES}/{{schedule_id}}"), ("DELETE", f"{SCHEDULES}/{{schedule_id}}")),
    *(("PATCH", "/v1/web/jobs/{job_id}"), ("DELETE", "/v1/web/jobs/{job_id}")),
    *(("POST", "/v1/cohorts"), ("DELETE", "/v1/cohorts/{cohort_id}"), ("PUT", "/v1/cohorts/{cohort_id}/members")),
    ("DELETE", "/v1/cohort-queries/{query_id}"),
    ("POST", f"{SESSIONS}/{{session_id}}/execute"),
    ("POST", f"{MONITORS}/{{monitor_id}}/backtest"),
    ("POST", "/v1/purchases"),
    *(("POST", f"/v1/events/consumers/{{consumer}}/{name}") for name in ("ack", "reset")),
    ("DELETE", "/v1/events/consumers/{consumer}"),
    *(("POST", f"{MONITORS}/{{monitor_id}}/webhook/{name}") for name in ("rotate-secret", "resume")),
    *(
        ("POST", f"{of}/deliveries/{{delivery_id}}/redeliver")
        for of in (f"{MONITORS}/{{monitor_id}}", "/v1/webhooks/{webhook_id}", "/v1/web/jobs/{job_id}")
    ),
    ("POST", "/v1/webhooks"),
    *(("POST", f"/v1/webhooks/{{webhook_id}}/{name}") for name in ("test", "rotate-secret")),
    *(("PATCH", "/v1/webhooks/{webhook_id}"), ("DELETE", "/v1/webhooks/{webhook_id}")),
}
"""Routes that start nothing that is charged, or continue what another request has reserved."""


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OpenNode]:
    """Open a node that can call every endpoint."""
    tables: dict[str, Any] = {"web": DEAD_BROWSER, "limits": {"requests_per_minute": 5_000}}
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS, **tables) as opened:
        yield opened
        await opened.assert_sound()


async def used(node: OpenNode, key_id: str) -> int:
    await node.money()
    (record,) = [one for one in await node.operate("key.list", account=node.account) if one["id"] == key_id]
    count: int = record["used"]
    return count


async def spent(node: OpenNode) -> int:
    balance, held = await node.money()
    assert held == 0
    return CREDITS - balance


async def cap(node: OpenNode, key_id: str) -> int:
    """Lower the key's limit to the credits that it has used, and return their number."""
    count = await used(node, key_id)
    await node.operate("key.update", key=key_id, credit_limit=max(1, count))
    return count


async def test_every_route_declares_whether_it_starts_charged_work(node: OpenNode) -> None:
    """A new route must be listed here, and needs a test if it starts charged work."""
    paid = {("POST", path) for path in paid_routes(node)}
    routes = [one.route for one in node.node.description.reference.operations]
    others = {(route.allow[0], route.path) for route in routes if route.path not in BODIES or route.doc is None}
    changing = {(method, path) for method, path in others if method != "GET" and path != "/v1/youtube/transcripts"}
    assert changing == STARTS | FREE
    assert paid.isdisjoint(changing)


async def test_every_endpoint_counts_toward_its_key_and_stops_at_its_cap(node: OpenNode) -> None:
    """The balance that the owner sees is correct after each answer, and nothing stays reserved."""
    key, key_id = await node.new_key(node.account, credit_limit=50_000)
    charged, wrong = 0, []
    for row in SOME_ROWS:
        charged += (await node.get(row.target(), key=key)).json["credits_used"]
        shown = (await node.get("/v1/credits/balance")).json["data"]
        if (shown["balance"], shown["held"]) != (CREDITS - charged, 0):
            wrong.append((row.id, shown))
    assert wrong == []
    assert await used(node, key_id) == await spent(node) == charged > len(SOME_ROWS) / 2
    count = await cap(node, key_id)
    fresh = {"cache-control": "no-cache"}
    for row in SOME_ROWS:
        answer = await node.get(row.target(), key=key, headers=fresh)
        assert (answer.status, answer.code) == (402, "KEY_BUDGET_EXCEEDED"), (row.id, answer.body)
    assert await used(node, key_id) == count == await spent(node)


async def test_every_paid_call_counts_toward_its_key_and_stops_at_its_cap(node: OpenNode) -> None:
    async def check(path: str, _body: Any) -> None:
        await node.renew()
        key, key_id = await node.new_key(node.account, credit_limit=1_000)
        answer = await send_paid(node, path, key)
        await ended(node, answer)
        count = await used(node, key_id)
        assert count == await spent(node), answer.body
        if path == SESSIONS:  # its browser is unavailable
            assert (answer.status >= 500, count) == (True, 0)
        else:
            assert answer.status in (200, 202), answer.body
            assert count > 0, answer.body
        await cap(node, key_id)
        refused = await send_paid(node, path, key)
        assert (refused.status, refused.code) == (402, "KEY_BUDGET_EXCEEDED"), refused.body
        assert await used(node, key_id) == count

    await check_all(BODIES, check)


async def run_of(node: OpenNode, path: str) -> dict[str, Any]:
    """Return the only run or check of a Monitor once it has ended."""
    with trio.fail_after(60):
        while True:
            found: list[dict[str, Any]] = (await node.get(path)).json["data"]["items"]
            if found and found[0]["status"] not in ("pending", "running", "scheduled"):
                return found[0]
            await trio.sleep(0.05)


@pytest.mark.parametrize("kind", [MONITORS, WATCHES])
async def test_monitor_counts_toward_its_creator_even_if_another_key_runs_it(kind: str, node: OpenNode) -> None:
    """Covers the run that the creation starts and runs that another key starts. At the cap, runs are skipped."""
    key, key_id = await node.new_key(node.account, credit_limit=1_000)

    async def make(**more: object) -> str:
        body = {**MONITOR, **PROFILE, **more} if kind == MONITORS else {**WATCH, **more}
        made = await send(node, "POST", kind, key, body)
        assert made.status == 201, made.body
        return str(made.json["monitor"]["id"] if kind == MONITORS else made.json["data"]["monitor"]["monitor_id"])

    async def run(id_: str) -> dict[str, Any]:
        return await run_of(node, f"{kind}/{id_}/" + ("runs" if kind == MONITORS else "checks"))

    await run(await make())
    assert await used(node, key_id) == await spent(node) == 2
    by_other, refused = await make(run_now=False), await make(run_now=False)
    assert (await send(node, "POST", f"{kind}/{by_other}/run", node.key)).status == 202
    await run(by_other)
    assert await used(node, key_id) == await spent(node) == 4
    await cap(node, key_id)
    assert (await send(node, "POST", f"{kind}/{refused}/run", node.key)).status == 202
    skipped = await run(refused)
    reason = skipped["skip_reason" if kind == MONITORS else "reason"]
    assert (skipped["status"], reason) == ("skipped", "key_budget_reached")
    assert await used(node, key_id) == await spent(node) == 4


async def occurrence(node: OpenNode, schedule_id: str, *, count: int) -> dict[str, Any]:
    """Return the newest occurrence of a schedule once it has `count` of them. Its slots are moved into the past."""

    def come(tx: Any) -> None:
        tx.run("UPDATE discover_occurrences SET scheduled_for = scheduled_for - 3600")
        tx.run("UPDATE discover_schedules SET created_at = created_at - 90000, next_slot_at = next_slot_at - 3600")

    await node.node.stores.store.write(come)
    node.node.monitors.clock.wake()
    with trio.fail_after(60):
        while True:
            slots: list[dict[str, Any]] = (await node.get(f"{SCHEDULES}/{schedule_id}/occurrences")).json["data"][
                "items"
            ]
            if len(slots) >= count:
                return slots[0]
            await trio.sleep(0.05)


async def test_schedule_counts_toward_its_creator(node: OpenNode) -> None:
    key, key_id = await node.new_key(node.account, credit_limit=1_000)
    made = await send(node, "POST", SCHEDULES, key, {"run": SEARCH, "cadence": "hourly"})
    assert made.status == 201, made.body
    schedule_id = made.json["data"]["schedule_id"]
    first = await occurrence(node, schedule_id, count=1)
    await settled(node, f"{RUNS}/{first['run_id']}")
    count = await cap(node, key_id)
    assert count == await spent(node) > 0
    second = await occurrence(node, schedule_id, count=2)
    assert (second["run_id"], second["skip_reason"]) == (None, "key_budget_reached")
    assert await used(node, key_id) == count == await spent(node)


async def test_resumed_run_counts_toward_the_resuming_key(node: OpenNode) -> None:
    words = {**SEARCH, "keywords": ["trio", "anyio", "curio", "asyncio"], "max_credits": 1, "background": True}
    begun = await send(node, "POST", RUNS, node.key, words)
    await ended(node, begun)
    place = f"{RUNS}/{begun.json['data']['run_id']}"
    assert (await node.get(place)).json["data"]["status"] == "paused"
    before = await spent(node)
    key, key_id = await node.new_key(node.account, credit_limit=2)
    going_on = await send(node, "PATCH", place, key, {"status": "running", "max_credits": 10})
    assert going_on.status == 200, going_on.body
    await settled(node, place)
    assert 0 < await used(node, key_id) == await spent(node) - before <= 2
    await cap(node, key_id)
    refused = await send(node, "PATCH", place, key, {"status": "running", "max_credits": 20})
    assert (refused.status, refused.code) == (402, "KEY_BUDGET_EXCEEDED"), refused.body


async def test_session_extension_counts_toward_the_requesting_key(node: OpenNode) -> None:
    await add_sessions(node, 1, "opening")
    store = node.node.stores.store
    await store.write(lambda tx: tx.run("UPDATE web_sessions SET created_at = ?, active_at = ?", (EPOCH, EPOCH)))
    key, key_id = await node.new_key(node.account, credit_limit=10)
    place = f"{SESSIONS}/{SESSION[:-2]}00"
    refused = await send(node, "PATCH", place, key, {"ttl_seconds": 3_600})
    assert (refused.status, refused.code) == (402, "KEY_BUDGET_EXCEEDED"), refused.body
    await node.operate("key.update", key=key_id, credit_limit=100)
    assert (await send(node, "PATCH", place, key, {"ttl_seconds": 3_600})).status == 200
    assert await used(node, key_id) == 20
    assert (await send(node, "DELETE", place, node.key)).status == 200
    assert await used(node, key_id) == await spent(node) == 0, "its page could not be opened"


async def test_monitor_of_every_recipe_counts_toward_its_key(node: OpenNode) -> None:
    """Check what each recipe's declaration says about its charge, and run a few recipes of each kind."""
    for row in ROWS:
        recipe = Recipe(f"/v1/{row.id}", {}, row.endpoint.archetype, row.platform.slug, 1, 2)
        request = charge_request(RunLease(_run(), _monitor(node.key_id)), recipe)
        assert (request.key_id, request.in_background) == (node.key_id, True), row.id
    for recipe_id, params in (
        ("github/profile", {"handle": "octocat"}),
        ("hackernews/search", {"query": "trio"}),
        ("prism/mentions", {"phrase": "trio", "platforms": "hackernews"}),
    ):
        key, key_id = await node.new_key(node.account, credit_limit=100)
        made = await send(node, "POST", MONITORS, key, {**MONITOR, "recipe": recipe_id, "params": params})
        run = await run_of(node, f"{MONITORS}/{made.json['monitor']['id']}/runs")
        assert await used(node, key_id) == run["credits_used"] > 1
        await node.operate("key.revoke", key=key_id)


def _run() -> Run:
    return Run("run_" + "0" * 32, "mon_1", "acc_1", EPOCH, "running", EPOCH, attempt=1)


def _monitor(key_id: str) -> Monitor:
    texts = ("name", "github/profile", "{}", '"daily"', None, "[]")
    return Monitor("mon_1", "acc_1", key_id, *texts, "full", False, "active", None, "{}", None, 0, 0, EPOCH, EPOCH, 1)


async def test_capped_key_cannot_overspend_through_monitors(node: OpenNode) -> None:
    key, key_id = await node.new_key(node.account, credit_limit=3)
    for number, status in enumerate(("ok", "skipped")):
        made = await send(node, "POST", MONITORS, key, {**MONITOR, **PROFILE})
        assert made.status == 201, made.body
        run = await run_of(node, f"{MONITORS}/{made.json['monitor']['id']}/runs")
        assert (run["status"], run["credits_used"]) == (status, 2 - 2 * number), run
    assert run["skip_reason"] == "key_budget_reached"
    assert await used(node, key_id) == 2 == await spent(node)
    assert (await node.get("/v1/bluesky/profile?handle=a.test", key=key)).status == 200
    refused = await node.get("/v1/bluesky/profile?handle=b.test", key=key)
    assert (refused.status, refused.code) == (402, "KEY_BUDGET_EXCEEDED")
