"""Reads platforms from the rows of the index (`upstreams.index.writing`), without importing their packages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any

from upstreams.model.adopting import adopt_functions
from upstreams.model.archetypes import ARCHETYPES
from upstreams.model.endpoint import Platform
from upstreams.model.loading import Later, PackageLoading
from upstreams.model.params import Param
from upstreams.model.paths import Located, Within

Rows = Mapping[str, Any]
"""The index as decoded JSON: `params` and `platforms`."""
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
    endpoints = [
        (one.resource, one.needs, one.own_needs, one.params, [(each.source, each.needs) for each in one.fallbacks])
        for one in platform.endpoints
    ]
    return platform.sources, platform.source_needs, platform.credentials, endpoints


class _Reader:
    """Reads values back."""

    def __init__(self, params: Iterable[Mapping[str, Any]]) -> None:
        self._loading: PackageLoading[Platform] | None = None
        self._params: tuple[Param, ...] = ()
        self._kinds: Mapping[str, Callable[[Any], Any]] = {
            "param": lambda position: self._params[position],
            "archetype": ARCHETYPES.__getitem__,
            "located": lambda arguments: Located(*self._value(arguments)),
            "within": lambda arguments: Within(*self._value(arguments)),
            "pairs": lambda pairs: {key: self._value(one) for key, one in pairs},
            "code": self._later,
        }
        self._params = tuple(self._record(row) for row in params)

    def platform(self, row: Mapping[str, Any], loading: PackageLoading[Platform]) -> Platform:
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
