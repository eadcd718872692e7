"""One module or package a platform, each with a `PLATFORM`; putting it here is all it takes to add one."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upstreams.model.endpoint import Platform


def platform_slugs() -> tuple[str, ...]:
    """The slug of every platform, which is its module's name, without loading any."""
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def load_platforms() -> tuple[Platform, ...]:
    """Every platform of this package, by slug."""
    return tuple(map(load_platform, platform_slugs()))


def load_platform(slug: str) -> Platform:
    """The platform of a slug."""
    platform: Platform = import_module(f"{__name__}.{slug}").PLATFORM
    return platform
