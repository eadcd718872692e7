"""Recipes of monitors: valid input, cost, walks, and the results of calls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from gateway.calls.recipes import CatalogRecipes
from limits.breaker import BreakerRules
from scheduler.recipes import Gathered, GatheringFailed, Recipe, RecipeInvalid
from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_exchange import Scripted, ScriptedExchange, Slow, http_answer, source_over
from upstreams.catalog import Catalog
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules
from upstreams.model.archetypes import AUTHOR, AUTHOR_LIST, DOSSIER, author
from upstreams.model.endpoint import Collect, Endpoint, Platform
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args, Param, collected, limit
from upstreams.model.steps import Call, Leg, Page, Single, Steps
from upstreams.transport.http import BODY_BYTES_MAX


def _one(args: Args) -> Steps:
    if args.text("name") == "nobody":
        raise InvalidArgument("name", "is nobody's")
    answer = yield Call("/one")
    return Single(author(id="1", username=answer.body["name"]))


def _rows(args: Args) -> Steps:
    """Return pages of ten rows, as long as the upstream has more."""
    number = args.position("p", 0)
    answer = yield Call(f"/rows/{number}")
    rows = [author(id=f"{number}-{place}") for place in range(min(10, args.number("limit")))]
    return Page(rows, {"p": number + 1} if answer.body["more"] else None)


def _card(_args: Args) -> Steps:
    answers = yield tuple(Call(f"/leg/{number}", optional=True) for number in range(4))
    return Single(
        {"parts": [bool(answer) for answer in answers]}, legs=tuple(Leg("odd/one", answer) for answer in answers)
    )


PARAMS = (
    Param("name", "A name.", "ada", required=True, length_max=40),
    Param("least", "At least.", "5", type="integer", minimum=0, maximum=2**62),
    Param("whole", "All of it.", "true", type="boolean"),
    Param("sort", "Order.", "new", choices=("new", "old")),
)
ODD = Platform(
    slug="odd",
    title="Odd",
    sources={"odd": "https://odd.test"},
    endpoints=(
        Endpoint(resource="one", summary="One.", archetype=AUTHOR, read=_one, params=PARAMS),
        Endpoint(
            resource="rows", summary="Some.", archetype=AUTHOR_LIST, read=_rows, params=(limit(10, 5),), tier="advanced"
        ),
        Endpoint(
            resource="walk",
            summary="Many.",
            archetype=AUTHOR_LIST,
            read=_rows,
            params=(collected(50, 20),),
            collect=Collect(10, 2),
        ),
        Endpoint(resource="card", summary="A composite.", archetype=DOSSIER, read=_card, tier="advanced"),
        Endpoint(resource="hidden", summary="Needs a key.", archetype=AUTHOR, read=_one, params=PARAMS, needs=("key",)),
    ),
    **FIELDS,
)


class Upstream:
    """Responds to every call. `missing` targets fail, `more` limits the pages, each response takes `takes_s`."""

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self.more = True
        self.name: Any = "ada"
        self.takes_s = 0.0
        self.exchange = ScriptedExchange(script=self._respond)
        self.stopping = False

    def _respond(self, call: Any) -> Scripted:
        body = {"more": self.more, "name": self.name}
        return Slow(self.takes_s, http_answer(status=500) if call.target in self.missing else http_answer(body))

    def recipes(self, share: int = 9) -> CatalogRecipes:
        source = source_over(
            self.exchange,
            name="odd",
            base_url="https://odd.test",
            rules=Rules(retries=0),
            breaker=BreakerRules(failures=999),
        )
        site = Site(ODD, {"odd": source}, credentials={}, user_agent="sluice/1")
        return CatalogRecipes(
            Catalog([site]),
            {"odd": share},
            now=lambda: 0.0,
            clock=trio.current_time,
            stopping=lambda: self.stopping,
        )


NOBODY = Upstream()
READER = NOBODY.recipes()


def read(recipe: str, params: object = None, rows: int | None = None) -> Recipe:
    found = READER.read(recipe, params, rows=rows)
    assert NOBODY.exchange.calls == [], "reading a recipe called an upstream"
    return found


def refusal(recipe: str, params: object = None) -> RecipeInvalid:
    with pytest.raises(RecipeInvalid) as refused:
        read(recipe, params)
    assert refused.value.problem
    assert refused.value.next_step.endswith(".")
    return refused.value


# Valid input

NAME = {"name": "ada"}
# For each invalid recipe: the recipe, its parameters, the field in the error, the suggestion, and the reason.
WRONG: Mapping[str, tuple[str, object, str, str | None, str]] = {
    "a misspelt recipe": ("odd/on", NAME, "recipe", "odd/one", "invalid_param"),
    "a recipe with its prefix": ("/v1/odd/one", NAME, "recipe", "odd/one", "invalid_param"),
    "a recipe unlike any endpoint": ("zzz", NAME, "recipe", None, "invalid_param"),
    "a recipe of 99,999 characters": ("x" * 99_999, NAME, "recipe", None, "invalid_param"),
    "a recipe without its credential": ("odd/hidden", NAME, "recipe", None, "invalid_param"),
    "params that are a list": ("odd/one", ["ada"], "params", None, "invalid_param"),
    "params that are text": ("odd/one", "ada", "params", None, "invalid_param"),
    "a required parameter missing": ("odd/one", None, "params.name", None, "invalid_param"),
    "a required parameter null": ("odd/one", {"name": None}, "params.name", None, "invalid_param"),
    "a required parameter empty": ("odd/one", {"name": ""}, "params.name", None, "invalid_param"),
    "a misspelt parameter": ("odd/one", {"nmae": "ada"}, "params.nmae", "name", "invalid_param"),
    "a parameter of another type": ("odd/one", {"name": {"a": 1}}, "params.name", None, "invalid_param"),
    "a parameter that is a list": ("odd/one", {"name": ["ada"]}, "params.name", None, "invalid_param"),
    "a fraction": ("odd/one", {**NAME, "least": 1.5}, "params.least", None, "invalid_param"),
    "a number below its minimum": ("odd/one", {**NAME, "least": -1}, "params.least", None, "invalid_param"),
    "a misspelt choice": ("odd/one", {**NAME, "sort": "newer"}, "params.sort", "new", "invalid_param"),
    "a value that the endpoint rejects": ("odd/one", {"name": "nobody"}, "params.name", None, "invalid_param"),
    "a value encoded twice": ("odd/one", {"name": "a%20b"}, "params.name", None, "double_encoded"),
    "a value that is not UTF-8": ("odd/one", {"name": "a\ufffd"}, "params.name", None, "invalid_utf8"),
    "a cursor": ("odd/rows", {"cursor": "cur_x"}, "params.cursor", None, "invalid_param"),
    "a dry run": ("odd/one", {**NAME, "dry_run": True}, "params.dry_run", None, "invalid_param"),
    "a maximum price": ("odd/one", {**NAME, "max_credits": 5}, "params.max_credits", None, "invalid_param"),
    "a limit of zero": ("odd/rows", {"limit": 0}, "params.limit", None, "invalid_param"),
}


@pytest.mark.parametrize(("recipe", "params", "param", "meant", "reason"), WRONG.values(), ids=WRONG.keys())
def test_invalid_recipe_is_rejected_with_its_field(
    recipe: str, params: object, param: str, meant: str | None, reason: str
) -> None:
    refused = refusal(recipe, params)
    assert (refused.param, refused.did_you_mean, refused.reason) == (param, meant, reason)
    assert len(str(refused)) < 400


def test_rejection_explains_the_problem_and_the_fix() -> None:
    look_up = "The endpoint's guide lists its parameters, with an example of each."
    for recipe, params, problem, next_step in (
        ("odd/one", {}, "is required: A name", look_up),
        ("odd/one", {**NAME, "sort": "newer"}, "must be one of new, old", "Send new."),
        ("odd/rows", {"limit": 0}, "must be at least 1", look_up),
        ("odd/rows", {"limit": 1.5}, "must be text, a whole number or a boolean, not", look_up),
        ("odd/one", {"name": "a\0b"}, "contains a NUL character", look_up),
    ):
        refused = refusal(recipe, params)
        assert (refused.problem.startswith(problem), refused.next_step) == (True, next_step), refused.problem
        assert not refused.problem.endswith(".")


def test_recipe_has_values_price_and_platform_of_endpoint() -> None:
    assert read("odd/one", {"name": "ada", "least": 7, "whole": True, "sort": None}) == Recipe(
        "/v1/odd/one", {"name": "ada", "least": 7, "whole": True}, AUTHOR, "odd", 1, 1
    )
    assert (read("odd/card").credits_least, read("odd/card").credits_most) == (5, 5)


@given(st.integers(-(2**70), 2**70))
def test_integer_is_read_like_a_query_value_if_json_can_hold_it(number: int) -> None:
    if -(2**63) <= number < 2**63:
        assert read("odd/one", {"name": number}).values["name"] == str(number)
    else:
        refused = refusal("odd/one", {"name": number})
        assert (refused.param, "send it as text" in refused.problem) == ("params.name", True)


def outcome(params: object) -> Recipe | RecipeInvalid:
    try:
        return read("odd/one", params)
    except RecipeInvalid as refused:
        return refused


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(["name", "least", "whole", "sort", "x"]), inner, max_size=4)
        ),
        max_leaves=6,
    )
)
def test_any_params_return_a_recipe_or_a_rejection_with_a_fix(params: Any) -> None:
    found = outcome(params)
    if isinstance(found, RecipeInvalid):
        assert found.param.split(".")[0] == "params"
        assert found.next_step.endswith(".")
    else:
        assert isinstance(found.values["name"], str)
        assert found.values.keys() <= params.keys()


# Rows and prices

PRICES = {
    "one page of the default size": ("odd/rows", {}, None, (5, 5, 5, False)),
    "one page of the requested size": ("odd/rows", {"limit": 7}, 100, (7, 5, 5, False)),
    "limit null means the rows of the monitor": ("odd/rows", {"limit": None}, 30, (30, 15, 35, True)),
    "limit empty means the rows of the monitor": ("odd/rows", {"limit": ""}, 30, (30, 15, 35, True)),
    "fewer rows than a page": ("odd/rows", {}, 3, (3, 5, 25, True)),
    "rows from a list that collects pages": ("odd/walk", {}, 30, (30, 3, 5, False)),
    "more rows than the list collects": ("odd/walk", {}, 200, (50, 5, 7, False)),
    "a list that collects its default": ("odd/walk", {}, None, (20, 2, 4, False)),
}


@pytest.mark.parametrize(("recipe", "params", "rows", "expected"), PRICES.values(), ids=PRICES.keys())
def test_list_recipe_requests_rows_and_is_priced_by_pages(
    recipe: str, params: object, rows: int | None, expected: tuple[int, int, int, bool]
) -> None:
    found = read(recipe, params, rows)
    assert (found.values["limit"], found.credits_least, found.credits_most, found.is_walked) == expected


def test_rows_are_ignored_for_single_records() -> None:
    assert read("odd/one", NAME, 50) == read("odd/one", NAME)


# Calls


async def test_call_returns_data_and_its_leg(autojump_clock: MockClock) -> None:
    recipes = Upstream().recipes()
    gathered = await recipes.gather(recipes.read("odd/one", NAME), 1, timeout_s=5.0)
    assert gathered.data["author"]["username"] == "ada"
    assert orjson.loads(gathered.body) == gathered.data
    ((leg,), coverage) = gathered.legs, gathered.coverage
    assert (leg["endpoint"], leg["source"], leg["rung"], leg["status"]) == ("odd/one", "odd", "primary", "ok")
    assert (leg["credits_used"], gathered.used_credits, coverage, gathered.whole) == (1, 1, 1.0, True)


async def test_call_returns_raw_bodies_on_request(autojump_clock: MockClock) -> None:
    recipes = Upstream().recipes()

    async def as_sent(recipe: str, params: object, held: int) -> Gathered:
        return await recipes.gather(recipes.read(recipe, params), held, timeout_s=5.0, as_sent=True)

    one = await as_sent("odd/one", NAME, 1)
    assert one.data == orjson.loads(one.body) == {"more": True, "name": "ada"}
    assert one.legs[0]["status"] == "ok"
    walk = await as_sent("odd/walk", {"limit": 20}, 20)
    assert [call["path"] for call in walk.data["calls"]] == ["/rows/0", "/rows/1"]
    assert (walk.rows, walk.data["calls"][0]["body"]["name"]) == (20, "ada")
    composite = await as_sent("odd/card", {}, 5)
    assert composite.data["parts"] == [True] * 4, "a composite has no single body"


async def test_oversized_bodies_are_left_out_with_a_warning() -> None:
    upstream = Upstream()
    upstream.name = "a" * (BODY_BYTES_MAX * 2 // 5)
    recipes = upstream.recipes()
    gathered = await recipes.gather(recipes.read("odd/walk", {"limit": 30}), 20, timeout_s=60.0, as_sent=True)
    assert len(gathered.data["calls"]) == 2
    assert gathered.warnings[-1].startswith("the result contains 2 of 3 response bodies")


async def test_too_deeply_nested_response_is_a_failure(autojump_clock: MockClock) -> None:
    upstream = Upstream()
    upstream.name = orjson.Fragment(b'"ada","deep":' + b"[" * 400 + b"]" * 400)
    recipes = upstream.recipes()
    with pytest.raises(GatheringFailed, match="nested too deep"):
        await recipes.gather(recipes.read("odd/one", NAME), 1, timeout_s=5.0, as_sent=True)


async def test_walk_uses_the_pages_its_rows_need(autojump_clock: MockClock) -> None:
    recipes = Upstream().recipes()
    gathered = await recipes.gather(recipes.read("odd/rows", {}, rows=25), 35, timeout_s=5.0)
    assert (len(gathered.data["items"]), gathered.used_credits, gathered.whole) == (25, 15, True)
    (leg,) = gathered.legs
    assert (leg["pages"], leg["pages_needed"], leg["rows"], leg["rows_asked"]) == (3, 3, 25, 25)
    assert leg["credits_used"] == 15


async def test_walk_stops_when_held_credits_are_used_or_the_node_stops(autojump_clock: MockClock) -> None:
    upstream = Upstream()
    recipes = upstream.recipes()
    gathered = await recipes.gather(recipes.read("odd/rows", {}, rows=50), 14, timeout_s=5.0)
    assert (len(gathered.data["items"]), gathered.used_credits, gathered.whole) == (20, 10, False)
    assert gathered.warnings == ("20 of 50 items were collected: the credits ran out after page 2",)
    upstream.stopping = True
    gathered = await recipes.gather(recipes.read("odd/rows", {}, rows=50), 35, timeout_s=5.0)
    assert (len(gathered.data["items"]), gathered.whole, gathered.legs[0]["status"]) == (10, False, "partial")
    assert gathered.warnings


async def test_list_is_read_page_by_page_even_if_the_endpoint_walks(autojump_clock: MockClock) -> None:
    upstream = Upstream()
    recipes = upstream.recipes()
    recipe, state, ids = recipes.read("odd/walk", {"limit": 10}), None, list[str | None]()
    for number in range(3):
        upstream.more = number < 2
        page = await recipes.page(recipe, state, timeout_s=5.0)
        ids += [row["id"] for row in page.records]
        state = page.next
    assert ids == [f"{number}-{place}" for number in range(3) for place in range(10)]
    assert (state, recipes.page_price("odd/walk")) == (None, 1)
    upstream.missing = {"/rows/0"}
    with pytest.raises(GatheringFailed) as failed:
        await recipes.page(recipe, None, timeout_s=5.0)
    assert failed.value.legs[0]["error"] == "UPSTREAM_ERROR"


@pytest.mark.parametrize(("answered", "shares"), [(4, [2, 1, 1, 1]), (2, [2, 1]), (1, [2])])
async def test_successful_legs_share_the_cost_rounded_up(
    answered: int, shares: list[int], autojump_clock: MockClock
) -> None:
    """The cost is the share of the five credits for the successful legs, rounded up."""
    upstream = Upstream()
    upstream.missing = {f"/leg/{number}" for number in range(answered, 4)}
    recipes = upstream.recipes()
    gathered = await recipes.gather(recipes.read("odd/card", {}), 5, timeout_s=5.0)
    assert [leg["credits_used"] for leg in gathered.legs] == [*shares, *[0] * (4 - answered)]
    assert (gathered.coverage, gathered.used_credits) == (answered / 4, 5)
    assert sum(shares) == math.ceil(5 * answered / 4)
    assert gathered.warnings == (("odd/one is missing: odd: status 500",) if answered < 4 else ())


async def test_call_without_usable_response_raises(autojump_clock: MockClock) -> None:
    upstream = Upstream()
    upstream.missing = {"/one"}
    recipes = upstream.recipes()
    with pytest.raises(GatheringFailed) as failed:
        await recipes.gather(recipes.read("odd/one", NAME), 1, timeout_s=5.0)
    (leg,) = failed.value.legs
    assert (leg["endpoint"], leg["source"], leg["error"]) == ("odd/one", "odd", "UPSTREAM_ERROR")
    assert (leg["status"], leg["credits_used"]) == ("failed", 0)


async def test_call_timeout_starts_when_its_turn_comes(autojump_clock: MockClock) -> None:
    """Goal: waiting for a turn does not use up a call's timeout. Method: three calls share one slot."""
    upstream = Upstream()
    upstream.takes_s = 4.0
    recipes = upstream.recipes(share=1)
    recipe = recipes.read("odd/one", NAME)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(lambda: recipes.gather(recipe, 1, timeout_s=5.0))
    assert upstream.exchange.running_max == 1
    assert upstream.exchange.asked_at == [start + upstream.exchange.asked_at[0] for start in (0.0, 4.0, 8.0)]
