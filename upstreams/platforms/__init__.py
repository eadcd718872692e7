"""One module or package for each platform, which defines its `PLATFORM`. To add a platform, add its module here."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from upstreams.model.checking import declaring

if TYPE_CHECKING:
    from upstreams.model.endpoint import Platform


def platform_slugs() -> tuple[str, ...]:
    """Return the slug of every platform without importing the modules. The slug is the module's name."""
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def load_platforms() -> tuple[Platform, ...]:
    """Return every platform in this package, sorted by slug."""
    return tuple(map(load_platform, platform_slugs()))


def load_platform(slug: str) -> Platform:
    """Return the platform with this slug.

    Raises:
        DeclarationError: The platform's declaration is faulty.
    """
    with declaring(f"platform `{slug}`"):
        platform: Platform = import_module(f"{__name__}.{slug}").PLATFORM
    return platform
