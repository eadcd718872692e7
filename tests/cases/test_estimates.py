"""What a Monitor is said to cost, and what its runs cost, on a whole node (decisions 12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.fakes.monitoring import MONITORS
from tests.fakes.node import OpenNode, open_test_node
from tests.gateway.api.routes.asking import ask
from upstreams.model.endpoint import Endpoint

HOOK = "https://example.com/hook"
COSTS = ("estimated_cost_per_run", "max_cost_per_run", "estimated_monthly_cost", "max_monthly_cost")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OpenNode]:
    async with open_test_node(tmp_path) as opened:
        yield opened


def example_of(endpoint: Endpoint) -> dict[str, Any]:
    """Parameters that its declaration gives as examples: the required ones, and one of each group."""
    by_name = {one.name: one.example for one in endpoint.params}
    names = [one.name for one in endpoint.params if one.required] + [group[0] for group in endpoint.one_of]
    return {name: by_name[name] for name in names}


async def test_every_recipe_has_an_expected_cost_and_a_maximum(node: OpenNode) -> None:
    """Goal: no metered recipe is shown with its minimum. Method: a `dry_run` for each endpoint of the catalog."""
    metered = set[str]()
    for listing in node.node.catalog.available():
        endpoint = listing.endpoint
        body = {"recipe": listing.id, "params": example_of(endpoint), "cadence": "daily", "webhook_url": HOOK}
        status, answer = await ask(node, "POST", f"{MONITORS}?dry_run=1", body)
        assert status == 200, (listing.id, answer)
        expected, most, monthly, monthly_max = (answer["data"]["monitor"][name] for name in COSTS)
        recipe = node.node.monitors.recipes.read(listing.id, body["params"])
        usual = (
            recipe.credits_least if endpoint.price is None or not endpoint.price.is_most_usual else recipe.credits_most
        )
        assert (expected, most) == (usual + 1, recipe.credits_most + 1), listing.id
        assert (monthly, monthly_max) == (30 * expected, 30 * most), listing.id
        if expected > recipe.credits_least + 1:
            metered.add(listing.id)
    assert "prism/org-radar" in metered


@pytest.mark.parametrize(
    ("recipe", "params", "expected", "most"),
    [
        ("prism/org-radar", {"org": "python-trio"}, 27, 27),
        ("prism/org-radar", {"org": "python-trio", "repos": 10}, 52, 52),
        ("prism/comments", {"url": "https://news.ycombinator.com/item?id=8863", "max": 100}, 3, 21),
        ("hackernews/search", {"query": "apple"}, 2, 6),
    ],
)
async def test_a_metered_recipe_is_created_with_both(
    node: OpenNode, recipe: str, params: dict[str, Any], expected: int, most: int
) -> None:
    """Regression: `org-radar` was estimated at 2 credits and cost 27."""
    body = {"recipe": recipe, "params": params, "cadence": "daily", "webhook_url": HOOK}
    status, made = await ask(node, "POST", MONITORS, body)
    costs = [expected, most, 30 * expected, 30 * most]
    assert (status, [made["monitor"][name] for name in COSTS]) == (201, costs), made
    _, shown = await ask(node, "GET", f"{MONITORS}/{made['monitor']['id']}")
    assert [shown["data"]["monitor"][name] for name in COSTS] == costs
    _, listed = await ask(node, "GET", MONITORS)
    assert [listed["data"]["items"][0][name] for name in COSTS] == costs


async def test_a_watch_of_the_web_has_both(node: OpenNode) -> None:
    body = {"mode": "search", "query": "trio", "cadence_minutes": 60}
    status, made = await ask(node, "POST", "/v1/web/monitors?dry_run=1", body)
    if status == 400:  # no search engine is configured
        body = {"mode": "scrape", "url": "https://example.com/", "cadence_minutes": 60}
        status, made = await ask(node, "POST", "/v1/web/monitors", body)
    shown = orjson.dumps(made).decode()
    assert status in (200, 201), made
    assert '"max_cost_per_check":2' in shown
    assert '"max_monthly_cost":1440' in shown
