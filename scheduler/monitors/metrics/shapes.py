"""The kind of every path in an archetype's answers, from the declarations of its fields.

A field such as `ext` is open: nobody declares what stands below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from upstreams.model.archetypes import Archetype
from upstreams.model.archetypes.shape import Field, computed, fields_of

Kind = Literal["number", "text", "boolean", "array", "object"]
ROW: Final = "items[]."
"""The beginning of a path into each row of a list."""

_KEYED_ROWS = ("post", "comment", "author")
"""Records whose id is the key of a row by default (spec 2.6), also where a composite's row holds one."""

_COMPUTED_FROM = ("engagement.views", "followers", "likes_count")
"""Fields of a post or an author without which no rate of engagement is computed."""


@dataclass(frozen=True, slots=True)
class ArchetypeShape:
    """The paths of an endpoint's `data` with their kinds, and those that are open below; `row_key` by default."""

    kinds: Mapping[str, Kind]
    open: frozenset[str]
    is_list: bool
    row_key: str | None
    never: frozenset[str] = frozenset()
    """Paths that the archetype has and the endpoint never fills."""

    def is_open_at(self, path: str) -> bool:
        """Whether a path leads below something that is open."""
        names = path.split(".")
        return any(".".join(names[:length]) in self.open for length in range(1, len(names)))


@cache
def shape_of(archetype: Archetype, never: frozenset[str] = frozenset()) -> ArchetypeShape:
    """The shape of an archetype's `data` where an endpoint never fills some fields of its records."""
    prefix = ROW if archetype.many else ""
    row = [Field(archetype.key, "object", "", make=archetype.make)] if archetype.key else fields_of(archetype.make)
    unfilled = _unfilled(archetype, never)
    if archetype.computed is not None:
        row = [*row, Field("computed", "object", "", make=computed)]
    found = dict(_walk(row, prefix))
    for make in archetype.makes_beside:
        found |= _walk(fields_of(make), "")
    kinds: dict[str, Kind] = {path: kind for path, kind in found.items() if kind is not None and path not in unfilled}
    if archetype.many:
        kinds |= {"items": "array"} if "total" in unfilled else {"items": "array", "total": "number"}
    is_open = frozenset(path for path, kind in found.items() if kind is None)
    names = [one for one in _KEYED_ROWS if f"{ROW}{one}.id" in kinds] if archetype.many else []
    keyed = archetype.key if archetype.key in names else next(iter(names), None)
    row_key = None if keyed is None else f"{keyed}.id"
    return ArchetypeShape(kinds, is_open, archetype.many, row_key, unfilled)


def _unfilled(archetype: Archetype, never: frozenset[str]) -> frozenset[str]:
    """The paths in `data` of fields that are never filled, and of what would be computed from them."""
    prefix = ROW if archetype.many else ""
    record = f"{prefix}{archetype.key}." if archetype.key else prefix
    paths = {name if name == "total" else f"{record}{name}" for name in never}
    if archetype.computed is not None and not never.isdisjoint(_COMPUTED_FROM):
        paths |= {f"{prefix}computed.engagement_rate", f"{prefix}computed.estimated_reach"}
    return frozenset(paths)


def _walk(fields: Iterable[Field], prefix: str) -> Iterator[tuple[str, Kind | None]]:
    """Every path with its kind; None for what is open. Arrays are never walked into."""
    for field in fields:
        path = f"{prefix}{field.name}"
        yield path, None if field.is_open else "number" if field.kind == "integer" else field.kind
        if field.kind == "object":
            yield from _walk(fields_of(field.make) if field.make else field.members, f"{path}.")
