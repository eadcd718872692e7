"""A monitor's recipe: how invalid parameters are rejected, and what its call returns, without a node."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from gateway.calls.recipes import CatalogRecipes
from scheduler.recipes import GatheringFailed, RecipeInvalid
from tests.fakes.scripted_exchange import LONG_S, source_over
from tests.fakes.shelf import MANY, Shelf, distinct, read
from upstreams.catalog import Catalog
from upstreams.fetching.site import Site
from upstreams.model.archetypes import COMMENT_LIST
from upstreams.model.endpoint import Collect, Endpoint, Platform
from upstreams.model.params import Param, limit

LOOK_UP = "The endpoint's guide lists its parameters, with an example of each."
TOPIC = Param("topic", "What it is about.", "birds", required=True)
SORT = Param("sort", "Order.", "new", default="new", choices=("new", "old"))


def recipes_over(shelf: Shelf, *, stopping: Callable[[], bool] = lambda: False) -> CatalogRecipes:
    """Return the recipes of a catalog with one list, collected in pages of 4."""
    endpoint = Endpoint(
        "rows", "Rows.", COMMENT_LIST, read, (TOPIC, SORT, limit(20, 4)), collect=Collect(per_page=4, spare_pages=2)
    )
    platform = Platform("odd", "Odd", {"main": "https://main.test/main"}, (endpoint,), docs_url="https://odd.test")
    site = Site(platform, {"main": source_over(shelf.exchange)}, credentials={}, user_agent="sluice/1")
    clock = trio.lowlevel.current_clock().current_time
    return CatalogRecipes(Catalog([site]), {"odd": 1}, now=lambda: 0.0, clock=clock, stopping=stopping)


@pytest.mark.parametrize(
    ("params", "param", "problem", "next_step", "meant"),
    [
        ({}, "params.topic", "is required: What it is about", LOOK_UP, None),
        ({"topic": "a", "sort": "newer"}, "params.sort", "must be one of new, old", "Send new.", "new"),
        ({"topic": "a", "limit": 0}, "params.limit", "must be at least 1", LOOK_UP, None),
        ({"topic": "a", "limit": 1.5}, "params.limit", "must be text, a whole number or a boolean, not", LOOK_UP, None),
        ({"topic": "a\0b"}, "params.topic", "contains a NUL character", LOOK_UP, None),
    ],
)
async def test_invalid_parameter_is_rejected_with_name_problem_and_fix(
    params: object, param: str, problem: str, next_step: str, meant: str | None
) -> None:
    with pytest.raises(RecipeInvalid) as refused:
        recipes_over(distinct(4)).read("odd/rows", params)
    rejection = refused.value
    assert (rejection.param, rejection.next_step, rejection.did_you_mean) == (param, next_step, meant)
    assert rejection.problem.startswith(problem)
    assert not rejection.problem.endswith(".")


async def test_double_encoded_value_keeps_its_own_reason() -> None:
    with pytest.raises(RecipeInvalid) as refused:
        recipes_over(distinct(4)).read("odd/rows", {"topic": "%25C3%25A4"})
    assert (refused.value.problem, refused.value.reason) == ("was percent-encoded twice", "double_encoded")


async def test_walked_recipe_costs_its_pages_and_leg_counts_pages_and_rows(
    autojump_clock: MockClock,
) -> None:
    recipes = recipes_over(distinct(4, 4, 4))
    recipe = recipes.read("odd/rows", {"topic": "a", "limit": 8})
    assert (recipe.credits_least, recipe.credits_most) == (2, 4)
    gathered = await recipes.gather(recipe, recipe.credits_most, timeout_s=LONG_S)
    (leg,) = gathered.legs
    assert (gathered.used_credits, gathered.whole, gathered.coverage) == (2, True, 1.0)
    assert (leg["endpoint"], leg["status"], leg["credits_used"]) == ("odd/rows", "ok", 2)
    assert (leg["pages"], leg["pages_needed"], leg["rows"], leg["rows_asked"]) == (2, 2, 8, 8)


async def test_stopping_node_ends_walk_after_the_current_page(autojump_clock: MockClock) -> None:
    shelf = distinct(4, 4, 4)
    recipes = recipes_over(shelf, stopping=lambda: len(shelf.asked) == 1)
    gathered = await recipes.gather(recipes.read("odd/rows", {"topic": "a", "limit": 8}), MANY, timeout_s=LONG_S)
    assert (gathered.used_credits, gathered.whole, gathered.legs[0]["status"]) == (1, False, "partial")
    assert gathered.warnings


async def test_list_is_read_page_by_page_even_if_the_endpoint_walks(autojump_clock: MockClock) -> None:
    shelf = distinct(4, 3, 2)
    recipes = recipes_over(shelf)
    recipe, state, ids = recipes.read("odd/rows", {"topic": "a", "limit": 4}), None, list[str | None]()
    for _ in range(3):
        page = await recipes.page(recipe, state, timeout_s=LONG_S)
        ids += [row["id"] for row in page.records]
        state = page.next
    assert (ids, state, recipes.page_price("odd/rows")) == (shelf.ids, None, 1)


async def test_failed_page_has_its_error_code(autojump_clock: MockClock) -> None:
    shelf = distinct(4)
    shelf.fails_at = 0
    recipes = recipes_over(shelf)
    with pytest.raises(GatheringFailed) as failed:
        await recipes.page(recipes.read("odd/rows", {"topic": "a"}), None, timeout_s=LONG_S)
    assert failed.value.legs[0]["error"] == "UPSTREAM_ERROR"
