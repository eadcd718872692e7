"""What the API promises about every record (spec 2.2, decisions 3), in addition to the published schemas.

An upstream may omit any value, so null is accepted everywhere except for objects and lists that are always present.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from jsonschema_rs import Draft202012Validator

from gateway.docs.schemas import schema_of
from upstreams.model.archetypes import Archetype

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")
_INTEGER_MAX = 2**64
COUNTS: Final = {
    *("followers", "following", "posts_count", "views", "comments", "shares", "saves", "replies", "duration_seconds"),
    *("stars", "forks", "watchers", "open_issues", "size_kb", "estimated_reach", "repos_seen", "repos_pushed_30d"),
    *("repos_pushed_365d", "own_repos_created_365d", "own_repos_stars", "rung_index", "credits_used", "latency_ms"),
    "total",
}
"""Whole numbers that are never negative."""
POINTS: Final = {"likes", "likes_count"}
"""Whole numbers that may be negative, as votes may be."""


def _is_moment(value: str) -> bool:
    """Return whether a text is a UTC time, with milliseconds or without a fraction."""
    return _INSTANT.fullmatch(value) is not None


def _is_any(_value: str) -> bool:
    """Accept every text as a URL, because URLs are returned as the upstream sends them."""
    return True


@cache
def validator(archetype: Archetype) -> Draft202012Validator:
    """Return a validator for the schema that the node publishes. It also checks times."""
    return Draft202012Validator(schema_of(archetype, ""), formats={"uri": _is_any}, validate_formats=True)


@cache
def _strict(archetype: Archetype) -> Draft202012Validator:
    closed = _closed(schema_of(archetype, ""))
    return Draft202012Validator(closed, formats={"date-time": _is_moment, "uri": _is_any}, validate_formats=True)


def _closed(schema: Any) -> Any:
    """Return a schema that refuses members that it does not describe."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _closed(one) for name, one in schema.items()}
    return {**inner, "additionalProperties": False} if isinstance(inner.get("properties"), dict) else inner


def check_data(archetype: Archetype, data: dict[str, Any]) -> None:
    """Check `data` against the published schema of its archetype, and against the promises about all records."""
    _strict(archetype).validate(data)
    broken = {path: value for path, name, value in _values(data) if not _is_kept(name, value)}
    assert not broken, broken


def _values(value: Any, name: str = "", path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield every value in a record, with its path and the name of its member."""
    yield path, name, value
    inner = value.items() if isinstance(value, dict) else ()
    for key, one in inner:
        yield from _values(one, key, f"{path}.{key}")
    for place, one in enumerate(value if isinstance(value, list) else ()):
        yield from _values(one, name, f"{path}.{place}")


def _is_kept(name: str, value: Any) -> bool:
    """Return whether every JSON parser reads the value in the same way, and whether it is possible for its name."""
    if isinstance(value, dict):
        flags = value.get("flags")
        is_gone = name in ("comment", "replies") and isinstance(flags, dict) and flags.get("deleted") is True
        has_plain_ext = name != "ext" or not any(isinstance(one, dict) for one in value.values())
        return has_plain_ext and not (is_gone and (value["text"], value["author"]) != (None, None))
    if value is None or isinstance(value, bool | list):
        return True
    if isinstance(value, str):
        return value != ""
    if name == "engagement_rate":
        return bool(0 <= value <= 1)
    if name in COUNTS | POINTS:
        return type(value) is int and abs(value) < _INTEGER_MAX and (value >= 0 or name in POINTS)
    return bool(abs(value) < _INTEGER_MAX)
