"""Derives the kind of every path in an archetype's answers from a sample that its own constructor made.

Nothing is written twice: the sample's values have the types that the constructor's parameters are annotated with, and
the archetype wraps it as it wraps every record, computed fields and all. A field that the sample leaves empty, such as
`ext`, is open: nobody declares what stands below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from upstreams.model import archetypes
from upstreams.model.archetypes import Archetype, Record

Kind = Literal["number", "text", "boolean", "array", "object"]
ROW: Final = "items[]."
"""The beginning of a path into each row of a list."""

_KEYED_ROWS = ("post", "comment", "author")
"""Rows that have a key by default: their record's id (spec 2.6)."""
_NESTED: Mapping[str, Callable[..., Record]] = {"author": archetypes.byline}
"""Parameters that hold a record of their own."""
_TEXT = "The weather in the mountains was wonderful this morning, and everybody went outside for a walk."
"""Long enough to be in a language."""
_LARGEST = 10**6


@dataclass(frozen=True, slots=True)
class ArchetypeShape:
    """The paths of an archetype's `data` with their kinds, and those that are open below; `row_key` by default."""

    kinds: Mapping[str, Kind]
    open: frozenset[str]
    is_list: bool
    row_key: str | None

    def is_open_at(self, path: str) -> bool:
        """Whether a path leads below something that is open."""
        names = path.split(".")
        return any(".".join(names[:length]) in self.open for length in range(1, len(names)))


@lru_cache(maxsize=256)
def shape_of(archetype: Archetype) -> ArchetypeShape | None:
    """The shape of an archetype's `data`; None for composites, which have no fixed one."""
    constructor: Callable[..., Record] | None = getattr(archetypes, archetype.key, None) if archetype.key else None
    if constructor is None:
        return None
    prefix = ROW if archetype.many else ""
    found = dict(_walk(archetype.wrap(_sample(constructor), []), prefix))
    kinds: dict[str, Kind] = {path: kind for path, kind in found.items() if kind is not None}
    if archetype.many:
        kinds |= {"items": "array", "total": "number"}
    is_open = frozenset(path for path, kind in found.items() if kind is None)
    row_key = f"{archetype.key}.id" if archetype.many and archetype.key in _KEYED_ROWS else None
    return ArchetypeShape(kinds, is_open, archetype.many, row_key)


def _sample(constructor: Callable[..., Record]) -> Record:
    """A record with every field filled; each number is a tenth of the one before, so that rates have their inputs."""
    values: dict[str, Any] = {}
    number = _LARGEST
    for name, hint in get_type_hints(constructor).items():
        if name == "return":
            continue
        types = {get_origin(part) or part for part in get_args(hint)} or {hint}
        if types & {int, float}:
            values[name], number = number, number // 10
        elif dict in types:
            values[name] = _sample(_NESTED[name]) if name in _NESTED else {}
        else:
            values[name] = False if bool in types else _TEXT if str in types else []
    return constructor(**values)


def _walk(record: Record, prefix: str) -> Iterator[tuple[str, Kind | None]]:
    for name, value in record.items():
        path = f"{prefix}{name}"
        yield path, _kind(value)
        if isinstance(value, dict):
            yield from _walk(value, f"{path}.")


def _kind(value: object) -> Kind | None:
    """None for what is open: an object without declared fields, or something that the sample could not fill."""
    if value is None or value == {}:
        return None
    kinds: tuple[tuple[Any, Kind], ...] = (
        (bool, "boolean"),
        (int | float, "number"),
        (str, "text"),
        (list, "array"),
        (dict, "object"),
    )
    return next(kind for type_, kind in kinds if isinstance(value, type_))
