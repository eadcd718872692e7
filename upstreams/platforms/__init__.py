"""One package for each platform, which defines its `PLATFORM`. To add a platform, add its package here."""

from __future__ import annotations

from importlib import import_module
from os import scandir
from os.path import exists, join
from typing import TYPE_CHECKING

from upstreams.model.checking import declaring

if TYPE_CHECKING:
    from os import DirEntry

    from upstreams.model.endpoint import Platform


def platform_slugs() -> tuple[str, ...]:
    """Return the slug of every platform without importing the modules. The slug is the module's name."""
    # Faster than `pkgutil.iter_modules`, which lists every folder. A folder of a removed package may remain.
    return tuple(sorted(entry.name for folder in __path__ for entry in scandir(folder) if _is_package(entry)))


def _is_package(entry: DirEntry[str]) -> bool:
    return "." not in entry.name and exists(join(entry.path, "__init__.py"))


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
