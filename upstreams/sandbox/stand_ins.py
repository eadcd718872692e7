"""Finds every stand-in: the made ones, and the modules of this package that are written by hand."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from upstreams.sandbox.made import made_routes
from upstreams.sandbox.site import Routes, by_host


@cache
def load_routes() -> Routes:
    """The routes of every stand-in, by host."""
    package = import_module(__name__.rpartition(".")[0])
    modules = (import_module(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__))
    written = (route for module in modules for route in getattr(module, "ROUTES", ()))
    return by_host((*written, *made_routes()))
