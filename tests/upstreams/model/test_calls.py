"""Calls as values: where each member is sent, and endpoints that make one call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upstreams.content import FEED
from upstreams.model.archetypes import AUTHOR, AUTHOR_LIST, author
from upstreams.model.calls import Get, Pages, Post, PostForm, Secret, fallback_to, listing, made, single
from upstreams.model.endpoint import Endpoint
from upstreams.model.errors import DeclarationError, NotFound, UnexpectedBody
from upstreams.model.fields import Json, ident
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import given as of_request
from upstreams.model.fields.readers import ident as read_ident
from upstreams.model.paging import ByPage, ByToken, Once, Whole
from upstreams.model.params import Args, Param
from upstreams.model.steps import Answer, Call, Page, Single

NAME = Param("name", "A name.", "ada", required=True)
SORT = Param("sort", "An order.", "new", choices=("new", "old"))
AUTHOR_OF = record_map(author, id=read_ident("id"), username=of_request("name"))


def by_hand(found: Json) -> dict[str, Any]:
    return author(id=ident(found, "id"))


def call_of(get: Get, **values: str | int) -> Call:
    return get.at(Args(values, credentials={"key": "k3y"}))


def run(endpoint: Endpoint, body: Any, headers: dict[str, str] | None = None, **values: str | int) -> Page | Single:
    steps = endpoint.read(Args(values))
    next(steps)
    try:
        steps.send(Answer(200, headers or {}, body))
    except StopIteration as done:
        result: Page | Single = done.value
        return result
    raise AssertionError("a second call was made")


@pytest.mark.parametrize(
    ("source", "needs"), [("partner", ("partner",)), ("partner-b", ("partner-b",)), ("public", ())]
)
def test_fallback_calls_another_source(source: str, needs: tuple[str, ...]) -> None:
    one = fallback_to(source=source, call=Get("/users/{name}", name=NAME), record=AUTHOR_OF, at="user")
    several = fallback_to(
        source=source, call=Get("/users", q=NAME), record=Pages(AUTHOR_OF, ByToken("next"), at="rows")
    )
    assert (one.source, one.needs, several.needs) == (source, needs, needs)
    for fallback, body, path in (
        (one, {"user": {"id": "7"}}, "/users/ada"),
        (several, {"rows": [{"id": "7"}], "next": "B"}, "/users"),
    ):
        assert fallback.read is not None
        steps = fallback.read(Args({"name": "ada", "limit": 20}))
        call = next(steps)
        assert isinstance(call, Call)
        assert (call.path, call.source) == (path, source)
        with pytest.raises(StopIteration) as done:
            steps.send(Answer(200, {}, body))
        result = done.value.value
        record = result.record if isinstance(result, Single) else result.records[0]
        assert (record["id"], record["username"]) == ("7", "ada")


def test_members_fill_the_path_or_the_query() -> None:
    get = Get(
        "/users/{name}/posts", name=NAME, sort=SORT, fields="id", deep=True, key=Secret("key"), other=Secret("no")
    )
    call = call_of(get, name="a/b", sort="new")
    assert call.target("/v1") == "/v1/users/a%2Fb/posts?sort=new&fields=id&deep=true&key=k3y"
    assert call_of(get, name="x").target("").partition("?")[2] == "fields=id&deep=true&key=k3y"
    assert get.params == (NAME, SORT)


@settings(max_examples=30)
@given(st.text(min_size=1), st.text(min_size=1))
def test_path_value_is_one_segment_and_plus_keeps_slashes(one: str, other: str) -> None:
    whole = call_of(Get("/x/{name}/y", name=NAME), name=f"{one}/{other}").path
    assert whole.count("/") == 3
    parts = call_of(Get("/x/{+name}/y", name=NAME), name=f"{one}/{other}").path
    assert parts.count("/") == 4 + one.count("/") + other.count("/")


NUMBER = Param("number", "A number.", "5", required=True, type="integer")
DEEP = Param("deep", "Whether to go deep.", "true", type="boolean")
REFUSED_CALLS: dict[str, tuple[Get, str]] = {
    "a number": (Get("/users/{id}", id=NUMBER), "its parameter `number` must be text, but its type is `integer`"),
    "the advice": (Get("/users/{id}", id=NUMBER), r'such as `pattern=r"\d{1,20}"`'),
    "a truth value": (Get("/users/{+deep}", deep=DEEP), "`deep` is in the path, so its parameter `deep` must be text"),
    "a constant number": (Get("/users/{id}", id=5), "`id` is in the path, so it must be text, but it is 5"),
    "several values": (Get("/users/{id}", id=("1", "2")), "so it must be text, but it is ('1', '2')"),
    "None": (Get("/users/{id}", id=None), "so it must be text, but it is None"),
    "no slash": (Get("users"), "the path must start with `/`"),
    "a place that is not a name": (Get("/users/{id}/{a b}", id=NAME), "SyntaxError"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED_CALLS.values(), ids=REFUSED_CALLS)
def test_faulty_call_is_refused_when_compiled(call: Get, message: str) -> None:
    with pytest.raises(DeclarationError) as refusal:
        _ = call.make
    assert str(refusal.value).startswith(f"call `{call.path}`: ")
    assert message in str(refusal.value)


@pytest.mark.parametrize("place", ["{id}", "{+id}"])
@pytest.mark.parametrize("value", [5, 5.0, True, None, b"ada", ["ada"], {"a": 1}])
def test_value_in_a_path_is_refused_if_it_is_not_text(value: Any, place: str) -> None:
    """Such a value once raised a TypeError, which looked like an unreadable body."""
    for call in (
        lambda: Get(f"/users/{place}").at(Args({}), id=value),
        lambda: call_of(Get(f"/users/{place}", id=made(lambda: value))),
    ):
        with pytest.raises(DeclarationError) as refusal:
            call()
        assert f"a value in a path must be text, but it is {value!r} ({type(value).__name__})" in str(refusal.value)


def test_place_in_a_path_without_a_value_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"call `/users/\{id\}`: `id` in the path has no value"):
        Get("/users/{id}").at(Args({}))
    with pytest.raises(DeclarationError, match="`cursor` in the path has no value"):
        Get("/users/{cursor}").at(Args({"limit": 5}), Pages(AUTHOR_OF, ByToken("cursor"), at="items"))


def test_paging_member_in_a_path_is_converted_to_text() -> None:
    pages = Pages(AUTHOR_OF, ByPage("page"))
    get = Get("/users/{name}/page/{page}", name=NAME)
    first, third = (get.at(Args({"name": "ada", "limit": 5}, cursor), pages) for cursor in (None, {"p": 3}))
    assert first.target("") == "/users/ada/page/1?limit=5"
    assert third.target("") == "/users/ada/page/3?limit=5"
    of_token = Get("/users/{after}").at(Args({"limit": 5}), Pages(AUTHOR_OF, ByToken("after", first="*"), at="items"))
    assert of_token.target("") == "/users/%2A?limit=5"
    assert get.at(Args({"name": "ada"}), page="7").target("") == "/users/ada/page/7"


@pytest.mark.parametrize("at", ["items[0].user", "data..user", ".user"])
def test_faulty_path_to_a_record_is_refused(at: str) -> None:
    for record in (AUTHOR_OF, by_hand):
        with pytest.raises(DeclarationError, match="must be names of members, separated by dots"):
            single(resource="user", summary="One.", archetype=AUTHOR, call=Get("/x"), record=record, at=at)


def test_made_member_is_computed_and_tuple_is_repeated() -> None:
    get = Get("/x", q=made(lambda name, sort: f"{name}:{sort}", NAME, SORT), **{"id[]": ("1", "2")})
    assert call_of(get, name="ada").target("") == "/x?q=ada%3ANone&id%5B%5D=1&id%5B%5D=2"
    assert get.params == (NAME, SORT)


def test_given_values_add_members() -> None:
    get = Get("/users/{id}/posts", sort=SORT)
    assert get.at(Args({"sort": "old"}), id="7", page=2).target("") == "/users/7/posts?sort=old&page=2"
    pages = Pages(AUTHOR_OF, ByToken("after"), at="items")
    call = get.at(Args({"limit": 5}, {"c": "t"}), pages, id="7")
    assert call.target("") == "/users/7/posts?limit=5&after=t"
    assert call.accepts is pages.accepts


def test_via_changes_source_optional_session_and_form() -> None:
    get = Get("/x").via("other", optional=True, signed=True, accepts="json or text", headers=(("a", "b"),))
    call = call_of(get)
    assert (call.source, call.optional, call.needs_session) == ("other", True, True)
    assert (call.accepts, call.headers, call.method) == ("json or text", (("a", "b"),), "GET")


def test_post_members_are_sent_as_json_or_form() -> None:
    as_json = call_of(Post("/{name}", name=NAME, sort=SORT, ids=("1", "2")), name="ada")
    assert (as_json.method, as_json.path, as_json.query, as_json.only_reads) == ("POST", "/ada", {}, True)
    assert (as_json.json, as_json.form) == ({"ids": ("1", "2")}, None)
    as_form = call_of(PostForm("/x", q=NAME, sort=SORT), name="ada")
    assert (as_form.method, as_form.json, as_form.form) == ("POST", None, {"q": "ada", "sort": None})
    assert type(Post("/x").via("other")) is Post


@pytest.mark.parametrize("record", [AUTHOR_OF, by_hand])
@pytest.mark.parametrize(
    ("at", "body"),
    [
        ("", {"id": 1}),
        ("data.user", {"data": {"user": {"id": 1}}}),
        ("data.users[0]", {"data": {"users": [{"id": 1}]}}),
    ],
)
def test_single_reads_the_record_at_its_path(record: Any, at: str, body: Json) -> None:
    endpoint = single(
        resource="user", summary="One.", archetype=AUTHOR, call=Get("/users/{name}", name=NAME), record=record, at=at
    )
    found = run(endpoint, body, name="ada")
    assert isinstance(found, Single)
    assert found.record["id"] == "1"
    assert found.record["username"] == ("ada" if record is AUTHOR_OF else None)
    assert (endpoint.params, endpoint.cache_ttl_s) == ((NAME,), 900)


def test_empty_list_is_not_found_and_non_list_is_unexpected() -> None:
    endpoint = single(
        resource="user",
        summary="One.",
        archetype=AUTHOR,
        call=Get("/users", name=NAME),
        record=AUTHOR_OF,
        at="users[0]",
    )
    with pytest.raises(NotFound):
        run(endpoint, {"users": []}, name="ada")
    with pytest.raises(UnexpectedBody):
        run(endpoint, {"users": {}}, name="ada")


def test_listing_has_parameters_of_call_and_paging() -> None:
    pages = Pages(
        AUTHOR_OF, ByPage("page", size_max=50, total="meta.total"), at="meta.rows", warnings={"cut": "It was cut"}
    )
    endpoint = listing(
        resource="users",
        summary="Many.",
        archetype=AUTHOR_LIST,
        call=Get("/users", name=NAME),
        pages=pages,
        params=(SORT,),
    )
    assert [param.name for param in endpoint.params] == ["name", "sort", "limit"]
    page = run(endpoint, {"meta": {"rows": [{"id": 1}], "total": 9}, "cut": True}, name="ada", limit=1)
    assert isinstance(page, Page)
    assert [record["id"] for record in page.records] == ["1"]
    assert (page.next, page.total, page.warnings) == ({"p": 2}, 9, ("It was cut",))


def test_whole_list_is_split_into_pages() -> None:
    endpoint = listing(
        resource="users", summary="Many.", archetype=AUTHOR_LIST, call=Get("/users"), pages=Pages(AUTHOR_OF, Whole())
    )
    rows = [{"id": number} for number in range(1_500)]
    page = run(endpoint, rows, limit=2)
    assert isinstance(page, Page)
    assert ([record["id"] for record in page.records], page.next) == (["0", "1"], {"o": 2})
    with pytest.raises(UnexpectedBody):
        run(
            listing(
                resource="users",
                summary="Many.",
                archetype=AUTHOR_LIST,
                call=Get("/users"),
                pages=Pages(AUTHOR_OF, Once()),
            ),
            rows,
            limit=2,
        )


def test_endpoint_lists_unfilled_fields_of_its_map() -> None:
    one = single(
        resource="user",
        summary="One.",
        archetype=AUTHOR,
        call=Get("/users/{name}", name=NAME),
        record=AUTHOR_OF,
        never=("username",),
    )
    assert {"followers", "username", "bio"} <= one.unfilled
    assert not {"id", "ext"} & one.unfilled
    many = listing(
        resource="users",
        summary="Many.",
        archetype=AUTHOR_LIST,
        call=Get("/users"),
        pages=Pages(AUTHOR_OF, Once(total="count"), at="items"),
    )
    assert "total" not in many.unfilled
    assert (
        "total"
        in listing(
            resource="users", summary="Many.", archetype=AUTHOR_LIST, call=Get("/users"), pages=Pages(AUTHOR_OF, Once())
        ).unfilled
    )


@pytest.mark.parametrize(
    ("resource", "kind", "ttl_s"),
    [
        ("search", None, 120),
        ("search/users", None, 120),
        ("likes", None, 600),
        ("top", "search", 120),
        ("x", "analytics", 1800),
    ],
)
def test_cache_ttl_follows_from_the_kind(resource: str, kind: Any, ttl_s: int) -> None:
    more = {} if kind is None else {"kind": kind}
    assert (
        listing(
            resource=resource,
            summary="Many.",
            archetype=AUTHOR_LIST,
            call=Get("/x"),
            pages=Pages(AUTHOR_OF, Once()),
            **more,
        ).cache_ttl_s
        == ttl_s
    )


def test_form_takes_precedence_over_the_map_decoder() -> None:
    pages = Pages(AUTHOR_OF, ByToken("after"), at="items")
    feed = Get("/feed").via(accepts=FEED)
    assert feed.at(Args({"limit": 5}), pages).accepts is FEED
    for endpoint in (
        single(resource="one", summary="One.", archetype=AUTHOR, call=feed, record=AUTHOR_OF),
        single(resource="first", summary="The first.", archetype=AUTHOR, call=feed, record=AUTHOR_OF, at="items[0]"),
        listing(resource="all", summary="All.", archetype=AUTHOR_LIST, call=feed, pages=pages),
    ):
        assert next(endpoint.read(Args({"limit": 5}))).accepts is FEED
