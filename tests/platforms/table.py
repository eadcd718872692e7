"""Field tables for cases. They read bodies without the platform's readers, whose errors they reveal.

    BYLINE = table(byline, id=ident("id"), username="acct", url="url")
    STATUS = table(
        post,
        id=ident("id"),
        text=lambda row: plain(row["content"]),
        author=below("account", BYLINE),
        likes="favourites_count",
        published_at=utc("created_at"),
        ext={"language": "language"},
    )

A text is a path into the upstream's object; a missing value or an empty text there is null. Anything else is called
with the object. Arguments of the record that a table does not name must be null in the result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]
Source = str | Callable[[Any], Any]
_NONE: Mapping[str, Source] = {}


def at(value: Any, path: str) -> Any:
    """Return the value at a dotted path, which may contain list indexes. None if it is missing or an empty text."""
    for step in path.split(".") if path else ():
        if isinstance(value, list):
            value = value[int(step)] if int(step) < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return None if value == "" else value


def ident(path: str) -> Source:
    """Read an id as a text."""
    return lambda row: None if (found := at(row, path)) is None else str(found)


def utc(path: str) -> Source:
    """Read a time from ISO text or Unix seconds. It is returned with `Z`, and with milliseconds only if it has any."""

    def read(row: Any) -> str | None:
        found = at(row, path)
        if found is None:
            return None
        moment = datetime.fromtimestamp(found, UTC) if isinstance(found, int) else datetime.fromisoformat(found)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        kept = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        spec = "milliseconds" if moment.microsecond else "seconds"
        return kept.isoformat(timespec=spec).replace("+00:00", "Z")

    return read


def below(path: str, read: Callable[[Any], Json]) -> Source:
    """Read a nested record, or null if it is missing."""
    return lambda row: None if (found := at(row, path)) in (None, {}) else read(found)


def each(path: str, read: Source) -> Source:
    """Read the entries in a list, except those that are null."""
    return lambda row: [found for one in at(row, path) or [] if (found := _read(read, one)) is not None]


def table(make: Callable[..., Json], *, ext: Mapping[str, Source] = _NONE, **theirs: Source) -> Callable[[Any], Json]:
    """Return a function that reads one object as a record. `make` is the record's constructor."""
    arguments = dict.fromkeys(inspect.signature(make).parameters)
    assert theirs.keys() <= arguments.keys(), f"{make.__name__} has no {theirs.keys() - arguments.keys()}"

    def read(row: Any) -> Json:
        found = {**arguments, **{name: _read(source, row) for name, source in theirs.items()}}
        return make(**found | ({"ext": {name: _read(one, row) for name, one in ext.items()}} if ext else {}))

    return read


def rows(path: str, read: Callable[[Any], Json]) -> Callable[..., list[Json]]:
    """Return a function that reads the list in the last body. The body itself may be the list."""
    return lambda *bodies: [read(row) for row in at(bodies[-1], path)]


def _read(source: Source, row: Any) -> Any:
    return at(row, source) if isinstance(source, str) else source(row)
