"""The request of a run: each invalid field is named, with the problem and the nearest valid value."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from scheduler.errors import JobInvalid
from scheduler.jobs.discover.planning import LegPage, SearchWave, first_steps, most_credits, price_of, read_step
from scheduler.jobs.discover.searches import Searches
from scheduler.jobs.discover.spec import RunBody, read_body
from scheduler.packing import packed
from tests.scheduler.jobs.discover.net import search

KNOWN = Searches(
    (
        search("hackernews", newest={"sort": "recent"}, takes_days=True),
        search("lemmy"),
        search("youtube", available=False),
        search("github", "account", "author", "search/users"),
        search("app_store", "item", "app", price_credits=2),
    ),
    {},
)


def body(**fields: Any) -> RunBody:
    return RunBody(**{"keywords": ["trio"], "max_credits": 10, **fields})


@pytest.mark.parametrize(
    ("fields", "param", "meant"),
    [
        ({"keywords": []}, "keywords", None),
        ({"keywords": ["x"] * 21}, "keywords", None),
        ({"keywords": ["a", " "]}, "keywords[1]", None),
        ({"keywords": ["x" * 101]}, "keywords[0]", None),
        ({"keywords": ["a", "b", " A"]}, "keywords[2]", None),
        ({"keywords": ["a\0"]}, "keywords[0]", None),
        ({"max_credits": 0}, "max_credits", None),
        ({"max_credits": 10_001}, "max_credits", None),
        ({"max_rows": 0}, "max_rows", None),
        ({"max_rows": 10_001}, "max_rows", None),
        ({"view": "post"}, "view", "posts"),
        ({"date_from": "yesterday"}, "date_from", None),
        ({"date_to": "1960-01-01"}, "date_to", None),
        ({"date_from": "2026-02-02", "date_to": "2026-02-01"}, "date_to", None),
        ({"language": "english"}, "language", None),
        ({"platforms": []}, "platforms", None),
        ({"platforms": ["hackernws"]}, "platforms[0]", "hackernews"),
        ({"platforms": ["lemmy", "app_store"]}, "platforms[1]", None),
        ({"platforms": ["youtube"]}, "platforms[0]", None),
    ],
)
def test_invalid_field_is_named(fields: dict[str, Any], param: str, meant: str | None) -> None:
    with pytest.raises(JobInvalid) as refused:
        read_body(body(**fields), KNOWN)
    assert (refused.value.param, refused.value.did_you_mean) == (param, meant)
    assert refused.value.next_step.startswith(("Send", "Choose"))


def test_plan_has_each_keyword_on_each_available_search() -> None:
    spec = read_body(body(keywords=["a  b", "c"]), KNOWN)
    assert [one.id for one in spec.searches] == ["hackernews/search", "lemmy/search"]
    assert spec.unavailable == ("youtube/search",)
    assert (spec.legs, first_steps(spec)) == (4, ["1.1", "4.1", "2.1", "3.1"])
    assert [(spec.leg(n)[0], spec.leg(n)[1].id) for n in (1, 2, 3, 4)] == [
        ("a b", "hackernews/search"), ("a b", "lemmy/search"), ("c", "hackernews/search"), ("c", "lemmy/search"),
    ]  # fmt: skip
    assert most_credits(spec) == 80
    items = read_body(body(view="items"), KNOWN)
    assert (price_of(items, read_step("1.1")), most_credits(items)) == (2, 40)


def test_dates_are_passed_to_searches_and_end_sorted_searches_early() -> None:
    spec = read_body(body(date_from="2026-11-01", date_to="2026-11-03"), KNOWN)
    hackernews, lemmy = spec.searches
    assert spec.values("x", hackernews) == {
        "query": "x", "limit": 2, "sort": "recent", "since": "2026-11-01", "until": "2026-11-04",
    }  # fmt: skip
    assert spec.values("x", lemmy) == {"query": "x", "limit": 2}
    assert (hackernews.is_ordered, lemmy.is_ordered) == (True, False)
    assert spec.holds(spec.date_from, None)
    assert spec.holds(None, None)
    assert not spec.holds((spec.date_to or 0) + 1, None)


async def test_wave_lists_accounts_before_pages_without_duplicates() -> None:
    wave = SearchWave()
    for name in ("1.1", "2.1", "@social row_b"):
        wave.note(name)
    for found in (["1.2", "@social row_a"], ["@social row_b", "@social row_a", "2.2"]):
        await wave.add([packed(orjson.dumps(found))])
    assert wave.names == ["@social row_a", "1.2", "2.2"]
    assert read_step("12.3") == LegPage(12, 3)
