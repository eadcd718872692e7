"""One exchange with a host, and the redirects that it leads through, as long as they stay on that host."""

from __future__ import annotations

from urllib.parse import urljoin

import httpx

from upstreams.model.errors import UpstreamFailed
from upstreams.model.paths import has_dots
from upstreams.transport.http import Exchange, HttpAnswer, HttpCall, origin_of

_REDIRECTS_MAX = 3
FOLLOWED = frozenset((301, 302, 307, 308))


async def follow(
    answer: HttpAnswer, exchange: Exchange, call: HttpCall, deadline_at: float, *, source: str
) -> HttpAnswer:
    """The answer at the end of the redirects that begin with `answer`, what came to `call`; only a GET is sent on.

    Raises:
        UpstreamFailed: they lead to another host, to nowhere, or too far; `source` is the name that it tells.
        httpx.RequestError: what the exchange raises.
    """
    for hop in range(_REDIRECTS_MAX + 1):
        if hop:
            answer = await exchange(call, deadline_at)
        if answer.status not in FOLLOWED or "location" not in answer.headers or call.method != "GET":
            return answer
        call = call._replace(target=_target_of(answer.headers["location"], call, source))
    raise UpstreamFailed(source, "redirects in a circle")


def _target_of(location: str, asked: HttpCall, source: str) -> str:
    """Return the path that a redirect leads to, which may be relative to the path that answered (RFC 9110, 10.2.2)."""
    try:
        here = f"{asked.origin.scheme}://{asked.origin.authority}{asked.target}"
        origin, target = origin_of(urljoin(here, location))
    except (httpx.TransportError, httpx.InvalidURL, ValueError) as exc:
        raise UpstreamFailed(source, "redirects to an address that cannot be called") from exc
    if origin != asked.origin:
        raise UpstreamFailed(source, f"redirects to another host, {origin.authority}")
    if has_dots(target.partition("?")[0]):
        raise UpstreamFailed(source, "redirects to a path that servers read differently")
    return target
