"""Redirects of a source, followed within one call: on the same host, or to any host through a guard."""

from __future__ import annotations

from urllib.parse import urljoin

import httpx

from upstreams.model.errors import TargetRefused, UpstreamFailed
from upstreams.model.paths import has_dots
from upstreams.transport.http import Exchange, HttpAnswer, HttpCall, origin_of

_REDIRECTS_MAX = 3
FOLLOWED = frozenset((301, 302, 307, 308))


async def follow(
    answer: HttpAnswer,
    exchange: Exchange,
    call: HttpCall,
    deadline_at: float,
    *,
    source: str,
    allows_any_host: bool = False,
) -> HttpAnswer:
    """Follow redirects, starting with `answer`, the answer to `call`, and return the last answer.

    Only redirects of GET requests are followed.

    With `allows_any_host`, redirects may lead to another host. The exchange must then be a guard, and the call must not
    contain secrets.

    Raises:
        UpstreamFailed: A redirect leads to another host or an invalid URL, or there are too many. The error names
            `source`.
        httpx.RequestError: Raised by the exchange.
    """
    for hop in range(_REDIRECTS_MAX + 1):
        if hop:
            try:
                answer = await exchange(call, deadline_at)
            except TargetRefused as exc:
                raise UpstreamFailed(source, "redirects to an address that is not public") from exc
        if answer.status not in FOLLOWED or "location" not in answer.headers or call.method != "GET":
            return answer
        call = _redirected(call, answer.headers["location"], source, allows_any_host=allows_any_host)
    raise UpstreamFailed(source, "too many redirects")


def _redirected(request: HttpCall, location: str, source: str, *, allows_any_host: bool) -> HttpCall:
    """Return the call that a redirect leads to. The location may be relative to the current URL (RFC 9110, 10.2.2)."""
    try:
        here = f"{request.origin.scheme}://{request.origin.authority}{request.target}"
        origin, target = origin_of(urljoin(here, location))
    except (httpx.TransportError, httpx.InvalidURL, ValueError) as exc:
        raise UpstreamFailed(source, "redirects to an address that cannot be called") from exc
    if origin != request.origin and not allows_any_host:
        raise UpstreamFailed(source, f"redirects to another host, {origin.authority}")
    if has_dots(target.partition("?")[0]):
        raise UpstreamFailed(source, "redirects to a path that servers interpret differently")
    return request._replace(origin=origin, target=target)
