"""Loads the code of a platform at its first use, for platforms that are read from the index (`upstreams.index`).

Such a platform has all its data from the start, but a `Later` in place of each function. The first call of any of them
imports the platform's package and replaces the placeholders by the functions, in the same objects. So later requests
run exactly the code that they would run without an index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PackageLoading(Generic[T]):
    """Loads the package of one platform, a `Platform`, once. A call may come from any thread."""

    def __init__(self, load: Callable[[], T]) -> None:
        self._load = load
        self._lock = RLock()
        self._loaded: T | None = None
        self._waiting: list[Callable[[T], None]] = []

    @property
    def is_loaded(self) -> bool:
        """Whether the package has been imported."""
        return self._loaded is not None

    def platform(self) -> T:
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

    def then(self, adopt: Callable[[T], None]) -> None:
        """Call `adopt` with the loaded platform, as soon as it is loaded."""
        with self._lock:
            if self._loaded is None:
                self._waiting.append(adopt)
                return
        adopt(self._loaded)


class Later:
    """A function of a platform that is not loaded yet. Each call runs the function, and the first one loads it."""

    __slots__ = ("_function", "_loading", "_path")

    def __init__(self, loading: PackageLoading[Any], path: str) -> None:
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
            if isinstance(found, Mapping):
                found = found[step]
            else:
                found = found[int(step)] if step.isdecimal() else getattr(found, step)
        return found
