"""Web monitors over HTTP, on a whole node that reads a changing page (decisions 21)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.gateway.api.routes.asking import ask

PAGE = "https://shop.example.com/bread"
WATCHES = "/v1/web/monitors"
WATCH = {"url": PAGE, "cadence_minutes": 60, "ignore": [".visits", "time"]}


class Shop:
    """A page whose noise changes with every visit: the time, a counter, an advertisement."""

    def __init__(self) -> None:
        self.price = 14
        self.visits = 0
        self.is_open = True

    def __call__(self, asked: str) -> ScriptedAnswer:
        if asked.endswith("/robots.txt") or not self.is_open:
            return ScriptedAnswer(404, b"", {"content-type": "text/html"})
        self.visits += 1
        page = f"""<html><head><title>Bread</title></head><body><nav>Menu {self.visits}</nav><main><h1>Bread of rye</h1>
        <p>It is dark, made of rye, water and salt, and keeps for a week when it is wrapped in linen.</p>
        <p>As of <time>12:{self.visits:02d}</time>, one loaf is {self.price} euros, which is what it costs to bake.</p>
        <p class="visits">{self.visits} people have seen this page today, and nine of them are looking at it now.</p>
        <div class="advertisement">Buy the other bread number {self.visits}, which is much better than this one!</div>
        <p>Whoever buys three of them has a fourth one for nothing, on each day but on Sundays.</p></main></body>"""
        return ScriptedAnswer(200, page.encode(), {"content-type": "text/html"})


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OpenNode]:
    async with open_test_node(tmp_path, credits=500) as opened:
        yield opened
        await opened.assert_sound()


async def check(node: OpenNode, watch: str, hour: int) -> None:
    """Start one check as an operator does."""
    await node.operate("monitor.run", monitor=watch, slot=f"2026-01-31T{hour:02d}:00:00Z")


async def test_watch_reports_each_value_change_without_noise(node: OpenNode) -> None:
    shop = Shop()
    node.upstream.script = shop
    status, made = await ask(node, "POST", WATCHES, WATCH)
    watch = made["data"]["monitor"]
    assert (status, made["platform"], watch["monitor_id"][:3]) == (201, "web", "wm_")
    assert (watch["cadence_minutes"], watch["estimated_cost_per_check"], watch["estimated_monthly_cost"]) == (
        60,
        2,
        1_440,
    )
    place = f"{WATCHES}/{watch['monitor_id']}"
    prices = [14, 14, 13, 13, 13, 12, 14]
    for hour, price in enumerate(prices):
        shop.price = price
        await check(node, watch["monitor_id"], hour)
    _, page = await ask(node, "GET", f"{place}/checks?limit=5")
    _, rest = await ask(node, "GET", f"{place}/checks?limit=5&cursor={page['pagination']['next_cursor']}")
    checks = (page["data"]["items"] + rest["data"]["items"])[::-1]
    assert [one["status"] for one in checks] == ["first", "same", "changed", "same", "same", "changed", "changed"]
    assert [len(one["added"]) for one in checks if one["status"] == "changed"] == [1, 1, 1]
    assert ("13 euros" in checks[2]["added"][0], "14 euros" in checks[2]["removed"][0]) == (True, True)
    assert 0.9 < checks[2]["similarity"] < 1.0
    _, feed = await ask(node, "GET", "/v1/events?types=web.*")
    assert [one["type"] for one in feed["data"]["items"]] == ["web.changed"] * 3
    assert {one["data"]["monitor_id"] for one in feed["data"]["items"]} == {watch["monitor_id"]}
    shop.is_open = False
    await check(node, watch["monitor_id"], 10)
    _, newest = await ask(node, "GET", f"{place}/checks?limit=1")
    assert (newest["data"]["items"][0]["status"], newest["data"]["items"][0]["credits_used"]) == ("failed", 0)
    _, shown = await ask(node, "GET", place)
    assert (shown["data"]["monitor"]["checks_total"], shown["data"]["monitor"]["credits_booked"]) == (8, 14)
    assert await node.money() == (500 - 14, 0)


async def test_watch_can_be_created_listed_changed_checked_and_deleted(node: OpenNode) -> None:
    node.upstream.script = Shop()
    assert (await ask(node, "POST", f"{WATCHES}?dry_run=1", WATCH))[1]["data"]["valid"] is True
    first = await ask(node, "POST", WATCHES, WATCH, idempotency_key="watch-1")
    again = await ask(node, "POST", WATCHES, WATCH, idempotency_key="watch-1")
    watch = first[1]["data"]["monitor"]["monitor_id"]
    assert (again[1]["data"]["monitor"]["monitor_id"], again[1]["replayed"]) == (watch, True)
    place = f"{WATCHES}/{watch}"
    _, listed = await ask(node, "GET", WATCHES)
    assert [one["monitor_id"] for one in listed["data"]["items"]] == [watch]
    assert (await ask(node, "GET", "/v1/monitors?status=all"))[1]["data"]["items"] == []
    assert (await ask(node, "GET", f"/v1/monitors/{watch}"))[0] == 404
    assert (await ask(node, "GET", f"/v1/monitors/{watch}/timeseries"))[0] == 404
    changed = {"schedule_text": "weekdays at 7:00", "timezone": "Europe/Berlin", "name": "Bread"}
    _, shown = await ask(node, "PATCH", place, changed)
    monitor = shown["data"]["monitor"]
    assert (monitor["schedule_cron"], monitor["timezone"], monitor["cadence_minutes"]) == (
        "0 7 * * 1-5", "Europe/Berlin", None,
    )  # fmt: skip
    status, begun = await ask(node, "POST", f"{place}/run")
    assert (status, begun["data"]["check"]["check_id"][:4]) == (202, "run_")
    assert (await ask(node, "POST", f"{place}/run"))[0] == 429
    while (await ask(node, "GET", f"{place}/checks"))[1]["data"]["items"][0]["finished_at"] is None:  # noqa: ASYNC110
        await trio.sleep(0.05)  # until the store has the result
    _, paused = await ask(node, "PATCH", place, {"status": "paused"})
    assert (paused["data"]["monitor"]["status"], paused["data"]["monitor"]["next_check_at"]) == ("paused", None)
    status, refused = await ask(node, "POST", f"{place}/run")
    assert (status, refused["error"]["details"]["reason"]) == (400, "monitor_paused")

    assert (await ask(node, "DELETE", place))[0] == 204
    assert (await ask(node, "GET", f"{place}/checks"))[0] == 404


async def test_watches_count_as_active_monitors_and_invalid_ones_are_rejected(node: OpenNode) -> None:
    for _ in range(2):
        assert (await ask(node, "POST", WATCHES, WATCH))[0] == 201
    plain = {"recipe": "github/profile", "params": {"handle": "a"}, "cadence": "daily"}
    assert (await ask(node, "POST", "/v1/monitors", {**plain, "track": {"metrics": ["author.followers"]}}))[0] == 201
    status, refused = await ask(node, "POST", WATCHES, WATCH)
    assert (status, refused["error"]["details"]["reason"]) == (400, "monitor_limit_reached")
    wrong: tuple[tuple[dict[str, object], str, str | None], ...] = (
        ({**WATCH, "url": "http://192.168.0.1/"}, "url", "invalid_param"),
        ({**WATCH, "ignore": ["p["]}, "ignore", "invalid_param"),
        ({**WATCH, "goal": "a lower price"}, "goal", "capability_missing"),
        ({"mode": "search", "query": "bread", "cadence_minutes": 60}, "mode", "invalid_param"),
        ({**WATCH, "cadence": "daily"}, "cadence", None),
    )
    for body, param, reason in wrong:
        status, refused = await ask(node, "POST", WATCHES, body)
        details = refused["error"]["details"]
        assert (status, details["param"], details.get("reason")) == (400, param, reason), body
