"""The kind of every path in an archetype's responses, from its field declarations.

A field such as `ext` is open: the fields inside it are not declared.
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
"""The prefix of paths into each row of a list."""

_KEYED_ROWS = ("post", "comment", "author")
"""Records whose id is a row's key by default (spec 2.6), including in rows of composites."""

_COMPUTED_FROM = ("engagement.views", "followers", "likes_count")
"""Post and author fields without which no engagement rate is computed."""


@dataclass(frozen=True, slots=True)
class ArchetypeShape:
    """The paths of an endpoint's `data` with their kinds, the paths that are open, and the default `row_key`."""

    kinds: Mapping[str, Kind]
    open: frozenset[str]
    is_list: bool
    row_key: str | None
    never: frozenset[str] = frozenset()
    """Paths of the archetype that the endpoint never fills."""

    def is_open_at(self, path: str) -> bool:
        """Return whether a path leads into an open field."""
        names = path.split(".")
        return any(".".join(names[:length]) in self.open for length in range(1, len(names)))


@cache
def shape_of(archetype: Archetype, never: frozenset[str] = frozenset()) -> ArchetypeShape:
    """Return the shape of an archetype's `data`, for an endpoint that never fills the fields in `never`."""
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
    # A row with its own id is not identified by the id of its author.
    is_keyed = archetype.many and f"{ROW}id" not in kinds
    names = [one for one in _KEYED_ROWS if f"{ROW}{one}.id" in kinds] if is_keyed else []
    keyed = archetype.key if archetype.key in names else next(iter(names), None)
    row_key = None if keyed is None else f"{keyed}.id"
    return ArchetypeShape(kinds, is_open, archetype.many, row_key, unfilled)


def _unfilled(archetype: Archetype, never: frozenset[str]) -> frozenset[str]:
    """Return the paths of fields that are never filled, and of fields computed from them."""
    prefix = ROW if archetype.many else ""
    record = f"{prefix}{archetype.key}." if archetype.key else prefix
    paths = {name if name == "total" else f"{record}{name}" for name in never}
    if archetype.computed is not None and not never.isdisjoint(_COMPUTED_FROM):
        paths |= {f"{prefix}computed.engagement_rate", f"{prefix}computed.estimated_reach"}
    return frozenset(paths)


def _walk(fields: Iterable[Field], prefix: str) -> Iterator[tuple[str, Kind | None]]:
    """Yield every path with its kind, or None for an open field. Arrays are never entered."""
    for field in fields:
        path = f"{prefix}{field.name}"
        yield path, None if field.is_open else "number" if field.kind == "integer" else field.kind
        if field.kind == "object":
            yield from _walk(fields_of(field.make) if field.make else field.members, f"{path}.")
