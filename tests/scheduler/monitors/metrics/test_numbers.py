"""The numbers of runs and their changes: only finite ones, in page order, without invented values."""

from __future__ import annotations

from math import inf, isfinite, nan

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.monitors.metrics.numbers import (
    Delta,
    Deltas,
    change,
    deltas_of,
    has_value,
    metrics_of,
    number_of,
    numbers_of,
    plain_deltas,
)
from scheduler.monitors.metrics.tracking import Track

VIEWS, LIKES = "items[].post.engagement.views", "items[].post.engagement.likes"
POSTS = Track((VIEWS, LIKES), "post.id", 100)
NUMBERS = st.integers() | st.floats()
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.", max_size=3), inner, max_size=4),
    max_leaves=20,
)
ROWS = st.dictionaries(
    st.sampled_from("abcdef"),
    st.dictionaries(st.sampled_from("xyz"), NUMBERS.map(number_of).filter(lambda n: n is not None)),
)


def post(id_: object, **engagement: object) -> dict[str, object]:
    return {"post": {"id": id_, "engagement": engagement}}


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0),
        (-5, -5),
        (1.5, 1.5),
        (2**53, 2**53),
        (2**53 + 1, float(2**53)),
        (10**300, 1e300),
        (10**400, None),
        (nan, None),
        (inf, None),
        (-inf, None),
        (True, None),
        (False, None),
        ("5", None),
        ("", None),
        (None, None),
        ([5], None),
        ({"n": 5}, None),
    ],
)
def test_number_of_accepts_only_finite_numbers(value, number):
    assert number_of(value) == number
    assert type(number_of(value)) is type(number)


def test_row_numbers_are_keyed_by_id_in_page_order():
    data = {"items": [post("b", views=3, likes=None), post("a", views=True, likes="7"), post("c", views=nan, likes=0)]}
    taken = numbers_of(data, POSTS)
    assert list(taken.numbers.items()) == [("b", {VIEWS: 3}), ("a", {}), ("c", {LIKES: 0})]
    assert taken.warnings == []


def test_numbers_of_the_page_precede_numbers_of_its_rows():
    data = {"items": [post("a", views=1)], "total": 9}
    assert numbers_of(data, Track((VIEWS, "total"), "post.id")).numbers == {"_": {"total": 9}, "a": {VIEWS: 1}}
    assert numbers_of({"author": {"followers": 3}}, Track(("author.followers",))).numbers == {
        "_": {"author.followers": 3}
    }


def test_rows_without_id_and_repeated_rows_are_left_out_with_warnings():
    ids = ["a", None, "a", "", True, 1.5, {}, 7, "b", "a", "x" * 501]
    taken = numbers_of({"items": [post(id_, views=place) for place, id_ in enumerate(ids)] + [None, 5, "row"]}, POSTS)
    assert taken.numbers == {"a": {VIEWS: 0}, "7": {VIEWS: 7}, "b": {VIEWS: 8}}
    assert taken.warnings == [
        "9 rows were left out because post.id is missing or unusable",
        "2 rows were left out because post.id is repeated",
    ]


def test_row_named_like_the_page_is_left_out():
    taken = numbers_of({"items": [post("_", views=1)], "total": 2}, Track(("total", VIEWS), "post.id"))
    assert taken.numbers == {"_": {"total": 2}}
    assert taken.warnings == ["1 row was left out because post.id is repeated"]


@pytest.mark.parametrize("rows_max", [1, 3, 200])
def test_rows_beyond_max_rows_are_not_read(rows_max):
    data = {"items": [post(None), post("0"), *(post(str(n), views=n) for n in range(300))], "total": 1}
    taken = numbers_of(data, Track(("total", VIEWS), "post.id", rows_max))
    assert list(taken.numbers) == ["_", *(str(n) for n in range(rows_max))]


@given(JSON)
def test_numbers_of_accepts_any_data(data):
    for track in (Track(("a", "items[].a.b", "b.a"), "b"), POSTS, Track(("a.b.a",))):
        taken = numbers_of(data, track)
        assert all(isfinite(number) for values in taken.numbers.values() for number in values.values())
        orjson.dumps(taken.numbers)


@pytest.mark.parametrize(
    ("numbers", "has"), [({}, False), ({"_": {}}, False), ({"a": {}, "b": {}}, False), ({"a": {}, "b": {"x": 0}}, True)]
)
def test_has_value_is_true_if_any_row_has_a_value(numbers, has):
    assert has_value(numbers) is has


@pytest.mark.parametrize(
    ("prev", "cur", "difference", "pct"),
    [
        (100, 150, 50, 50.0),
        (100, 100, 0, 0.0),
        (4, 1, -3, -75.0),
        (0, 5, 5, None),
        (0.0, 0, 0.0, None),
        (-10, -5, 5, 50.0),
        (-10, 10, 20, 200.0),
        (1e308, -1e308, None, None),
        (5e-324, 1.0, 1.0, None),
    ],
)
def test_change_has_a_difference_and_a_percentage(prev, cur, difference, pct):
    assert change(prev, cur) == Delta(prev, cur, difference, pct)


def test_deltas_have_common_numbers_and_new_and_removed_rows():
    prev = {"gone": {"x": 1}, "a": {"x": 10, "lost": 1}, "b": {"lost": 1}, "also gone": {}}
    cur = {"new": {"x": 1}, "b": {"x": 2}, "a": {"x": 15, "found": 1}, "newer": {}}
    deltas = deltas_of(prev, cur)
    assert deltas == Deltas({"a": {"x": Delta(10, 15, 5, 50.0)}}, ["new", "newer"], ["gone", "also gone"])
    assert deltas.to_json() == {
        "rows": {"a": {"x": {"prev": 10, "cur": 15, "abs": 5, "pct": 50.0}}},
        "rows_new": ["new", "newer"],
        "rows_gone": ["gone", "also gone"],
    }


def test_first_run_has_no_deltas():
    assert deltas_of(None, {"a": {"x": 1}}) is None
    assert plain_deltas(None, {"x": 1}) == {}


@given(ROWS, ROWS)
def test_deltas_applied_to_one_run_give_the_next(prev, cur):
    deltas = deltas_of(prev, cur)
    kept = [row for row in prev if row not in set(deltas.rows_gone)]
    assert {*kept, *deltas.rows_new} == set(cur)
    for row in kept:
        both = prev[row].keys() & cur[row].keys()
        assert deltas.rows.get(row, {}).keys() == both
        for path in both:
            told = deltas.rows[row][path]
            assert (told.prev, told.cur) == (prev[row][path], cur[row][path])
            assert all(number is None or isfinite(number) for number in (told.abs, told.pct))
            assert told.pct is None or prev[row][path] != 0
    orjson.dumps(deltas.to_json())


def test_metrics_are_finite_leaves_up_to_four_names_deep():
    result = {
        "a": 1,
        "b": {"c": 2.5, "d": {"e": {"f": 3, "g": {"h": 4}}}},
        "list": [{"n": 1}, 2],
        "text": "5",
        "yes": True,
        "nothing": None,
        "nan": nan,
    }
    assert metrics_of(result) == {"a": 1, "b.c": 2.5, "b.d.e.f": 3}


@pytest.mark.parametrize("result", [None, 5, "5", [1, {"n": 2}], {}])
def test_result_that_is_not_an_object_has_no_metrics(result):
    assert metrics_of(result) == {}


def test_metrics_of_a_table_in_an_object_are_limited():
    found = metrics_of({"users": {str(n): {"n": n} for n in range(5_000)}, "x" * 201: 1})
    assert len(found) == 1_000
    assert next(iter(found)) == "users.0.n"


@given(JSON, JSON)
def test_plain_deltas_cover_the_common_metrics(before, after):
    prev, cur = metrics_of(before), metrics_of(after)
    deltas = plain_deltas(prev, cur)
    assert deltas.keys() <= prev.keys() & cur.keys()
    assert all(deltas[path] == cur[path] - prev[path] for path in deltas)
    orjson.dumps(deltas)
