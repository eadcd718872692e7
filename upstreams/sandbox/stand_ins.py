"""Collects all stand-ins: the generated ones, and the handwritten modules of this package."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from upstreams.sandbox.made import made_routes
from upstreams.sandbox.site import Routes, SandboxRoute, by_host


@cache
def load_routes() -> Routes:
    """Return the routes of every stand-in, by host."""
    return by_host((*written_routes(), *made_routes()))


def written_routes() -> tuple[SandboxRoute, ...]:
    """Return the routes of the handwritten stand-ins."""
    package = import_module(__name__.rpartition(".")[0])
    modules = (import_module(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__))
    return tuple(route for module in modules for route in getattr(module, "ROUTES", ()))
