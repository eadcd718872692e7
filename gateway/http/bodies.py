"""JSON request bodies: read within a size limit and converted to the type that a route expects (spec 7.2, 7.3, 8)."""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec
import orjson

from gateway.http.errors import InvalidParam, Refused, unknown_name
from gateway.http.request import Request
from gateway.http.routing import BODY_BYTES_MAX, body_too_large
from gateway.server.errors import BodyTooLong, ClientGone
from gateway.server.http1.whole_body import read_body

T = TypeVar("T", bound=msgspec.Struct)
_PART_LEAST = 3
"""Minimum length, in characters, of an unknown name that is matched against parts of field names."""
_CONTAINERS_MAX = 100_000
"""Maximum number of arrays and objects in a body. Parsing and freeing more of them would block all other requests. No
route needs a tenth of this number.
"""
_NAMED_BYTES_MAX = 64 * 1024
"""In a body with more bytes, the error does not name the repeated name, because the search for it would block all other
requests.
"""
_IN_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
}
"""JSON types by their msgspec name, in the words used in messages. `null` stays `null`."""
_BOUND = re.compile(r"Expected `(?P<type>[a-z]+)` (?:of length )?(?P<sign>[<>])= (?P<number>[\d.]+)")
_BOUNDED = {"str": "must have {} characters", "array": "must contain {} entries"}
"""Messages for the types whose length is limited. For numbers, the value itself is limited."""
_LENGTHS, _VALUES = ("min_length", "max_length"), ("ge", "le")
_FIELD = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")


class NoFields(msgspec.Struct, frozen=True):
    """The body of a change without parameters: empty, or an object without fields."""


async def read_json(request: Request, kind: type[T], *, may_be_empty: bool = False) -> T:
    """Read the body as a `kind`, and reject unknown fields. With `may_be_empty`, an empty body means no fields.

    The `LACKS` of a kind lists fields of other APIs that no node supports, each with the reason. The body is parsed
    with orjson, because msgspec takes 9 us for one `1e308`, and the largest body can contain 160,000 of them.

    Raises:
        Refused: 413 for a body over 1 MB. The rest is not read.
        InvalidParam: 400 that names the field and the problem.
    """
    refuse_encoded(request)
    body = await _read(request)
    if may_be_empty and not body:
        return kind()
    if body.count(b"[") + body.count(b"{") > _CONTAINERS_MAX:
        raise InvalidParam("body", f"must not contain more than {_CONTAINERS_MAX:,} arrays and objects")
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
    """Convert fields to a `kind`, and reject unknown ones. Raises InvalidParam, which names the field."""
    _refuse_unknown(sent, kind)
    return _converted(sent, kind)


def _converted(sent: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(sent, kind)
    except msgspec.ValidationError as exc:
        raise _refused(str(exc), kind) from exc


def refuse_encoded(request: Request) -> None:
    """Reject a compressed body."""
    encoding = request.headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding != b"identity":
        raise Refused(
            "UNSUPPORTED_MEDIA_TYPE",
            "Content-Encoding is not supported; send the body uncompressed.",
            details={"reason": "encoded_body", "param": "Content-Encoding"},
            headers=((b"accept-encoding",), (b"identity",)),
        )


def _refuse_repeated(body: bytes, sent: object) -> None:
    """Reject an object with a repeated name, because parsers differ in which of the values they use.

    Each pair has one colon, and the parser keeps only the last pair of a name. If `sent`, encoded again, has fewer
    colons than the body, a pair was dropped. Counting takes a tenth of the time of parsing with a hook, which is too
    slow for the largest body.
    """
    try:
        kept = orjson.dumps(sent).count(b":")
    except orjson.JSONEncodeError:
        raise InvalidParam("body", "is nested too deeply") from None
    if kept == body.count(b":") + _escaped_colons(body):
        return
    if len(body) <= _NAMED_BYTES_MAX:
        # `str`, because `int` limits the number of digits.
        json.loads(body, object_pairs_hook=_refuse_repeated_name, parse_int=str)
    raise InvalidParam("body", "contains an object in which a name appears twice")


def _escaped_colons(body: bytes) -> int:
    """Count the colons written as `\\u003a`. Pairs of backslashes are removed first: each is an escaped backslash."""
    if b"\\u003" not in body:
        return 0
    text = body.replace(b"\\\\", b"")
    return text.count(b"\\u003a") + text.count(b"\\u003A")


def _refuse_repeated_name(pairs: list[tuple[str, Any]]) -> None:
    seen = set()
    for name, _ in pairs:
        if name in seen:
            raise InvalidParam(name[:100], "appears twice in one object")
        seen.add(name)


async def _read(request: Request) -> bytes:
    """Read the whole body. `Content-Length` was checked before, so only a chunked body can be too long here."""
    try:
        return await read_body(request.receive, bytes_max=BODY_BYTES_MAX)
    except BodyTooLong:
        raise body_too_large(BODY_BYTES_MAX) from None
    except ClientGone:
        raise InvalidParam("body", "was incomplete") from None


def _malformed(body: bytes, exc: orjson.JSONDecodeError) -> InvalidParam:
    try:
        body.decode()
    except UnicodeDecodeError:
        return InvalidParam("body", "is not valid UTF-8", reason="invalid_utf8")
    return InvalidParam("body", f"is not valid JSON at character {exc.pos}" if body else "is empty; send a JSON object")


def _refuse_unknown(sent: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    fields, lacks = kind.__struct_encode_fields__, getattr(kind, "LACKS", {})
    for name in sent:
        if name in lacks:
            more = {"remove_params": [name]}
            raise InvalidParam(name, lacks[name], reason="capability_missing", more=more)
        if name not in fields:
            raise _unknown(name[:100], fields)


def _unknown(name: str, fields: tuple[str, ...]) -> InvalidParam:
    """Return the error for an unknown field, suggesting a similar field only if one is close."""
    return unknown_name("field", name, fields, _meant(name.lower(), fields))


def _meant(name: str, fields: tuple[str, ...]) -> str | None:
    whole = (field for field in fields if len(name) >= _PART_LEAST and name in field)
    return next(whole, None) or next(iter(get_close_matches(name, fields, n=1, cutoff=0.75)), None)


def _refused(message: str, kind: type[msgspec.Struct]) -> InvalidParam:
    """Translate a validation message from msgspec into an error."""
    where = _FIELD.search(message)
    missing = re.search(r"missing required field `([^`]*)`", message)
    if missing:
        return InvalidParam(f"{where['path']}.{missing[1]}" if where else missing[1], "is required")
    unknown = re.search(r"contains unknown field `([^`]*)`", message)
    if unknown:
        name = (f"{where['path']}.{unknown[1]}" if where else unknown[1])[:200]
        problem, more = f"Unknown field `{name}`", {"remove_params": [name]}
        return InvalidParam(name, problem, more=more, is_sentence=True)
    types = re.search(r"Expected `([a-z |]+)`(?:, got `([a-z]+)`)?(?= - at |$)", message)
    problem = _bounds(message, kind, where["path"] if where else "") or "has a value that is not allowed"
    if types:
        wanted = " or ".join(_IN_WORDS.get(one, one) for one in types[1].split(" | "))
        problem = f"must be {wanted}" + (f", not {_IN_WORDS.get(types[2], types[2])}" if types[2] else "")
    return InvalidParam(where["path"] if where else "body", problem)


def _bounds(message: str, kind: type[msgspec.Struct], path: str) -> str | None:
    """Return the bounds or choices that a value violates; None if the problem is something else.

    msgspec's message names only one of two bounds, but the declaration of the field has both.
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
