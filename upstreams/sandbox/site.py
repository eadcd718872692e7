"""Defines a platform's stand-in: routes from host and path to a pure function that invents the answer.

A stand-in is made by a tool (see `made`); where two sources must tell the same it is written by hand, as a module of
this package named like its platform, with `ROUTES`. All of them share these conventions, so that failures can be tried
by hand: a subject (handle, id, repository, query) that contains `missing` does not exist, `throttled` is answered as
the platform throttles, and `broken` is answered with a 500.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, unquote

import orjson


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """One request to a stand-in: `path` as it was sent, `found` the named groups of the route's pattern, decoded."""

    host: str
    path: str
    query: Mapping[str, str]
    found: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    """The body of a POST, parsed."""
    method: str = "GET"
    steps: int = 0
    """How often what people count has grown since the sandbox began."""

    @property
    def values(self) -> dict[str, str]:
        """Everything that the request names, by its member: the body's as `a.b`, the path's groups, host and path."""
        return {"host": self.host, "path": self.path, **self.query, **dict(_leaves(self.json)), **self.found}

    def number(self, name: str, default: int) -> int:
        """An integer of the query, or `default` when it is absent or no integer."""
        value = self.query.get(name, "")
        return int(value) if value.isdecimal() else default


def request_of(method: str, host: str, target: str, body: bytes = b"", *, steps: int = 0) -> SandboxRequest:
    """A request as it was sent; its body is JSON or a form."""
    path, _, query = target.partition("?")
    try:
        sent = orjson.loads(body) if body else None
    except orjson.JSONDecodeError:
        sent = query_of(body.decode("latin-1"))
    return SandboxRequest(host, path, query_of(query), json=sent, method=method, steps=steps)


@dataclass(frozen=True, slots=True)
class SandboxReply:
    """The answer of a stand-in: `body` goes out as JSON, a string as it is."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    has_grown: bool = False
    """Whether its counts have grown with time already."""


@dataclass(frozen=True, slots=True)
class SandboxRoute:
    """Answers `host` where `pattern` matches the whole path."""

    host: str
    """A host, or a pattern of hosts in which `{name}` stands for any text."""
    pattern: re.Pattern[str]
    answer: Callable[[SandboxRequest], SandboxReply]
    takes: Callable[[SandboxRequest], bool]
    letters: int
    """Letters of host and path that must be there: of several routes the one with the most is taken."""
    conditions: int = 0
    """Values of the request that must be there: of routes alike in letters the one with the most is taken."""


def _always(_request: SandboxRequest) -> bool:
    return True


def route(
    host: str,
    pattern: str,
    answer: Callable[[SandboxRequest], SandboxReply],
    takes: Callable[[SandboxRequest], bool] = _always,
) -> SandboxRoute:
    """A route from a pattern in which `{name}` stands for one path segment, and `{name*}` for the rest of a path.

    `takes` says whether a request to such a path is meant.
    """
    return SandboxRoute(host, expression(pattern), answer, takes, len(_GROUP.sub("", host + pattern)))


Routes = Mapping[str, tuple[SandboxRoute, ...]]
_GROUP = re.compile(r"\{(\w+)(\*?)\}")


def expression(pattern: str) -> re.Pattern[str]:
    """A pattern as `route` takes it, as a regular expression."""
    pieces = _GROUP.split(pattern)
    pieces[::3] = map(re.escape, pieces[::3])
    groups = (f"(?P<{name}>{'.+' if rest else '[^/]+'})" for name, rest in zip(pieces[1::3], pieces[2::3], strict=True))
    return re.compile("".join(part for pair in zip(pieces[::3], (*groups, ""), strict=True) for part in pair))


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The texts and numbers of a JSON value by their paths."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and name:
        yield name, ",".join(map(str, value))
    elif name and value is not None:
        yield name, str(value)


def query_of(text: str) -> dict[str, str]:
    """The members of a query string; of one that is repeated the values, with commas between them."""
    query: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        query[name] = f"{query[name]},{value}" if name in query else value
    return query


def by_host(routes: Iterable[SandboxRoute]) -> Routes:
    """The routes by host, those of each in the order in which they are tried."""
    found: dict[str, list[SandboxRoute]] = {}
    for one in sorted(routes, key=lambda one: (-one.letters, -one.conditions)):
        found.setdefault(one.host, []).append(one)
    return {host: tuple(of_host) for host, of_host in found.items()}


def answer(routes: Routes, request: SandboxRequest) -> SandboxReply:
    """The reply of the first route that matches; 404 when there is none."""
    for candidate, of_host in _candidates(routes, request.host):
        if (match := candidate.pattern.fullmatch(request.path)) is not None:
            found = {name: unquote(value) for name, value in match.groupdict(default="").items()}
            asked = replace(request, found=of_host | found)
            if candidate.takes(asked):
                return candidate.answer(asked)
    return SandboxReply({"message": f"The sandbox has no {request.host}{request.path}"}, status=404)


def _candidates(routes: Routes, host: str) -> Iterator[tuple[SandboxRoute, dict[str, str]]]:
    """The routes of a host, and behind them those of hosts in general, with the parts of the host that they name."""
    yield from ((one, {}) for one in routes.get(host, ()))
    for pattern in sorted((one for one in routes if "{" in one), key=lambda one: -len(one.partition("}")[2])):
        if (match := expression(pattern).fullmatch(host)) is not None:
            yield from ((one, match.groupdict()) for one in routes[pattern])
