"""Endpoints that combine platforms (decisions 18). They are built from the roles and URL forms that platforms declare.

There is one package for each slug. Its function `over` returns the `Platform` that has the package's endpoints.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

from upstreams.platforms import load_platform, load_platforms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from upstreams.model.endpoint import Platform

_WEB: Final = "web"


def composite_slugs() -> tuple[str, ...]:
    """Return the slugs of all composites and of the web, without importing their modules."""
    return (_WEB, *sorted(module.name for module in iter_modules(__path__) if module.ispkg))


def with_composites(platforms: Iterable[Platform]) -> tuple[Platform, ...]:
    """Return these platforms with their derived endpoints, and after them the web and the composites.

    The web is created for each call instead of on import, because it has caches for the pages that it reads.
    """
    known = (*map(_with_derived, platforms), load_one(_WEB, ()))
    return (*known, *(load_one(slug, known) for slug in composite_slugs() if slug != _WEB))


def load_one(slug: str, before: tuple[Platform, ...]) -> Platform:
    """Import one platform, the web or a composite. A composite is built over the platforms `before` it.

    A composite is never built over another composite, although `before` may contain some.
    """
    composites = composite_slugs()
    if slug == _WEB:
        made: Platform = import_module(f"upstreams.{_WEB}").make_web()
    elif slug in composites:
        known = tuple(one for one in before if one.slug == _WEB or one.slug not in composites)
        made = import_module(f"{__name__}.{slug}").over(known)
    else:
        made = _with_derived(load_platform(slug))
    return made


def _with_derived(platform: Platform) -> Platform:
    """Return the platform with the endpoints that can be derived from those it declares."""
    from upstreams.composites.derived import derived_of  # noqa: PLC0415 - imported when the platforms are loaded

    derived = derived_of(platform)
    return replace(platform, endpoints=(*platform.endpoints, *derived)) if derived else platform


def load_all() -> tuple[Platform, ...]:
    """Return everything that a node serves: every platform, then the web, then the composites."""
    return with_composites(load_platforms())
