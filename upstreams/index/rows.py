"""Writes platforms as JSON, and reads them back without importing their packages.

Data is written as it is: text, numbers, lists (read back as tuples), objects with text keys. Everything else becomes an
object with the member `$`:

- `{"$": "upstreams.model.refusals:Pace", "calls": 5, ...}`: a record of the model, without its default values
- `{"$": "param", "of": 17}`: an entry of the table of parameters, because many endpoints share theirs
- `{"$": "archetype", "of": "upstreams.model.archetypes.people:AUTHOR"}`
- `{"$": "located", "of": [...]}` and `{"$": "within", "of": [...]}`: the arguments of `Located` and `Within`
- `{"$": "pairs", "of": [[401, "..."], ...]}`: a mapping whose keys are not text
- `{"$": "code", "of": "endpoints.3.read"}`: a function, read as a `Later`

A field map is left out. Its only data is the set of fields that it never fills, which becomes `never`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from importlib import import_module
from math import isfinite
from typing import Any, Final

from upstreams.model.archetypes import Archetype
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.loading import Later, PackageLoading, adopt_functions
from upstreams.model.params import Param
from upstreams.model.paths import Located, Within

_MODEL: Final = (
    "upstreams.model.endpoint",
    "upstreams.model.params",
    "upstreams.model.refusals",
    "upstreams.model.steps",
    "upstreams.composites.params",
    "upstreams.web.addresses",
    "upstreams.web.params",
)
"""The modules whose records are data. Importing them imports no platform."""
_ARCHETYPES: Final = "upstreams.model.archetypes."
_NOT_STORED: Final = frozenset({"common", "record", "loading"})
"""Fields that are left out: `common` is already among the parameters of each endpoint."""

Rows = Mapping[str, Any]
"""The index as decoded JSON: `params` and `platforms`."""


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
        written = {"$": f"{kind.__module__}:{kind.__qualname__}"}
        for name, default in _defaults(kind):
            found = getattr(record, name)
            if name not in _NOT_STORED and not (type(found) is type(default) and found == default):
                written[name] = self._within(slug, path, name, found)
        if isinstance(record, Endpoint):
            written["never"] = sorted(record.unfilled)
        return written


@cache
def _defaults(kind: type[Any]) -> tuple[tuple[str, Any], ...]:
    """Return the names of the fields that the constructor accepts, with their defaults."""
    if is_dataclass(kind):
        return tuple(
            (one.name, one.default if one.default_factory is MISSING else one.default_factory())
            for one in fields(kind)
            if one.init
        )
    return tuple((name, kind._field_defaults.get(name, MISSING)) for name in kind._fields)  # type: ignore[attr-defined]


def _name_of(archetype: Archetype) -> str:
    for module in [name for name in sys.modules if name.startswith(_ARCHETYPES)]:
        for name, value in vars(sys.modules[module]).items():
            if value is archetype:
                return f"{module}:{name}"
    raise NotStorable(f"the archetype {archetype.name} is not a constant of a module in {_ARCHETYPES[:-1]}")


Load = Callable[[str, tuple[Platform, ...]], Platform]
"""Loads the platform with a slug. A composite is built over the platforms that precede it in the index."""


def platforms_of(rows: Rows, load: Load) -> tuple[Platform, ...]:
    """Return the platforms in the index. `load` loads the code of one of them when it is first called."""
    reader = _Reader(rows["params"])
    platforms: list[Platform] = []
    for row in rows["platforms"]:
        loading = PackageLoading(partial(load, row["slug"], tuple(platforms)))
        platform = reader.platform(row, loading)
        loading.then(partial(_adopt, platform))
        platforms.append(platform)
    return tuple(platforms)


class PackageChanged(Exception):
    """The files of a platform changed after the node's start, so its endpoints are not those that the node offers."""


def _adopt(platform: Platform, loaded: Platform) -> None:
    """Take over the functions of a loaded platform, if its declaration is the one in the index."""
    if _signature(platform) != _signature(loaded):
        raise PackageChanged(f"the package of {platform.slug} changed since the node started; restart the node")
    adopt_functions(platform, loaded)


def _signature(platform: Platform) -> tuple[object, ...]:
    """Return the parts of a declaration that decide which host gets which call and which secret."""
    endpoints = [(one.resource, one.needs, one.params) for one in platform.endpoints]
    return platform.sources, platform.source_needs, platform.credentials, endpoints


class _Reader:
    """Reads values back."""

    def __init__(self, params: Iterable[Mapping[str, Any]]) -> None:
        self._loading: PackageLoading | None = None
        self._params: tuple[Param, ...] = ()
        self._kinds: Mapping[str, Callable[[Any], Any]] = {
            "param": lambda position: self._params[position],
            "archetype": _found,
            "located": lambda arguments: Located(*self._value(arguments)),
            "within": lambda arguments: Within(*self._value(arguments)),
            "pairs": lambda pairs: {key: self._value(one) for key, one in pairs},
            "code": self._later,
        }
        self._params = tuple(self._record(row) for row in params)

    def platform(self, row: Mapping[str, Any], loading: PackageLoading) -> Platform:
        """Return a platform whose functions `loading` loads."""
        self._loading = loading
        platform: Platform = self._record({**row, "loading": loading})
        return platform

    def _later(self, path: str) -> Later:
        assert self._loading is not None, "only platforms have functions"
        return Later(self._loading, path)

    def _value(self, raw: Any) -> Any:
        if isinstance(raw, list):
            return tuple([self._value(one) for one in raw])
        if not isinstance(raw, dict):
            return raw
        kind = raw.get("$")
        if kind is None:
            return {key: self._value(one) for key, one in raw.items()}
        make = self._kinds.get(kind)
        return self._record(raw) if make is None else make(raw["of"])

    def _record(self, raw: Mapping[str, Any]) -> Any:
        given = {name: self._value(one) for name, one in raw.items()}
        return _found(given.pop("$"))(**given)


@cache
def _found(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
