"""Endpoints that combine platforms (decisions 18), declared over the roles and the addresses of those that are there.

A package a slug, each with `over`, which makes the `Platform` that its endpoints stand in.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from upstreams.platforms import load_platforms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from upstreams.model.endpoint import Platform


def composite_slugs() -> tuple[str, ...]:
    """The slugs of all composites, without loading any."""
    return tuple(sorted(module.name for module in iter_modules(__path__) if module.ispkg))


def with_composites(platforms: Iterable[Platform]) -> tuple[Platform, ...]:
    """Return these platforms, and behind them the composites over them."""
    known = tuple(platforms)
    return (*known, *(import_module(f"{__name__}.{slug}").over(known) for slug in composite_slugs()))


def load_all() -> tuple[Platform, ...]:
    """Everything that a node serves: every platform, by slug, and the composites."""
    return with_composites(load_platforms())
