"""The types of the transport's requests and responses, and an adapter for httpx's transports."""

import math
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import httpx
import trio

from upstreams.transport.decoding import ResponseTooLarge, decode_body
from upstreams.transport.origin import DEFAULT_PORTS, Origin

__all__ = ["Exchange", "HttpAnswer", "HttpCall", "Origin", "ResponseTooLarge", "origin_of", "via_httpx"]

ACCEPT_ENCODING = "gzip, deflate, br"
BODY_BYTES_MAX = 8 * 1024 * 1024
"""Maximum bytes of an answer, before and after decoding. A page with a hundred issues of maximum length takes 6.5 MB.
"""
_CLOSE_S = 1.0


class HttpCall(NamedTuple):
    """One request. `target` is path and query, percent-encoded ASCII, starting with `/`.

    The transport sets Host, Content-Length and Transfer-Encoding; `headers` must not contain them.
    """

    method: str
    origin: Origin
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class HttpAnswer(NamedTuple):
    """One response.

    Header names are in lower case, repeated headers are joined with `, `, and `body` is complete and decoded.

    The headers are as received: Content-Encoding and Content-Length describe the body before it was decoded.
    """

    status: int
    headers: dict[str, str]
    body: bytes


Exchange = Callable[[HttpCall, float], Awaitable[HttpAnswer]]
"""Calls an upstream once, with a deadline on Trio's clock.

Raises `httpx.TransportError`, which is a timeout if the deadline passed, or `httpx.DecodingError`.
"""


def origin_of(url: str | httpx.URL) -> tuple[Origin, str]:
    """Split an absolute URL into its origin and its target.

    Raises:
        httpx.UnsupportedProtocol: The URL is neither http nor https, or does not name a host.
        httpx.InvalidURL: The text is not a URL.
    """
    parts = httpx.URL(url)
    host = parts.raw_host.decode("ascii")
    if parts.scheme not in DEFAULT_PORTS or not host:
        raise httpx.UnsupportedProtocol(f"expected an absolute http or https URL, got {str(url)[:200]!r}")
    origin = Origin(parts.scheme, host, parts.port or DEFAULT_PORTS[parts.scheme])
    return origin, parts.raw_path.decode("ascii")


def via_httpx(transport: httpx.AsyncBaseTransport, *, body_bytes_max: int = BODY_BYTES_MAX) -> Exchange:
    """Return an `Exchange` over any httpx transport: MockTransport in tests, httpx's own for HTTP/2 and proxies."""

    async def exchange(call: HttpCall, deadline_at: float = math.inf) -> HttpAnswer:
        with trio.move_on_at(deadline_at):
            return await ask(call)
        raise httpx.ReadTimeout("the response did not arrive in time")

    async def ask(call: HttpCall) -> HttpAnswer:
        request = httpx.Request(
            call.method,
            f"{call.origin.scheme}://{call.origin.authority}{call.target}",
            headers=[("Accept-Encoding", ACCEPT_ENCODING), *call.headers] if _chooses_nothing(call) else call.headers,
            content=call.body or None,
        )
        response = await transport.handle_async_request(request)
        try:
            body = await _read_up_to(response.stream, body_bytes_max)
        finally:
            with trio.CancelScope(deadline=trio.current_time() + _CLOSE_S, shield=True):
                await response.aclose()
        headers = dict(response.headers.items())
        body = decode_body(body, headers.get("content-encoding", ""), body_bytes_max=body_bytes_max)
        return HttpAnswer(response.status_code, headers, body)

    return exchange


def _chooses_nothing(call: HttpCall) -> bool:
    return all(name.lower() != "accept-encoding" for name, _ in call.headers)


async def _read_up_to(stream: object, body_bytes_max: int) -> bytes:
    assert isinstance(stream, httpx.AsyncByteStream)
    body = bytearray()
    async for piece in stream:
        body += piece
        if len(body) > body_bytes_max:
            raise ResponseTooLarge(f"the response is longer than {body_bytes_max} bytes")
    return bytes(body)
