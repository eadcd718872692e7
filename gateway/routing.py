"""What a route is, and the table that finds one by its path (spec 4; decisions 5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from gateway.errors import Refused
from gateway.request import Caller, Reply, Request

Handler = Callable[[Request, Caller], Awaitable[Reply]]
BODY_BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Route:
    """One path: what answers it and how it is named in the metrics."""

    path: str
    handle: Handler
    allow: tuple[str, ...] = ("GET", "HEAD")
    is_listed: bool = True
    """False hides the path from suggestions: its endpoint was withdrawn."""


class Routes:
    """Every route of the API by its path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_path = {route.path: route for route in routes}

    def find(self, request: Request) -> Route:
        """The route of a request whose method and declared body size it takes.

        Raises:
            Refused: 404 with the nearest path, 405 with `Allow`, 413.
        """
        route = self._by_path.get(request.path)
        if route is None:
            raise self._unknown(request.path)
        if request.method not in route.allow:
            allow = ", ".join(route.allow)
            raise Refused(
                "METHOD_NOT_ALLOWED",
                f"{request.path} takes {allow}, not {request.method}.",
                headers=((b"allow", allow.encode()),),
            )
        length = request.headers.get(b"content-length")
        if length is not None and route.is_listed:  # one that was withdrawn says so whatever is sent to it
            _check_body_size(length)
        return route

    def label(self, path: str) -> str:
        """How a path is named in the metrics: the unknown ones share one name, so that nobody can invent labels."""
        return path if path in self._by_path else "other"

    def _unknown(self, path: str) -> Refused:
        listed = [route.path for route in self._by_path.values() if route.is_listed]
        near = get_close_matches(path[:200], listed, n=1, cutoff=0.6)
        message = f"There is no endpoint {path[:200]}; /v1/utility/endpoints lists all."
        return Refused("ENDPOINT_NOT_FOUND", message, details={"did_you_mean": near[0]} if near else None)


def _check_body_size(length: bytes) -> None:
    if length.isdigit() and int(length) > BODY_BYTES_MAX:
        raise Refused("PAYLOAD_TOO_LARGE", f"The body is over {BODY_BYTES_MAX} bytes; it was not read.")
