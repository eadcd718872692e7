"""JSON bodies: they become the route's type, or an error that names the field, and are read within their limit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.bodies import read_json
from gateway.http.errors import CORRECT, Refused
from gateway.http.request import Request
from gateway.http.routing import BODY_BYTES_MAX


class Inner(msgspec.Struct, frozen=True):
    number: int


class Form(msgspec.Struct, frozen=True):
    name: str
    size: int = 1
    inner: Inner | None = None


def request(pieces: Sequence[bytes], *, whole: bool = True) -> Request:
    """A request whose body arrives in these pieces."""
    left = [*pieces] or [b""]

    async def receive() -> Any:  # noqa: ASYNC124 - has ASGI's signature
        if not left:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or not whole}

    return Request("req_1", "POST", "/v1/a", b"", {}, 0.0, receive=receive)


async def outcome(*pieces: bytes, whole: bool = True) -> Form | Refused:
    try:
        return await read_json(request(pieces, whole=whole), Form)
    except Refused as refused:
        return refused


async def test_body_is_parsed_however_it_arrives() -> None:
    text = b'{"name": "caf\xc3\xa9", "inner": {"number": 3}}'
    for pieces in ((text,), (text[:5], text[5:]), tuple(bytes([one]) for one in text), (b"", text, b"")):
        assert await outcome(*pieces) == Form("caf\u00e9", 1, Inner(3))


def about(name: str, reason: str = "invalid_param") -> dict[str, object]:
    """The error details for this name."""
    return {"reason": reason, "param": name, "next_step": CORRECT}


def meant(proposed: str, name: str) -> dict[str, object]:
    """The error details with a suggestion."""
    return {"did_you_mean": proposed, "param": name, "next_step": CORRECT, "remove_params": [name]}


REFUSED: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "nothing": (b"", about("body"), "send a JSON object"),
    "not JSON": (b"{", about("body"), "is not valid JSON"),
    "two values": (b"{}{}", about("body"), "is not valid JSON"),
    "a list": (b"[]", about("body"), "must be a JSON object"),
    "null": (b"null", about("body"), "must be a JSON object"),
    "text that is not UTF-8": (b'{"name":"\xff"}', about("body", "invalid_utf8"), "is not valid UTF-8"),
    "a missing field": (b"{}", about("name"), "name is required"),
    "a field of another type": (b'{"name":1}', about("name"), "must be text, not "),
    "null for a text": (b'{"name":null}', about("name"), "must be text, not "),
    "a fraction": (b'{"name":"a","size":1.5}', about("size"), "must be a whole number, not "),
    "a nested field": (b'{"name":"a","inner":{"number":"x"}}', about("inner.number"), "must be a whole number, not "),
    "an unknown field": (b'{"nmae":"a"}', meant("name", "nmae"), "Unknown field `nmae`. Did you mean `name`?"),
    "part of a field name": (b'{"name":"a","inn":1}', meant("inner", "inn"), "Did you mean `inner`?"),
    "a field unlike any other": (
        b'{"name":"a","recipe":"b"}',
        {**about("recipe"), "remove_params": ["recipe"]},
        "Unknown field `recipe`. Valid fields: name, size, inner.",
    ),
    "endless nesting": (b'{"name":' * 5000, about("body"), "is not valid JSON"),
}


@pytest.mark.parametrize(("body", "details", "says"), REFUSED.values(), ids=REFUSED.keys())
async def test_error_names_field_and_problem(body: bytes, details: dict[str, Any], says: str) -> None:
    refused = await outcome(body)
    assert isinstance(refused, Refused)
    assert (refused.code.name, refused.details) == ("INVALID_REQUEST", details)
    assert says in refused.message


async def test_missing_nested_field_is_named_with_its_path() -> None:
    refused = await outcome(b'{"name":"a","inner":{}}')
    assert isinstance(refused, Refused)
    assert refused.details == about("inner.number")


REPEATED = {
    b'{"name":"a","name":"a"}': "name",
    b'{"name":"a","inner":{"number":1,"number":2}}': "number",
    b'{"name":"a","n\\u0061me":"b"}': "name",
}


@pytest.mark.parametrize(("body", "name"), REPEATED.items())
async def test_repeated_name_is_rejected_anywhere(body: bytes, name: str) -> None:
    refused = await outcome(body)
    assert isinstance(refused, Refused)
    assert refused.details == about(name)
    assert refused.message == f"{name} appears twice in one object."


PIECES = st.sampled_from(['"a"', '"b"', '":"', '"\\u003a"', '"\\u003A\\\\u003a"', '"\\\\"', "1", "[]", "1e308"])


def objects(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """JSON objects, some with a repeated name."""
    pairs = st.lists(st.tuples(st.sampled_from("abc:"), inner), max_size=3)
    return pairs.map(lambda held: "{" + ",".join(f'"{name}": {value}' for name, value in held) + "}")


@given(st.recursive(PIECES, lambda inner: objects(inner) | inner.map("[{}]".format), max_leaves=6))
async def test_body_is_rejected_exactly_if_a_name_repeats(inner: str) -> None:
    """Method: names may contain colons, also escaped ones, so compare the count of colons with a parser."""
    repeats: list[bool] = []
    json.loads(inner, object_pairs_hook=lambda pairs: repeats.append(len(dict(pairs)) < len(pairs)))
    refused = await outcome(f'{{"name":{inner}}}'.encode())
    is_reported = isinstance(refused, Refused) and "appears twice" in refused.message
    assert is_reported == any(repeats)


async def test_repeated_name_in_a_long_body_is_reported_without_its_name() -> None:
    refused = await outcome(b'{"name":"%s","inner":{"number":1,"number":2}}' % (b"a" * 70_000))
    assert isinstance(refused, Refused)
    assert refused.message == "body contains an object in which a name appears twice."
    assert refused.details == about("body")


async def test_body_with_too_many_containers_is_rejected() -> None:
    most, more = (b'{"name":"%s"}' % (b"[" * count) for count in (99_999, 100_000))
    assert not isinstance(await outcome(most), Refused)
    refused = await outcome(more)
    assert isinstance(refused, Refused)
    assert refused.message == "body must not contain more than 100,000 arrays and objects."
    assert refused.details == about("body")


async def test_body_nested_too_deeply_is_rejected() -> None:
    refused = await outcome(b'{"name":' + b"[" * 500 + b"]" * 500 + b"}")
    assert isinstance(refused, Refused)
    assert refused.message == "body is nested too deeply."


@pytest.mark.parametrize(("encoding", "code"), [(b"identity", None), (b"gzip", True), (b"identity, br", True)])
async def test_compressed_body_is_not_read(encoding: bytes, code: bool | None) -> None:
    asked = request([b'{"name":"a"}'])
    asked.headers[b"content-encoding"] = encoding
    if code is None:
        assert await read_json(asked, Form) == Form("a")
        return
    with pytest.raises(Refused) as refused:
        await read_json(asked, Form)
    assert (refused.value.code.name, refused.value.code.status) == ("UNSUPPORTED_MEDIA_TYPE", 415)
    assert refused.value.headers == ((b"accept-encoding",), (b"identity",))


async def test_incomplete_body_is_rejected() -> None:
    refused = await outcome(b'{"name":"a"}', whole=False)
    assert isinstance(refused, Refused)
    assert refused.message == "body was incomplete."


async def test_body_over_limit_is_rejected_without_reading_more() -> None:
    text = b'{"name":"a"}'
    assert await outcome(text, b" " * (BODY_BYTES_MAX - len(text))) == Form("a")
    pieces = [b" " * (BODY_BYTES_MAX // 2)] * 2 + [b" ", b"never read"]
    left = request(pieces)
    with pytest.raises(Refused) as raised:
        await read_json(left, Form)
    assert raised.value.code.name == "PAYLOAD_TOO_LARGE"
    assert (await left.receive())["body"] == b"never read"  # type: ignore[typeddict-item]


def _text(value: object) -> bytes:
    return json.dumps(value).encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=30) | st.dictionaries(st.sampled_from(["name", "size", "inner", "x"]), JSON).map(_text))
async def test_any_body_is_parsed_or_rejected_with_details(body: bytes) -> None:
    found = await outcome(body)
    if isinstance(found, Refused):
        assert found.code.name == "INVALID_REQUEST"
        assert found.details is not None
        assert ("reason" in found.details) != ("did_you_mean" in found.details)
    else:
        assert json.loads(body)["name"] == found.name
