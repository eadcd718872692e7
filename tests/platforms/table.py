"""Tables `ours <- theirs` for cases, read in a way of their own: a fault of the platform's reader shows against them.

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

A text is a path into the upstream's object, of which an empty text and what is not there are null. Everything else is
called with the object. Arguments of the record that a table does not name have to come out as null.
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
    """The value at a dotted path, list places among its steps; None where there is none, or an empty text."""
    for step in path.split(".") if path else ():
        if isinstance(value, list):
            value = value[int(step)] if int(step) < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return None if value == "" else value


def ident(path: str) -> Source:
    """An id as text."""
    return lambda row: None if (found := at(row, path)) is None else str(found)


def utc(path: str) -> Source:
    """A time, from ISO text or Unix seconds, as we write it: `Z`, and milliseconds only where there are some."""

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
    """A record inside of it; null where there is none."""
    return lambda row: None if (found := at(row, path)) in (None, {}) else read(found)


def each(path: str, read: Source) -> Source:
    """The entries of a list, those that tell nothing left out."""
    return lambda row: [found for one in at(row, path) or [] if (found := _read(read, one)) is not None]


def table(make: Callable[..., Json], *, ext: Mapping[str, Source] = _NONE, **theirs: Source) -> Callable[[Any], Json]:
    """The reading of one object; `make` is the constructor of the record."""
    arguments = dict.fromkeys(inspect.signature(make).parameters)
    assert theirs.keys() <= arguments.keys(), f"{make.__name__} has no {theirs.keys() - arguments.keys()}"

    def read(row: Any) -> Json:
        found = {**arguments, **{name: _read(source, row) for name, source in theirs.items()}}
        return make(**found | ({"ext": {name: _read(one, row) for name, one in ext.items()}} if ext else {}))

    return read


def rows(path: str, read: Callable[[Any], Json]) -> Callable[..., list[Json]]:
    """The reading of a body's list, or of a body that is one; of several answers the last has it."""
    return lambda *bodies: [read(row) for row in at(bodies[-1], path)]


def _read(source: Source, row: Any) -> Any:
    return at(row, source) if isinstance(source, str) else source(row)
