"""One module or package a platform, each with a `PLATFORM`; putting it here is all it takes to add one."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from upstreams.model.endpoint import Platform


def load_platforms() -> tuple[Platform, ...]:
    """Every platform of this package, by slug."""
    names = sorted(module.name for module in iter_modules(__path__))
    return tuple(import_module(f"{__name__}.{name}").PLATFORM for name in names)
