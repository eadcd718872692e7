"""Writes platforms as JSON, which `upstreams.index.reading` reads without importing their packages.

Data is written as it is: text, numbers, lists (read back as tuples), objects with text keys. Everything else becomes an
object with the member `$`:

- `{"$": "upstreams.model.refusals:Pace", "calls": 5, ...}`: a record of the model, without its default values
- `{"$": "param", "of": 17}`: an entry of the table of parameters, because many endpoints share theirs
- `{"$": "archetype", "of": "Author"}`
- `{"$": "located", "of": [...]}` and `{"$": "within", "of": [...]}`: the arguments of `Located` and `Within`
- `{"$": "pairs", "of": [[401, "..."], ...]}`: a mapping whose keys are not text
- `{"$": "code", "of": "endpoints.3.read"}`: a function, read as a `Later`

A field map is left out. Its only data is the set of fields that it never fills, which becomes `never`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from itertools import combinations
from math import isfinite
from typing import Any, Final

from upstreams.model.archetypes import ARCHETYPES, Archetype
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import Param
from upstreams.model.paths import Located, Within
from upstreams.sandbox.rehearse import first_source

_MODEL: Final = (
    "upstreams.model.budgets",
    "upstreams.model.endpoint",
    "upstreams.model.params",
    "upstreams.model.refusals",
    "upstreams.model.steps",
    "upstreams.composites.params",
    "upstreams.web.addresses",
    "upstreams.web.params",
)
"""The modules whose records are data. Importing them imports no platform."""
_NOT_STORED: Final = frozenset({"common", "record", "loading"})
"""Fields that are left out: `common` is already among the parameters of each endpoint."""


class NotStorable(Exception):
    """A declaration contains a value that the index cannot store. The message says where."""


def rows_of(platforms: Iterable[Platform]) -> dict[str, Any]:
    """Return the rows of these platforms.

    Raises:
        NotStorable: A declaration contains an unknown kind of value.
    """
    writer = _Writer()
    written = [writer.value(platform, platform.slug, "") for platform in platforms]
    return {"params": writer.params, "platforms": written}


class _Writer:
    """Writes values, and collects the table of parameters."""

    def __init__(self) -> None:
        self.params: list[dict[str, Any]] = []
        self._positions: dict[Param, int] = {}

    def value(self, value: Any, slug: str, path: str) -> Any:
        """Return a value as JSON. `path` leads to it from the platform."""
        if value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
            return value
        if type(value).__module__ in _MODEL and (is_dataclass(value) or hasattr(value, "_fields")):
            return self._record(value, slug, path)
        if isinstance(value, tuple | list):
            return [self._within(slug, path, str(position), one) for position, one in enumerate(value)]
        if isinstance(value, Mapping) and all(isinstance(key, str) and key != "$" for key in value):
            return {key: self._within(slug, path, key, one) for key, one in value.items()}
        return self._object(value, slug, path)

    def _object(self, value: Any, slug: str, path: str) -> dict[str, Any]:
        """Return a value that is not JSON as an object with the member `$`."""
        content: Any
        match value:
            case Archetype():
                kind, content = "archetype", _name_of(value)
            case Located() | Within():
                arguments = self._within(slug, path, "arguments", value.arguments)
                kind, content = ("located" if isinstance(value, Located) else "within"), arguments
            case Mapping():
                kind, content = "pairs", [[key, self._within(slug, path, str(key), one)] for key, one in value.items()]
            case _ if callable(value):
                kind, content = "code", path
            case _:
                raise NotStorable(f"{slug}: {path} is a {type(value).__qualname__}, which the index cannot store")
        return {"$": kind, "of": content}

    def _within(self, slug: str, path: str, step: str, value: Any) -> Any:
        return self.value(value, slug, f"{path}.{step}" if path else step)

    def _position(self, param: Param, slug: str, path: str) -> int:
        if param not in self._positions:
            self._positions[param] = len(self.params)
            self.params.append(self._fields(param, slug, path))
        return self._positions[param]

    def _record(self, record: Any, slug: str, path: str) -> dict[str, Any]:
        """Return a record of the model, or the place of a parameter in the table."""
        if isinstance(record, Param):
            return {"$": "param", "of": self._position(record, slug, path)}
        return self._fields(record, slug, path)

    def _fields(self, record: Any, slug: str, path: str) -> dict[str, Any]:
        kind = type(record)
        written: dict[str, Any] = {"$": f"{kind.__module__}:{kind.__qualname__}"}
        for name, default in _defaults(kind):
            found = getattr(record, name)
            if name not in _NOT_STORED and not (type(found) is type(default) and found == default):
                written[name] = self._within(slug, path, name, found)
        if isinstance(record, Endpoint):
            written["never"] = sorted(record.unfilled)
        if isinstance(record, Platform):
            for row, endpoint in zip(written["endpoints"], record.endpoints, strict=True):
                if endpoint.fallbacks:
                    row["first_sources"] = _first_sources(record, endpoint)
        return written


def _first_sources(platform: Platform, endpoint: Endpoint) -> dict[str, str]:
    """Return the source of the first call of an endpoint's own read, for every choice of credentials that allows it."""
    sizes = range(len(platform.credentials) + 1)
    choices = (chosen for size in sizes for chosen in combinations(platform.credentials, size))
    own = [{*names.split("|")} for names in endpoint.own_needs]
    usable = (chosen for chosen in choices if all(names & {*chosen, *platform.partners} for names in own))
    return {",".join(chosen): first_source(platform, endpoint, chosen) for chosen in usable}


def _defaults(kind: type[Any]) -> tuple[tuple[str, Any], ...]:
    """Return the names of the fields that the constructor accepts, with their defaults."""
    if is_dataclass(kind):
        return tuple(
            (one.name, one.default if one.default_factory is MISSING else one.default_factory())
            for one in fields(kind)
            if one.init
        )
    return tuple((name, kind._field_defaults.get(name, MISSING)) for name in kind._fields)


def _name_of(archetype: Archetype) -> str:
    if ARCHETYPES.get(archetype.name) is not archetype:
        raise NotStorable(f"the archetype {archetype.name} is not in the ARCHETYPES of its family")
    return archetype.name
