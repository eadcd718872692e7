"""Endpoints that combine platforms (decisions 18), declared over the roles and the addresses of those that are there.

A package a slug, each with `over`, which makes the `Platform` that its endpoints stand in.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

from upstreams.platforms import load_platforms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from upstreams.model.endpoint import Platform

_WEB: Final = "web"


def composite_slugs() -> tuple[str, ...]:
    """The slugs of all composites and of the web, without loading any."""
    return (_WEB, *sorted(module.name for module in iter_modules(__path__) if module.ispkg))


def with_composites(platforms: Iterable[Platform]) -> tuple[Platform, ...]:
    """Return these platforms with all that follows from their own endpoints, and behind them what stands on them.

    That is the web, which remembers what it reads, and the composites.
    """
    known = (*map(_with_derived, platforms), import_module(f"upstreams.{_WEB}").make_web())
    slugs = (slug for slug in composite_slugs() if slug != _WEB)
    return (*known, *(import_module(f"{__name__}.{slug}").over(known) for slug in slugs))


def _with_derived(platform: Platform) -> Platform:
    """The platform with all that follows from its own endpoints."""
    from upstreams.composites.derived import derived_of  # noqa: PLC0415 - loaded with the platforms

    derived = derived_of(platform)
    return replace(platform, endpoints=(*platform.endpoints, *derived)) if derived else platform


def load_all() -> tuple[Platform, ...]:
    """Everything that a node serves: every platform, by slug, the web, and the composites."""
    return with_composites(load_platforms())
