"""Routes, and the table that finds one by its path and method (spec 4; decisions 5)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from gateway.http.errors import Refused
from gateway.http.request import Caller, Reply, Request
from upstreams.known_names import KnownNames
from upstreams.model.params import Param

Handler = Callable[[Request, Caller], Awaitable[Reply]]
BODY_BYTES_MAX = 1_000_000
_PARTS = re.compile(r"\{[a-z_]+\}|[^{]+")


@dataclass(frozen=True, slots=True)
class RouteDoc:
    """Describes a route that is no data endpoint: catalog, guide, OpenAPI document and pages are made of it."""

    name: str
    """The name of the operation, such as `list_monitors`."""
    summary: str
    answer: object = None
    """The type of its `data`, a TypedDict; None: there is no JSON in its answer."""
    description: str = ""
    status: int = 200
    platform: str = "account"
    reasons: tuple[str, ...] = ()
    """Errors beyond those of every route, as `CODE` or `CODE/reason`."""
    one_of: tuple[tuple[str, ...], ...] = ()
    """Groups of parameters of which exactly one must be sent."""
    once: bool = False
    """It takes an `Idempotency-Key`."""
    form: str = "application/json"
    """The media type of its answer; with several, one space between them."""
    beside: bool = False
    """The answer's fields stand beside those of the envelope, not in `data` (decisions 2)."""
    is_public: bool = False
    """It needs no key."""
    price: tuple[int, str, str] | None = None
    """The least that it costs, the price in words, and one sentence on how it is counted; None: it is free."""
    billing_rules: tuple[str, ...] = ()
    """Sentences on what a call does not cost, beyond the rules of every call that costs something."""
    notes: tuple[str, ...] = ()
    """Paragraphs for who reads on, such as of its other forms."""
    gives: Mapping[str, str] = field(default_factory=dict)
    """Values of its answer that paths of other routes name: JSON pointers into its body."""
    sample: Mapping[str, object] = field(default_factory=dict)
    """Members of the example of its answer that are not as those of its type's."""
    settles: bool = False
    """It answers 200, with the same, where what it begins has settled by then; its stream too."""
    dry_run: type | None = None
    """The type of its `data` where `dry_run` is sent."""
    streams: Mapping[str, type] = field(default_factory=dict)
    """The types of the data of its server-sent events, by their names; `message` is that of events without one."""
    sends: tuple[type, ...] = ()
    """The types of the messages that its WebSocket sends."""
    takes: tuple[type, ...] = ()
    """The types of the messages that its WebSocket takes."""


@dataclass(frozen=True, slots=True)
class Route:
    """One path, which may hold `{name}` in place of a segment: what answers it and how it is named in the metrics."""

    path: str
    handle: Handler
    allow: tuple[str, ...] = ("GET", "HEAD")
    is_listed: bool = True
    """False hides the path from suggestions: its endpoint was withdrawn."""
    doc: RouteDoc | None = None
    """None for a data endpoint, which its declaration describes."""
    params: tuple[Param, ...] = ()
    """The query that it reads, where `doc` describes it."""
    body: type[msgspec.Struct] | None = None
    """The fields of the body that it reads."""
    takes: str = "application/json"
    """The media type of that body."""
    body_bytes_max: int = BODY_BYTES_MAX
    lacks: tuple[str, ...] = ()
    """The credentials that it needs and that are not configured, where `doc` describes it."""


class Routes:
    """Every route of the API by its path and method."""

    def __init__(self, routes: Iterable[Route]) -> None:
        """Several routes may share a path when they take other methods."""
        self._by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            by_method = self._by_path.setdefault(route.path, {})
            assert by_method.keys().isdisjoint(route.allow), f"two routes of {route.path} take the same method"
            by_method.update(dict.fromkeys(route.allow, route))
        self._plain = {path: by_method for path, by_method in self._by_path.items() if "{" not in path}
        self._patterns = [(_pattern(path), path) for path in self._by_path if "{" in path]
        self._listed = KnownNames(one.path for one in self.all() if one.is_listed)

    def find(self, request: Request) -> Route:
        """The route of a request whose method and declared body size it takes.

        Raises:
            Refused: 404 with the nearest path, 405 with `Allow`, 413.
        """
        by_method = self._plain.get(request.path) or self._by_pattern(request)
        route = by_method.get(request.method)
        if route is None:
            raise wrong_method(request, by_method)
        length = request.headers.get(b"content-length")
        if length is not None and route.is_listed:  # one that was withdrawn says so whatever is sent to it
            _check_body_size(length, route.body_bytes_max)
        return route

    def all(self) -> list[Route]:
        """Every route once, in the order of the declarations."""
        return list({id(route): route for methods in self._by_path.values() for route in methods.values()}.values())

    def label(self, path: str) -> str:
        """How a path is named in the metrics: the unknown ones share one name, so that nobody can invent labels."""
        if path in self._plain:
            return path
        return next((named for pattern, named in self._patterns if pattern.fullmatch(path)), "other")

    def _by_pattern(self, request: Request) -> dict[str, Route]:
        for pattern, path in self._patterns:
            if found := pattern.fullmatch(request.path):
                request.named = found.groupdict()
                return self._by_path[path]
        raise self._unknown(request.path)

    def _unknown(self, path: str) -> Refused:
        near = self._listed.nearest(path)
        message = f"There is no endpoint {path[:200]}; /v1/utility/endpoints lists all."
        return Refused("ENDPOINT_NOT_FOUND", message, details={"did_you_mean": near} if near else None)


def _pattern(path: str) -> re.Pattern[str]:
    """A name may hold anything but NUL, which PostgreSQL does not."""
    return re.compile(
        "".join(rf"(?P<{one[1:-1]}>[^/\0]+)" if one[0] == "{" else re.escape(one) for one in _PARTS.findall(path))
    )


def wrong_method(request: Request, taken: Iterable[str]) -> Refused:
    """405, with the methods that the path takes."""
    allow = ", ".join(taken)
    message = f"{request.path[:200]} takes {allow}, not {request.method[:40]}."
    return Refused("METHOD_NOT_ALLOWED", message, headers=((b"allow",), (allow.encode(),)))


def body_too_large(bytes_max: int) -> Refused:
    """413, for a body that was read no further."""
    return Refused("PAYLOAD_TOO_LARGE", f"The body is over {bytes_max} bytes; it was not read.")


def _check_body_size(length: bytes, bytes_max: int) -> None:
    if length.isdigit() and int(length) > bytes_max:
        raise body_too_large(bytes_max)
