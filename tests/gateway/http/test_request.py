"""Parsing a request: the items of its list headers, and the pairs of its query."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.errors import Refused
from gateway.http.request import Request, joined_headers, names, prefers, query_of, repeated_of

STREAM = b"text/event-stream"
WANTED = (
    b"text/event-stream",
    b"TEXT/Event-Stream",
    b"text/event-stream;q=0.9",
    b"text/event-stream, */*;q=0.1",
    b"application/json, Text/Event-Stream;q=0.5",
    b" \ttext/event-stream\t ; charset=utf-8 ,x",
    b"text/event-stream;q=0.001",
    b"text/event-stream;xq=0",
    b"text/event-stream;q=0,text/event-stream",
)
UNWANTED = (
    None,
    b"",
    b"*/*",
    b"text/*",
    b"text/event-streams",
    b"xtext/event-stream",
    b"text/event-stream/x",
    b"text/event-stream;q=0",
    b"text/event-stream; Q=0.000 ",
    b"text/event-stream;charset=utf-8;q=0.0",
    b"a;x=text/event-stream",
)


CONTROLS = {
    b"no-cache": True,
    b"No-Cache": True,
    b"max-age=0, no-cache": True,
    b"max-age=0": False,
    b"no-store": False,
    b"only-if-cached": False,
    b"public": False,
    b"no-cache-at-all": False,
}
ITEMS = [
    *((header, STREAM, True) for header in WANTED),
    *((header, STREAM, False) for header in UNWANTED),
    *((header, b"no-cache", is_there) for header, is_there in CONTROLS.items()),
]


@pytest.mark.parametrize(("header", "item", "is_there"), ITEMS)
def test_list_item_is_found_whole_in_any_case_and_position(header: bytes | None, item: bytes, is_there: bool) -> None:
    assert names(header, item) is is_there


PREFERRED = {
    b"text/event-stream": True,
    b"text/event-stream, */*;q=0.1": True,
    b"application/json, Text/Event-Stream": True,
    b"application/json;q=0.8, text/event-stream;q=0.9": True,
    b"application/json;q=0, text/event-stream;q=0.1": True,
    b"text/event-stream;q=0.9, application/json;q=0.9": True,
    b"application/json, text/event-stream;q=0.9": False,
    b"text/event-stream;q=0.5, application/*;q=0.6": False,
    b"text/event-stream;q=0.5, */*": False,
    b"*/*;q=0.1, application/*;q=0.9, application/json;q=0.2, text/event-stream;q=0.3": True,
    b"text/event-stream;q=0": False,
    b"text/event-stream;q=0.000, application/json;q=0": False,
    b"text/*": False,
    b"*/*": False,
    b"": False,
}


@pytest.mark.parametrize(("accept", "streams"), PREFERRED.items())
def test_stream_is_sent_if_preferred_at_least_as_much_as_json(accept: bytes, streams: bool) -> None:
    assert prefers(accept, STREAM, b"application/json") is streams


def test_repeated_headers_are_joined_and_some_must_be_unique() -> None:
    sent = [(b"accept", b"a"), (b"x-api-key", b"k"), (b"accept", b"b;q=0"), (b"cache-control", b"no-cache")]
    assert joined_headers(sent) == {b"accept": b"a, b;q=0", b"x-api-key": b"k", b"cache-control": b"no-cache"}
    assert repeated_of(sent) is None
    assert repeated_of([*sent, (b"x-api-key", b"k")]) == "x-api-key"
    assert repeated_of([(b"idempotency-key", b"1"), (b"idempotency-key", b"2")]) == "idempotency-key"


@given(
    st.lists(
        st.tuples(
            st.text("abc", min_size=1, max_size=3), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
        ),
        max_size=6,
    )
)
def test_fast_query_parser_matches_general_one(pairs: list[tuple[str, str]]) -> None:
    """Plain queries are split directly; others are form-decoded."""
    for encoded in (urlencode(pairs), "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs)):
        assert query_of(encoded.encode()) == pairs


@pytest.mark.parametrize("raw", [b"a=1&b=2", b"a&b=", b"a=b=c", b"&&a=1&", b"a=%41+b", b"=x", b"a=\xff", b"a=1;b=2"])
def test_odd_queries_are_parsed_like_forms(raw: bytes) -> None:
    assert query_of(raw) == parse_qsl(raw.decode("ascii", "replace"), keep_blank_values=True)


@pytest.mark.parametrize(
    "raw", [b"a=%FF", b"a=caf%C3", b"a=%EF%BF%BD", b"a=%C0%AF", b"a=%ED%A0%80", b"a=\xc3\xa9", b"a=%41\xff"]
)
def test_invalid_utf_8_becomes_replacement_characters(raw: bytes) -> None:
    ((_, value),) = query_of(raw)
    assert "\ufffd" in value


def test_more_than_a_hundred_parameters_are_rejected() -> None:
    for separator in (b"a=1", b"a=%31"):
        assert len(query_of(b"&".join([separator] * 100))) == 100
        with pytest.raises(Refused) as refused:
            query_of(b"&".join([separator] * 101))
        assert refused.value.code.name == "INVALID_REQUEST"


def test_request_query_comes_from_its_url() -> None:
    assert Request("req_1", "GET", "/v1/a", b"b=c%20d&b=", {}, 0.0).query == [("b", "c d"), ("b", "")]
