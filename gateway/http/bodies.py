"""JSON bodies of requests: read within their bound and turned into what a route takes (spec 7.2, 7.3, 8)."""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec
import orjson

from gateway.http.errors import InvalidParam, Refused
from gateway.http.request import Request
from gateway.http.routing import BODY_BYTES_MAX, body_too_large
from gateway.server.errors import BodyTooLong, ClientGone
from gateway.server.http1.whole_body import read_body

T = TypeVar("T", bound=msgspec.Struct)
_PART_LEAST = 3
"""Characters of a name that is taken for a field's, shortened."""
_CONTAINERS_MAX = 100_000
"""Parsing and freeing more arrays and objects than this would hold up all other requests. No route takes a tenth."""
_NAMED_BYTES_MAX = 64 * 1024
"""A longer body is not searched for the name that stands twice in it: that would hold up all other requests."""
_IN_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
}
"""The types of JSON as msgspec names them, and in the words of messages; null is null."""
_BOUND = re.compile(r"Expected `(?P<type>[a-z]+)` (?:of length )?(?P<sign>[<>])= (?P<number>[\d.]+)")
_BOUNDED = {"str": "must have {} characters", "array": "must hold {} entries"}
"""Types whose length is bounded; of numbers it is the value."""
_LENGTHS, _VALUES = ("min_length", "max_length"), ("ge", "le")
_FIELD = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")


class NoFields(msgspec.Struct, frozen=True):
    """The body of a change that takes nothing: empty, or an object without fields."""


async def read_json(request: Request, kind: type[T], *, may_be_empty: bool = False) -> T:
    """The body as a `kind`, whose fields are all that may stand in it; an empty one has none, where that may be.

    A kind's `LACKS` has the fields of other APIs that no node has the means for, each with the reason.
    It is parsed by orjson: msgspec takes 9 us for one `1e308`, which a body of the largest size may hold 160,000 times.

    Raises:
        Refused: 413 over 1 MB; the rest is not read.
        InvalidParam: 400 that names the field and what is wrong with it.
    """
    refuse_encoded(request)
    body = await _read(request)
    if may_be_empty and not body:
        return kind()
    if body.count(b"[") + body.count(b"{") > _CONTAINERS_MAX:
        raise InvalidParam("body", f"may hold at most {_CONTAINERS_MAX:,} arrays and objects")
    try:
        sent = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise _malformed(body, exc) from exc
    if not isinstance(sent, dict):
        raise InvalidParam("body", "must be a JSON object")
    _refuse_unknown(sent, kind)
    _refuse_repeated(body, sent)
    return _converted(sent, kind)


def read_fields(sent: dict[str, Any], kind: type[T]) -> T:
    """The fields of a body as a `kind`, which may hold no others. Raises InvalidParam: it names the field."""
    _refuse_unknown(sent, kind)
    return _converted(sent, kind)


def _converted(sent: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(sent, kind)
    except msgspec.ValidationError as exc:
        raise _refused(str(exc), kind) from exc


def refuse_encoded(request: Request) -> None:
    """Refuse a body that is compressed."""
    encoding = request.headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding != b"identity":
        raise Refused(
            "UNSUPPORTED_MEDIA_TYPE",
            "Content-Encoding cannot be used here; send the body as it is.",
            details={"reason": "encoded_body", "param": "Content-Encoding"},
            headers=((b"accept-encoding",), (b"identity",)),
        )


def _refuse_repeated(body: bytes, sent: object) -> None:
    """Refuse a name that stands twice in one object: readers differ in which of the two counts.

    Each pair has one colon, and the parser keeps the last pair of a name: written again, `sent` has as many colons as
    the body unless a pair was dropped. That takes a tenth of parsing with a hook, which the largest body cannot afford.
    """
    try:
        kept = orjson.dumps(sent).count(b":")
    except orjson.JSONEncodeError:
        raise InvalidParam("body", "is nested too deeply") from None
    if kept == body.count(b":") + _escaped_colons(body):
        return
    if len(body) <= _NAMED_BYTES_MAX:
        json.loads(body, object_pairs_hook=_refuse_repeated_name, parse_int=str)  # `str`: of any length
    raise InvalidParam("body", "holds an object in which a name stands twice")


def _escaped_colons(body: bytes) -> int:
    """How many colons are written as `\\u003a`. Pairs of backslashes go first: each is one escaped backslash."""
    if b"\\u003" not in body:
        return 0
    text = body.replace(b"\\\\", b"")
    return text.count(b"\\u003a") + text.count(b"\\u003A")


def _refuse_repeated_name(pairs: list[tuple[str, Any]]) -> None:
    seen = set()
    for name, _ in pairs:
        if name in seen:
            raise InvalidParam(name[:100], "stands twice in one object")
        seen.add(name)


async def _read(request: Request) -> bytes:
    """All of the body; `Content-Length` was judged before, so only a chunked one can be too long here."""
    try:
        return await read_body(request.receive, bytes_max=BODY_BYTES_MAX)
    except BodyTooLong:
        raise body_too_large(BODY_BYTES_MAX) from None
    except ClientGone:
        raise InvalidParam("body", "did not arrive whole") from None


def _malformed(body: bytes, exc: orjson.JSONDecodeError) -> InvalidParam:
    try:
        body.decode()
    except UnicodeDecodeError:
        return InvalidParam("body", "is not valid UTF-8", reason="invalid_utf8")
    return InvalidParam("body", f"is no JSON from character {exc.pos} on" if body else "is empty; send a JSON object")


def _refuse_unknown(sent: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    fields, lacks = kind.__struct_encode_fields__, getattr(kind, "LACKS", {})
    for name in sent:
        if name in lacks:
            more = {"remove_params": [name]}
            raise InvalidParam(name, lacks[name], reason="capability_missing", more=more)
        if name not in fields:
            raise _unknown(name[:100], fields)


def _unknown(name: str, fields: tuple[str, ...]) -> InvalidParam:
    """The nearest field, where one is near: a field that another body has is not meant as any of this one's."""
    meant = _meant(name.lower(), fields)
    if meant is not None:
        hint = f"; did you mean {meant}?"
    else:
        hint = f"; its fields are {', '.join(fields)}" if fields else ", which takes none"
    return InvalidParam(name, f"is no field of this body{hint}", meant=meant, more={"remove_params": [name]})


def _meant(name: str, fields: tuple[str, ...]) -> str | None:
    whole = (field for field in fields if len(name) >= _PART_LEAST and name in field)
    return next(whole, None) or next(iter(get_close_matches(name, fields, n=1, cutoff=0.75)), None)


def _refused(message: str, kind: type[msgspec.Struct]) -> InvalidParam:
    """The refusal that msgspec's sentence means."""
    where = _FIELD.search(message)
    missing = re.search(r"missing required field `([^`]*)`", message)
    if missing:
        return InvalidParam(f"{where['path']}.{missing[1]}" if where else missing[1], "is required")
    unknown = re.search(r"contains unknown field `([^`]*)`", message)
    if unknown:
        name = f"{where['path']}.{unknown[1]}" if where else unknown[1]
        return InvalidParam(name[:200], "is no field of this body", more={"remove_params": [name[:200]]})
    types = re.search(r"Expected `([a-z |]+)`(?:, got `([a-z]+)`)?(?= - at |$)", message)
    problem = _bounds(message, kind, where["path"] if where else "") or "has a value that is not taken there"
    if types:
        wanted = " or ".join(_IN_WORDS.get(one, one) for one in types[1].split(" | "))
        problem = f"must be {wanted}" + (f", not {_IN_WORDS.get(types[2], types[2])}" if types[2] else "")
    return InvalidParam(where["path"] if where else "body", problem)


def _bounds(message: str, kind: type[msgspec.Struct], path: str) -> str | None:
    """Return the bounds or choices that a value does not keep, if that is its fault.

    msgspec names one of two bounds; a field's declaration has both.
    """
    fields = msgspec.inspect.type_info(kind).fields  # type: ignore[attr-defined]  # it is a struct's
    type_ = next((one.type for one in fields if one.encode_name == path), None)
    types = getattr(type_, "types", (type_,))
    if message.startswith("Invalid enum value"):
        values = [str(value) for one in types for value in getattr(one, "values", ())]
        return f"must be one of {', '.join(values)}" if values else None
    broken = _BOUND.search(message)
    if broken is None:
        return None
    least, most = (broken["number"], None) if broken["sign"] == ">" else (None, broken["number"])
    for one in types:
        low, high = (getattr(one, name, None) for name in (_LENGTHS if broken["type"] in _BOUNDED else _VALUES))
        least, most = (low if least is None else least), (high if most is None else most)
    span = f"at most {most}" if least is None else f"at least {least}" if most is None else f"{least} to {most}"
    return _BOUNDED.get(broken["type"], "must be {}").format(span)
