"""A discover run shares its rows and credits between its keywords and platforms, on a whole node (decisions 19)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args

import pytest

from scheduler.jobs.discover.planning import legs_in_turn
from scheduler.jobs.discover.searches import View, searches_of
from scheduler.jobs.discover.spec import SearchBody, read_body
from tests.fakes.node import OpenNode, open_test_node
from tests.gateway.api.routes.asking import ask
from tests.gateway.api.routes.discover.algolia import Algolia
from tests.gateway.api.routes.discover.test_discover_over_http import RUNS, SCHEDULES, lines, occurrence

KEYWORDS = [f"keyword{n}" for n in range(20)]
BODY: dict[str, Any] = {"keywords": KEYWORDS, "platforms": ["hackernews"], "max_credits": 100}


@pytest.fixture
def algolia() -> Algolia:
    return Algolia({word: range(n * 1000, n * 1000 + 120) for n, word in enumerate(KEYWORDS)})


@pytest.fixture
async def node(tmp_path: Path, algolia: Algolia) -> AsyncIterator[OpenNode]:
    async with open_test_node(tmp_path, credits=500) as opened:
        opened.upstream.script = algolia.answer
        yield opened
        await opened.assert_sound()


async def test_all_catalog_searches_take_turns_in_every_view(node: OpenNode) -> None:
    searches = searches_of(node.node.catalog.all(), node.node.monitors.recipes)
    for view in get_args(View):
        spec = read_body(SearchBody(keywords=KEYWORDS, max_credits=100, view=view), searches)
        assert {one.id for one in spec.searches} == {one.id for one in searches.of_view(view) if one.available}
        legs = [spec.leg(number) for number in legs_in_turn(spec)]
        assert len({(word, one.id) for word, one in legs}) == len(legs) == spec.legs
        platforms = {one.platform for one in spec.searches}
        assert {one.platform for _, one in legs[: len(platforms)]} == platforms
        for end in range(1, 201):
            words, found = Counter(word for word, _ in legs[:end]), Counter(one.id for _, one in legs[:end])
            assert max(words.values()) - min(words[word] for word in KEYWORDS) <= 1
            assert max(found.values()) - min(found[one.id] for one in spec.searches) <= 1


@pytest.mark.critical
async def test_twenty_keywords_share_the_rows_of_a_run(node: OpenNode, algolia: Algolia) -> None:
    """Regression: the first 4 of 20 keywords used up the run's rows."""
    status, answer = await ask(node, "POST", RUNS, {**BODY, "max_rows": 100})
    run = answer["data"]
    rows = await lines(node, run["run_id"])
    found = Counter(word for row in rows for word in row["keywords"])
    assert (status, run["status"], run["stopped_because"], len(rows)) == (200, "completed", "max_rows", 100)
    assert found.keys() == set(KEYWORDS)
    assert min(row["rank"] for row in rows if KEYWORDS[-1] in row["keywords"]) == 1
    assert (run["credits"]["spent"], set(algolia.reads.values())) == (20, {1})
    assert run["credits"]["spent"] + run["credits"]["refunded"] == run["credits"]["reserved"]


@pytest.mark.critical
async def test_twenty_keywords_share_a_small_budget(node: OpenNode) -> None:
    _, answer = await ask(node, "POST", RUNS, {**BODY, "max_credits": 20})
    run = answer["data"]
    assert (run["status"], run["credits"]["spent"]) == ("paused", 20)
    rows = await lines(node, run["run_id"])
    assert {word for row in rows for word in row["keywords"]} == set(KEYWORDS)


@pytest.mark.critical
async def test_page_whose_rows_do_not_fit_is_free(node: OpenNode, algolia: Algolia) -> None:
    algolia.takes_s = 0.2
    _, answer = await ask(node, "POST", RUNS, {**BODY, "keywords": KEYWORDS[:4], "max_rows": 1})
    run = answer["data"]
    assert (run["counts"]["rows_kept"], run["credits"]["spent"]) == (1, 1)
    assert algolia.reads.total() > 1
    assert (await node.money())[0] == 500 - 1


async def test_new_rows_event_contains_the_number_of_new_rows(node: OpenNode, algolia: Algolia) -> None:
    _, made = await ask(node, "POST", SCHEDULES, {"run": {**BODY, "keywords": KEYWORDS[:1]}, "cadence": "hourly"})
    for found in (range(30), range(20, 50), range(50)):
        algolia.found = {KEYWORDS[0]: found}
        await occurrence(node, made["data"]["schedule_id"])
    _, feed = await ask(node, "GET", "/v1/events?types=discover.new_rows")
    numbers = [event["data"]["counts"]["rows_new"] for event in feed["data"]["items"]]
    assert numbers == [30, 20]
