"""Routes, and the routing table that finds a route by path and method (spec 4; decisions 5)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import msgspec

from gateway.http.errors import Refused
from gateway.http.request import Caller, Reply, Request
from upstreams.known_names import KnownNames
from upstreams.model.params import Param

Handler = Callable[[Request, Caller], Awaitable[Reply]]
SOURCE: Final = "source"
"""Reported as the missing credential of a route that has no source that an operator could configure."""
BODY_BYTES_MAX = 1_000_000
_PARTS = re.compile(r"\{[a-z_]+\}|[^{]+")


@dataclass(frozen=True, slots=True)
class RouteDoc:
    """The description of a route that is not a data endpoint, for the catalog, guides, OpenAPI document and pages."""

    name: str
    """The name of the operation, such as `list_monitors`."""
    summary: str
    answer: object = None
    """The type of the response's `data`, a TypedDict; None if the response is not JSON."""
    description: str = ""
    status: int = 200
    platform: str = "account"
    reasons: tuple[str, ...] = ()
    """Errors in addition to the errors that every route returns, as `CODE` or `CODE/reason`."""
    one_of: tuple[tuple[str, ...], ...] = ()
    """Groups of parameters. Exactly one of each group must be sent."""
    once: bool = False
    """Whether the route accepts an `Idempotency-Key`."""
    form: str = "application/json"
    """The media types of the response, separated by spaces."""
    is_unwrapped: bool = False
    """Whether the response's fields are next to the envelope's own fields instead of in `data` (decisions 2)."""
    is_public: bool = False
    """Whether the route works without a key."""
    price: tuple[int, str, str] | None = None
    """The minimum cost, the price in words, and a sentence on how it is counted. None if the route is free."""
    billing_rules: tuple[str, ...] = ()
    """Sentences on free cases, in addition to the rules that apply to every billed call."""
    notes: tuple[str, ...] = ()
    """Further paragraphs of the description, for example on other response formats."""
    gives: Mapping[str, str] = field(default_factory=dict)
    """JSON pointers to the values in the response that the paths of other routes need."""
    sample: Mapping[str, object] = field(default_factory=dict)
    """Fields of the example response that differ from the examples of its type."""
    settles: bool = False
    """Whether the route returns 200 with the same data if the job finishes in time. This also applies to its stream."""
    dry_run: type | None = None
    """The type of the response's `data` if `dry_run` is sent."""
    streams: Mapping[str, type] = field(default_factory=dict)
    """The data types of the route's server-sent events by event name; `message` for unnamed events."""
    sends: tuple[type, ...] = ()
    """The types of the messages that the route's WebSocket sends."""
    takes: tuple[type, ...] = ()
    """The types of the messages that the route's WebSocket accepts."""


@dataclass(frozen=True, slots=True)
class Route:
    """One path, whose segments may be `{name}`, with its handler and its description."""

    path: str
    handle: Handler
    allow: tuple[str, ...] = ("GET", "HEAD")
    is_listed: bool = True
    """False hides the path from suggestions, for a withdrawn endpoint."""
    doc: RouteDoc | None = None
    """None for a data endpoint, which its declaration describes."""
    params: tuple[Param, ...] = ()
    """The query parameters, if `doc` describes the route."""
    body: type[msgspec.Struct] | None = None
    """The type of the request body."""
    takes: str = "application/json"
    """The media type of the request body."""
    body_bytes_max: int = BODY_BYTES_MAX
    lacks: tuple[str, ...] = ()
    """The required credentials that are not configured, if `doc` describes the route."""


class Routes:
    """Every route of the API by its path and method."""

    def __init__(self, routes: Iterable[Route]) -> None:
        """Build the table. Several routes may share a path if their methods differ."""
        self._by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            by_method = self._by_path.setdefault(route.path, {})
            assert by_method.keys().isdisjoint(route.allow), f"two routes of {route.path} have the same method"
            by_method.update(dict.fromkeys(route.allow, route))
        self._plain = {path: by_method for path, by_method in self._by_path.items() if "{" not in path}
        self._named: dict[str, list[str]] = {}
        """The paths that contain names, by their first two segments."""
        for path in (path for path in self._by_path if "{" in path):
            self._named.setdefault(_beginning(path), []).append(path)
        self._listed = KnownNames(one.path for one in self.all() if one.is_listed)

    def find(self, request: Request) -> Route:
        """Return the route of a request, after checking its method and declared body size.

        Raises:
            Refused: 404 with the nearest path, 405 with `Allow`, or 413.
        """
        by_method = self._plain.get(request.path) or self._by_pattern(request)
        route = by_method.get(request.method)
        if route is None:
            raise wrong_method(request, by_method)
        length = request.headers.get(b"content-length")
        if length is not None and route.is_listed:  # A withdrawn endpoint returns its own error, whatever the body.
            _check_body_size(length, route.body_bytes_max)
        return route

    def all(self) -> list[Route]:
        """Return every route once, in the order of the declarations."""
        return list({id(route): route for methods in self._by_path.values() for route in methods.values()}.values())

    def label(self, path: str) -> str:
        """Return the metric label of a path. Unknown paths share one label, so that callers cannot create labels."""
        if path in self._plain:
            return path
        return next((one for one in self._named.get(_beginning(path), ()) if _pattern(one).fullmatch(path)), "other")

    def _by_pattern(self, request: Request) -> dict[str, Route]:
        for path in self._named.get(_beginning(request.path), ()):
            if found := _pattern(path).fullmatch(request.path):
                request.named = found.groupdict()
                return self._by_path[path]
        raise self._unknown(request.path)

    def _unknown(self, path: str) -> Refused:
        near = self._listed.nearest(path)
        message = f"Unknown endpoint {path[:200]}; /v1/utility/endpoints lists all endpoints."
        return Refused("ENDPOINT_NOT_FOUND", message, details={"did_you_mean": near} if near else None)


def _beginning(path: str) -> str:
    """Return the first two segments, such as `/v1/monitors`. No path of a route has a name in them."""
    return "/".join(path.split("/", 3)[:3])


@cache
def _pattern(path: str) -> re.Pattern[str]:
    """Compile a path with names. A name may contain any character except NUL, which PostgreSQL cannot store."""
    return re.compile(
        "".join(rf"(?P<{one[1:-1]}>[^/\0]+)" if one[0] == "{" else re.escape(one) for one in _PARTS.findall(path))
    )


def wrong_method(request: Request, taken: Iterable[str]) -> Refused:
    """Return 405 with the methods that the path supports."""
    allow = ", ".join(taken)
    message = f"{request.path[:200]} supports {allow}, not {request.method[:40]}."
    return Refused("METHOD_NOT_ALLOWED", message, headers=((b"allow",), (allow.encode(),)))


def body_too_large(bytes_max: int) -> Refused:
    """Return 413 for a body that was too large to read."""
    return Refused("PAYLOAD_TOO_LARGE", f"The body is over {bytes_max} bytes; it was not read.")


def _check_body_size(length: bytes, bytes_max: int) -> None:
    if length.isdigit() and int(length) > bytes_max:
        raise body_too_large(bytes_max)
