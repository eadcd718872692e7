"""The generator of stand-ins keeps members that are read and manual edits, but no recorded values."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.fakes.platform_fields import FIELDS
from tests.platforms.case import Case
from tests.platforms.playing import play
from tests.platforms.stand_in import made_of
from tests.platforms.table import at
from tests.platforms.templates import Same, kind_of, template_of, with_request
from tests.platforms.traced import ABSENT, sought, traced, was_read
from upstreams.model.archetypes import AUTHOR, POST_LIST, author, post
from upstreams.model.calls import Get, Pages, listing, single
from upstreams.model.endpoint import Platform
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.paging import ByLastId, ByPage
from upstreams.model.params import Host, Param

HANDLE = Param("handle", "An account.", "ada", required=True)
TAG = Param("tag", "A tag.", "python", required=True)
author_of = record_map(
    author, id=read.ident("id"), username=read.text("login"), followers=read.count("stats.followers")
)
post_of = record_map(post, id=read.ident("id"), url=read.text("url"), text=read.html("body"), author=read.NEVER)
BY_PAGE = Pages(post_of, ByPage("page", size="per_page", more="more"), at="items")
BY_ID = Pages(post_of, ByLastId("before"), at="")
PLATFORM = Platform(
    slug="stackexchange",  # because the generator reads the code of an existing platform
    title="Made up",
    sources={"api": "https://{instance}/api"},
    common=(Host("instance", default="a.example"),),
    endpoints=(
        single(
            resource="profile",
            summary="One account.",
            archetype=AUTHOR,
            call=Get("/users/{login}", login=HANDLE),
            record=author_of,
        ),
        listing(
            resource="tagged",
            summary="Posts.",
            archetype=POST_LIST,
            call=Get("/tags/{tag}/posts", tag=TAG),
            pages=BY_PAGE,
        ),
        listing(resource="newest", summary="Posts.", archetype=POST_LIST, call=Get("/posts", kind="new"), pages=BY_ID),
        listing(resource="oldest", summary="Posts.", archetype=POST_LIST, call=Get("/posts", kind="old"), pages=BY_ID),
    ),
    **FIELDS,
)
POST = {"id": 71, "url": "https://b.example/71", "body": "<p>Recorded</p>", "secret": "not read"}
CASES = (
    Case("a", "profile", {"handle": "ada"}, {"a.example/api/users/ada": {"id": 7, "login": "ada", "stats": {}}}),
    Case(
        "t", "tagged", {"tag": "c"}, {"a.example/api/tags/c/posts": {"items": [POST, {**POST, "id": 72}], "more": True}}
    ),
    Case("n", "newest", {}, {"a.example/api/posts": [POST]}),
    Case("o", "oldest", {}, {"a.example/api/posts": [{"id": 5}]}),
)


def made(before: Any = None) -> dict[str, Any]:
    exchanges = [exchange for case in CASES for exchange in play(PLATFORM, case)]
    return made_of(PLATFORM, exchanges, before or {})


def call(name: str, **when: str) -> dict[str, Any]:
    return next(one for one in made()["calls"] if name in one["call"] and one.get("when", {}) == when)


def test_read_and_missing_members_are_recorded() -> None:
    body = traced({"a": {"b": 1, "c": 2}, "rows": [{"x": 1, "y": 2}], "left": 3})
    assert body.get("a")["b"] + body["rows"][0].get("x") == 2
    assert body.get("gone") is None
    assert isinstance(body, dict)
    assert body.__class__ is dict
    assert orjson.loads(orjson.dumps(body))["left"] == 3
    assert was_read(body) == {"a": {"b": 1}, "rows": [{"x": 1}], "gone": ABSENT}
    assert list(sought(body)) == ["gone"]


def test_template_has_read_members_without_values() -> None:
    assert call("users")["body"] == {"id": "$number", "login": "${handle}", "stats": {}}
    rows = call("/tags/")["body"]["items"]
    assert rows == [{"id": "$number", "url": "$url", "body": "$html"}]
    assert b"ecorded" not in orjson.dumps(made())


def test_call_has_parameter_placeholders_and_its_paging_object() -> None:
    assert call("/tags/")["call"] == "GET {instance}/api/tags/{tag}/posts"
    assert call("/tags/")["rows"] == "items"
    assert call("/tags/")["paging"] == {"ByPage": {"name": "page", "size": "per_page", "more": "more"}}


def test_endpoints_on_one_path_differ_by_values() -> None:
    newest, oldest = call("api/posts", kind="new"), call("api/posts", kind="old")
    assert newest["body"][0]["id"] == "$place", "ids of requested rows contain their positions"
    assert oldest["body"][0].keys() == {"id"}


def test_generator_keeps_manual_edits_and_drops_unread_members() -> None:
    before = made()
    tagged = next(one for one in before["calls"] if "/tags/" in one["call"])
    tagged["body"]["items"] = [{"id": "post-$id", "gone": "$text"}, {"id": "$id", "other": True}]
    tagged["missing"] = "empty"
    before["failures"] = {"broken": {"status": 503}}
    after = made(before)
    tagged = next(one for one in after["calls"] if "/tags/" in one["call"])
    assert tagged["body"]["items"][0] == {"id": "post-$id", "url": "$url", "body": "$html"}
    assert tagged["body"]["items"][1] == {"id": "$id", "other": True}
    assert (tagged["missing"], after["failures"]) == ("empty", {"broken": {"status": 503}})
    assert made(after) == after


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("id", [12345], "$number"),
        ("uid", ["a1b2c3"], "$id"),
        ("ids", ["123"], "$digits"),
        ("likes", [3, None], "$count"),
        ("created", [1_700_000_000], "$unix"),
        ("updated_at", ["2025-01-31T12:00:00.5Z"], "$instant"),
        ("pubDate", ["Wed, 01 Jan 2025 00:00:00 GMT"], "$http_date"),
        ("day", ["2025-01-31"], "$date"),
        ("duration", ["PT4M13S"], "$duration"),
        ("length", ["4:13"], "$clock"),
        ("price", [1.5], "$decimal"),
        ("price", ["12.50"], "$price"),
        ("ok", [True, False], "$flag"),
        ("ok", [True], True),
        ("lang", ["pt-BR"], "$language"),
        ("username", ["ada"], "$handle"),
        ("name", ["Ada Marlow"], "$name"),
        ("title", ["a &amp; b"], "$escaped"),
        ("text", ["<b>a</b>", "b"], "$html"),
        ("text", ["two words"], "$text"),
        ("text", ["word " * 40], "$paragraph"),
        ("avatar", ["https://a.example/1.png?s=1"], "$image"),
        ("note", [""], "$text"),
        ("website", [""], "$url"),
        ("state", ["open", "open", "shut"], "open"),
        ("parent", [Same("id", 7), Same("id", 8)], "${id:int}"),
    ],
)
def test_value_is_replaced_by_its_kind(name: str, values: list[Any], kind: Any) -> None:
    assert kind_of(name, values, frozenset({"open"})) == kind


def test_optional_members_and_id_tables_are_recognized() -> None:
    seen = [{"a": 1, "b": {"17": {"c": "x y"}}}, {"a": ABSENT, "b": {"18": {"c": "z"}}}]
    assert template_of(seen, "", frozenset(), []) == {"a?": "$count", "b": {"$digits": {"c": "$text"}}}
    replies = {"replies": [{"replies": [{"replies": [{"replies": []}]}]}]}
    deep = template_of([replies], "", frozenset(), notes := [])
    assert at(deep, "replies.1.replies.0.replies") in ([], None)
    assert notes == ["dropped: lists `replies` that are more than 2 levels deep"]


def test_values_from_the_request_become_references() -> None:
    body = with_request({"login": "ada", "id": 77, "n": 1, "ok": True}, {"ada": "handle", "77": "id", "1": "page"})
    assert body == {"login": Same("handle", "ada"), "id": Same("id", 77), "n": 1, "ok": True}
