"""What a platform's declaration consists of: arguments, calls, answers and URLs."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.model.errors import InvalidArgument, NotFound
from upstreams.model.params import Args, Param, limit
from upstreams.model.refusals import by_status
from upstreams.model.steps import Answer, Call, Missing, segment

ADDRESS = Param(
    "url", "An address.", "example.org/a/b", forms=(r"example\.org/([^/]+)/([^/]+)",), pattern=r"[^/:@]+/[^/:@]+"
)


def answer(status: int = 200, link: str | None = None) -> Answer:
    return Answer(status, {} if link is None else {"link": link}, {})


def test_arguments_are_returned_by_type() -> None:
    args = Args({"query": "trio", "limit": 5})
    assert (args.text("query"), args.number("limit")) == ("trio", 5)
    assert (args.text_or_none("query"), args.text_or_none("sort")) == ("trio", None)


@pytest.mark.parametrize(
    ("cursor", "position", "token"),
    [(None, 1, None), ({"p": 3}, 3, None), ({"c": "abc"}, 1, "abc"), ({"p": "three"}, 1, None)],
)
def test_cursor_sets_the_position_and_one_of_another_kind_is_ignored(
    cursor: dict[str, str | int] | None, position: int, token: str | None
) -> None:
    args = Args({}, cursor=cursor)
    assert (args.position("p", 1), args.token()) == (position, token)
    assert Args({}, cursor={"m": 17}).token("m") == "17"


def test_page_size_has_bounds_and_a_default() -> None:
    param = limit(100)
    assert (param.type, param.minimum, param.maximum, param.default, param.required) == ("integer", 1, 100, 20, False)
    assert limit(50, default=10).example == "10"


def test_call_target_omits_none() -> None:
    call = Call("/items", {"q": "a b&c", "page": 2, "after": None, "raw": True, "all": False, "empty": ""})
    assert call.target("/api") == "/api/items?q=a+b%26c&page=2&raw=true&all=false&empty="
    assert Call("/items", {"after": None}).target("") == "/items"
    assert Call("/items").target("/api") == "/api/items"


@given(st.dictionaries(st.text(min_size=1), st.text() | st.integers()))
def test_query_round_trips(query: dict[str, str | int]) -> None:
    target = Call("/x", query).target("")
    assert target.isascii()
    found = dict(parse_qsl(target.partition("?")[2], keep_blank_values=True))
    assert found == {name: str(value) for name, value in query.items()}


@pytest.mark.parametrize(
    ("link", "page"),
    [
        ('<https://a.example/x?page=2>; rel="next"', "2"),
        ('<https://a.example/x?page=1>; rel="prev", <https://a.example/x?page=3>; rel="next"', "3"),
        ('<https://a.example/x?ids=1,2&page=4>; rel="next", <https://a.example/x?page=9>; rel="last"', "4"),
        ('<https://a.example/x?page=5>; title="more"; rel="next"', "5"),
        ("<https://a.example/x?page=6>; rel=next", "6"),
        ('</x?q=next&page=7>;rel="next"', "7"),
        ('<https://a.example/x?page=a%3D%26b>; rel="next"', "a=&b"),
        ('<https://a.example/x?other=1>; rel="next"', None),
        ('<https://a.example/next?page=8>; rel="prev"', None),
        ("", None),
        (None, None),
        ("garbage <<>>;;; rel=", None),
    ],
)
def test_link_header_names_the_next_page(link: str | None, page: str | None) -> None:
    assert answer(link=link).next_link("page") == page


@given(st.text(alphabet='<>;,= "relnxt?&%a1'))
def test_any_link_header_is_accepted(link: str) -> None:
    answer(link=link).next_link("a")


def test_missing_is_falsy_and_answer_is_truthy() -> None:
    assert not Missing("status 502")
    assert answer()


@pytest.mark.parametrize("status", [404, 410, 451, 400, 401, 403, 429, 500, 503])
def test_only_absent_statuses_are_not_found(status: int) -> None:
    assert isinstance(by_status(answer(status)), NotFound) == (status in (404, 410, 451))


@given(st.text(min_size=1))
def test_any_text_is_encoded_as_one_path_segment(text: str) -> None:
    encoded = segment(text)
    assert encoded.isascii()
    assert not set(encoded) & set("/?# ")
    assert encoded not in (".", "..")
    assert unquote(encoded) == text


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a/b%20c/",
        "http://www.example.org/a/b%20c?d=e#f",
        "example.org/a/b%20c",
        "HTTPS://EXAMPLE.ORG:443//a//b%20c",
    ],
)
def test_url_returns_the_decoded_segments_of_its_path(url: str) -> None:
    assert ADDRESS.canonical(url).split("/") == ["a", "b c"]


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/a",
        "https://example.org.evil.example/a",
        "https://example.org@evil.example/a",
        "https://[example.org/a",
        "https://exam\u2100ple.org/a",
        "/a/b",
        "",
        "://",
    ],
)
def test_unreadable_url_or_url_of_another_site_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        ADDRESS.canonical(url)
    assert refusal.value.param == "url"


@given(st.text())
def test_any_text_as_url_is_parsed_or_refused(text: str) -> None:
    try:
        found = ADDRESS.canonical(text)
    except InvalidArgument:
        return
    assert all(found.split("/"))
