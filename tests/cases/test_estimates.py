"""The estimated cost of a Monitor and the actual cost of its runs, on a whole node (decisions 12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.monitoring import MONITORS
from tests.fakes.node import OpenNode, open_test_node
from tests.gateway.api.routes.asking import ask
from tests.gateway.dashboard.owner import Owner, open_owner
from tests.spec.rows import CREDENTIALS, ENVIRON, Row
from upstreams.catalog import Listing
from upstreams.model.endpoint import Endpoint

HOOK = "https://example.com/hook"
COSTS = ("estimated_cost_per_run", "max_cost_per_run", "estimated_monthly_cost", "max_monthly_cost")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OpenNode]:
    """A node that can call every endpoint."""
    limits = {"requests_per_minute": 5_000}
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS, limits=limits) as opened:
        yield opened


def example_of(endpoint: Endpoint) -> dict[str, Any]:
    """Return the parameters that the declaration gives as examples: the required ones, and one of each group."""
    by_name = {one.name: one.example for one in endpoint.params}
    names = [one.name for one in endpoint.params if one.required] + [group[0] for group in endpoint.one_of]
    return {name: by_name[name] for name in names}


def body_of(listing: Listing) -> dict[str, Any]:
    params = example_of(listing.endpoint)
    return {"recipe": listing.id, "params": params, "cadence": "daily", "webhook_url": HOOK}


def warning_of(monitor: dict[str, Any]) -> list[str]:
    return [one for one in monitor["warnings"] if "may cost up to" in one]


def assert_shown(monitor: dict[str, Any]) -> None:
    """Check that both costs are reported, with a warning if they differ."""
    expected, most, monthly, monthly_max = (monitor[name] for name in COSTS)
    assert (monthly, monthly_max) == (30 * expected, 30 * most), monitor
    warned = [f"a run usually costs {expected} credits and may cost up to {most}"] if expected < most else []
    assert warning_of(monitor) == warned


async def test_every_metered_recipe_shows_its_expected_and_maximum_cost(node: OpenNode) -> None:
    """Method: dry-run each endpoint. If its price varies, create a Monitor, request an offer and read its pages."""
    metered, sure = set[str](), 0
    async with open_owner(node) as owner:
        for listing in node.node.catalog.all():
            status, answer = await ask(node, "POST", f"{MONITORS}?dry_run=1", body_of(listing))
            assert status == 200, (listing.id, answer)
            dry = answer["data"]["monitor"]
            recipe = node.node.monitors.recipes.read(listing.id, example_of(listing.endpoint))
            least, most = recipe.credits_least + 1, recipe.credits_most + 1
            assert least <= dry["estimated_cost_per_run"] <= dry["max_cost_per_run"] == most, listing.id
            assert_shown(dry)
            if least == most:
                sure += 1
                continue
            metered.add(listing.id)
            await _assert_created(node, owner, listing, [dry[name] for name in COSTS])
    walked = {one.id for one in node.node.catalog.all() if one.endpoint.collect is not None}
    assert walked | {"prism/org-radar", "prism/comments"} <= metered
    assert sure > 100


async def _assert_created(node: OpenNode, owner: Owner, listing: Listing, costs: list[int]) -> None:
    status, made = await ask(node, "POST", MONITORS, body_of(listing))
    monitor = made["monitor"]
    assert (status, [monitor[name] for name in COSTS]) == (201, costs), listing.id
    assert_shown(monitor)
    await owner.get(f"/monitors/{monitor['id']}")
    expected, most, _monthly, monthly_max = costs
    for shown in (most, monthly_max) if expected < most else (expected,):
        assert f"{shown:,}" in owner.words, (listing.id, owner.words)
    assert (f"at most {most:,}" in owner.words) == (expected < most), listing.id
    await owner.get("/monitors")
    assert (f"at most {most:,}" in owner.words) == (expected < most), listing.id
    await owner.get(f"/monitors/new?recipe={listing.id}")
    values = {f"p.{name}": value for name, value in example_of(listing.endpoint).items()}
    fields = {"recipe": listing.id, "cadence": "daily", "webhook_url": HOOK, **values}
    await owner.send_fields("/monitors", {**fields, "deed": "price"})
    plural, maximum = "s" if expected != 1 else "", f" (at most {most})" if expected < most else ""
    wanted = f"Each run costs {expected} credit{plural}{maximum}, and a month costs"
    assert wanted in owner.words, (listing.id, owner.words)
    await ask(node, "DELETE", f"{MONITORS}/{monitor['id']}")


async def test_no_call_costs_more_than_the_maximum_of_its_monitor_estimate(node: OpenNode) -> None:
    """Method: call each endpoint with a variable price the way a recipe's run calls it."""
    priced = [one for one in node.node.catalog.all() if one.endpoint.price is not None]
    for listing in priced:
        row = Row(listing.site.platform, listing.endpoint)
        recipe = node.node.monitors.recipes.read(listing.id, example_of(listing.endpoint))
        query = {one.name: None for one in listing.endpoint.params} | example_of(listing.endpoint)
        answer = await node.get(row.target(**query))
        assert answer.json["credits_used"] <= recipe.credits_most, listing.id
        if answer.json["credits_used"] > recipe.credits_expected:
            assert recipe.credits_most > recipe.credits_expected, listing.id
    assert len(priced) > 15


METERED = (
    ("prism/org-radar", {"org": "python-trio"}, 27, 27),
    ("prism/org-radar", {"org": "python-trio", "repos": 10}, 52, 52),
    ("prism/comments", {"url": "https://news.ycombinator.com/item?id=8863", "max": 100}, 3, 21),
    ("hackernews/search", {"query": "apple"}, 2, 6),
)
"""Recipes with their parameters, and the expected and the maximum cost of a run."""


async def test_monitor_of_a_metered_recipe_has_expected_and_maximum_costs(node: OpenNode) -> None:
    """Regression: `org-radar` was estimated at 2 credits and cost 27."""
    for recipe, params, expected, most in METERED:
        await node.renew()
        await check_costs(node, recipe, params, expected=expected, most=most)


async def check_costs(node: OpenNode, recipe: str, params: dict[str, Any], *, expected: int, most: int) -> None:
    body = {"recipe": recipe, "params": params, "cadence": "daily", "webhook_url": HOOK}
    status, made = await ask(node, "POST", MONITORS, body)
    costs = [expected, most, 30 * expected, 30 * most]
    assert (status, [made["monitor"][name] for name in COSTS]) == (201, costs), made
    _, shown = await ask(node, "GET", f"{MONITORS}/{made['monitor']['id']}")
    assert [shown["data"]["monitor"][name] for name in COSTS] == costs
    _, listed = await ask(node, "GET", MONITORS)
    assert [listed["data"]["items"][0][name] for name in COSTS] == costs
    assert_shown(made["monitor"])
    assert warning_of(listed["data"]["items"][0]) == [], "the owner already decided to accept this cost"


@pytest.mark.parametrize("mode", ["scrape", "search"])
async def test_web_watch_has_expected_and_maximum_costs(node: OpenNode, mode: str) -> None:
    own = {"query": "trio"} if mode == "search" else {"url": "https://example.com/"}
    body = {"mode": mode, "cadence_minutes": 60, **own}
    names = ("estimated_cost_per_check", "max_cost_per_check", "estimated_monthly_cost", "max_monthly_cost")
    for place in ("/v1/web/monitors?dry_run=1", "/v1/web/monitors"):
        status, made = await ask(node, "POST", place, body)
        assert status in (200, 201), made
        monitor = made["data"]["monitor"]
        expected, most, monthly, monthly_max = (monitor[name] for name in names)
        assert (monthly, monthly_max) == (720 * expected, 720 * most)
        assert 2 <= expected <= most
        assert bool(warning_of(monitor)) == (expected < most)
