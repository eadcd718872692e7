"""Loads the code of a platform at its first use, for platforms that are read from the index (`upstreams.index`).

Such a platform has all its data from the start, but a `Later` in place of each function. The first call of any of them
imports the platform's package and replaces the placeholders by the functions, in the same objects. So later requests
run exactly the code that they would run without an index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from upstreams.model.endpoint import Platform

Adopt = Callable[["Platform"], None]
"""Takes over the functions of a loaded platform."""


class PackageLoading:
    """Loads the package of one platform, once. A call may come from any thread."""

    def __init__(self, load: Callable[[], Platform]) -> None:
        self._load = load
        self._lock = RLock()
        self._loaded: Platform | None = None
        self._waiting: list[Adopt] = []

    @property
    def is_loaded(self) -> bool:
        """Whether the package has been imported."""
        return self._loaded is not None

    def platform(self) -> Platform:
        """Return the platform as its package declares it.

        Raises:
            Exception: The package cannot be imported. The next call tries again.
        """
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    loaded = self._load()
                    for adopt in self._waiting:
                        adopt(loaded)
                    self._waiting.clear()
                    self._loaded = loaded
        return self._loaded

    def then(self, adopt: Adopt) -> None:
        """Call `adopt` with the loaded platform, as soon as it is loaded."""
        with self._lock:
            if self._loaded is None:
                self._waiting.append(adopt)
                return
        adopt(self._loaded)


class Later:
    """A function of a platform that is not loaded yet. Each call runs the function, and the first one loads it."""

    __slots__ = ("_function", "_loading", "_path")

    def __init__(self, loading: PackageLoading, path: str) -> None:
        """`path` leads from the platform to the function, as in `endpoints.3.read`."""
        self._loading = loading
        self._path = path
        self._function: Callable[..., Any] | None = None

    def __call__(self, *given: Any) -> Any:
        """Run the function."""
        if self._function is None:
            self._function = self._found()
        return self._function(*given)

    def _found(self) -> Any:
        found: Any = self._loading.platform()
        for step in self._path.split("."):
            found = found[int(step)] if step.isdecimal() else getattr(found, step)
        return found


def adopt_functions(mine: Platform, loaded: Platform) -> None:
    """Replace the placeholders in a platform and its endpoints by the functions of the loaded platform.

    Only this function changes these objects, which are frozen for everyone else. Both platforms have the same data.
    """
    _adopt(mine, loaded)
    of_resource = {one.resource: one for one in loaded.endpoints}
    for endpoint in mine.endpoints:
        _adopt(endpoint, of_resource[endpoint.resource])
        object.__setattr__(endpoint, "record", of_resource[endpoint.resource].record)


def _adopt(mine: Any, loaded: Any) -> None:
    for one in fields(mine):
        if one.name not in ("endpoints", "_endpoint_of_role") and _has_later(getattr(mine, one.name)):
            object.__setattr__(mine, one.name, getattr(loaded, one.name))


def _has_later(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_later, value))
    if is_dataclass(value):
        return any(_has_later(getattr(value, one.name)) for one in fields(value))
    return isinstance(value, Later)
