"""Values that a schema of selectors extracts from a page, and invalid schemas."""

from __future__ import annotations

from typing import Any

import pytest

from upstreams.model.errors import NotFound
from upstreams.web.reading.extraction import SchemaFlaw, check_schema, read_extraction

URL = "https://shop.example.org/list"
PAGE = (
    '<html><head><title>Shop</title><base href="/b/"></head><body><h1> A  list </h1><ul>'
    '<li class="row" data-id="1"><a href="one">One</a><b class="price">3</b><i>x</i><i>y</i></li>'
    '<li class="row" data-id="2"><a href="/two">Two</a></li></ul></body></html>'
)


def read(schema: dict[str, Any], page: str = PAGE) -> Any:
    check_schema(schema)
    return read_extraction(page.encode(), "text/html", URL, URL, {"schema": schema})["extraction"]


def test_values_are_texts_attributes_lists_and_objects() -> None:
    rows = {
        "selector": "li.row",
        "fields": {"name": "a", "url": "a@href", "id": "@data-id", "price": ".price", "marks": ["i"]},
    }
    schema = {"title": "h1", "first": rows, "rows": [rows], "ids": ["li@data-id"], "gone": ".gone", "none": [".gone"]}
    one = {"name": "One", "url": "https://shop.example.org/b/one", "id": "1", "price": "3", "marks": ["x", "y"]}
    two = {"name": "Two", "url": "https://shop.example.org/two", "id": "2", "price": None, "marks": []}
    assert read(schema) == {
        "title": "A list",
        "first": one,
        "rows": [one, two],
        "ids": ["1", "2"],
        "gone": None,
        "none": [],
    }
    assert read({"mail": 'a[href*="@"]', "title": "h1"})["mail"] is None, "a quoted at sign is not an attribute"


def test_page_without_any_value_is_reported() -> None:
    with pytest.raises(NotFound, match="No element"):
        read({"a": ".gone", "b": [".gone"]})


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([], "object"),
        ({}, "object"),
        ({"a": 1}, "neither a selector nor an object with selector and fields at a"),
        ({"a": "p["}, "invalid CSS selector"),
        ({"a": ["p", "q"]}, "exactly one entry"),
        ({"a": {"selector": "p"}}, "neither a selector nor an object with selector and fields at a"),
        ({"a": {"selector": "p", "fields": {}}}, "object"),
        ({str(number): "p" for number in range(101)}, "100 fields"),
    ],
)
def test_unusable_schema_is_refused_with_a_reason(schema: Any, words: str) -> None:
    with pytest.raises(SchemaFlaw, match=words):
        check_schema(schema)


def test_schema_depth_is_limited() -> None:
    schema: Any = {"a": "p"}
    for _ in range(4):
        schema = {"a": {"selector": "p", "fields": schema}}
    with pytest.raises(SchemaFlaw, match="deep"):
        check_schema(schema)
