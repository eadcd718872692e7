"""Defines a platform's stand-in: routes from host and path to a pure function that invents the answer.

A stand-in is a module of this package named like its platform, with `ROUTES`. All of them share these conventions, so
that failures can be tried by hand: a subject (handle, id, repository, query) that contains `missing` does not exist,
`throttled` is answered as the platform throttles, and `broken` is answered with a 500.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pkgutil import iter_modules
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """One request to a stand-in: `path` as it was sent, `found` the named groups of the route's pattern, decoded."""

    host: str
    path: str
    query: Mapping[str, str]
    found: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    """The body of a POST, parsed."""

    def number(self, name: str, default: int) -> int:
        """An integer of the query, or `default` when it is absent or no integer."""
        value = self.query.get(name, "")
        return int(value) if value.isdecimal() else default


@dataclass(frozen=True, slots=True)
class SandboxReply:
    """The answer of a stand-in: `body` goes out as JSON, a string as it is."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SandboxRoute:
    """Answers `host` where `pattern` matches the whole path."""

    host: str
    pattern: re.Pattern[str]
    answer: Callable[[SandboxRequest], SandboxReply]


def route(host: str, pattern: str, answer: Callable[[SandboxRequest], SandboxReply]) -> SandboxRoute:
    """A route from a pattern in which `{name}` stands for one path segment."""
    expression = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(pattern))
    return SandboxRoute(host, re.compile(expression), answer)


def load_routes() -> dict[str, tuple[SandboxRoute, ...]]:
    """The routes of every stand-in of this package, by host."""
    package = __name__.rpartition(".")[0]
    modules = (import_module(f"{package}.{module.name}") for module in iter_modules(import_module(package).__path__))
    routes = [route for module in modules for route in getattr(module, "ROUTES", ())]
    return {host: tuple(route for route in routes if route.host == host) for host in {route.host for route in routes}}


def answer(routes: Mapping[str, tuple[SandboxRoute, ...]], request: SandboxRequest) -> SandboxReply:
    """The reply of the first route that matches; 404 when there is none."""
    for candidate in routes.get(request.host, ()):
        if (match := candidate.pattern.fullmatch(request.path)) is not None:
            found = {name: unquote(value) for name, value in match.groupdict(default="").items()}
            return candidate.answer(replace(request, found=found))
    return SandboxReply({"message": f"The sandbox has no {request.host}{request.path}"}, status=404)
