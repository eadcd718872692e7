"""All network requests of a page in the browser, fetched by this node. The browser itself connects to no host.

Each request is paused before it is sent, checked by the guard, and fetched over a connection to the address that the
guard has checked. Then the browser receives the answer. Therefore, it has no effect if a name later resolves to another
address, and the same rules (targets, egress, lengths) apply to all pages. Requests that Chromium cannot pause, such as
a WebSocket or a service worker's script, go to the proxy of the page's context, where nothing listens.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import orjson
import trio

from limits.errors import LimitError
from upstreams.fetching.answers import failure_of
from upstreams.fetching.aside import LONG_BYTES
from upstreams.guard.addresses import OPEN_WEB, check_url
from upstreams.model.errors import TargetRefused, UpstreamError, UpstreamFailed
from upstreams.transport.http import Exchange, HttpAnswer, HttpCall
from upstreams.web.browser.address import BrowserLost
from upstreams.web.browser.devtools import CommandRefused, DevTools

REQUESTS_MAX: Final = 1_000
"""The maximum number of requests of one visit."""
AT_ONCE: Final = 8
BYTES_MAX: Final = 64 * 1024 * 1024
"""The maximum bytes of all answers to the requests of one visit."""
SENT_BYTES_MAX: Final = 1024 * 1024
FRAME_ORIGINS_MAX: Final = 16
"""The maximum number of other origins in the frames of one visit. The browser runs a process for each."""
FETCH_S: Final = 15.0
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_TRANSPORT_HEADERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "upgrade", "te", "keep-alive",
     "proxy-connection", "proxy-authorization", "expect"}
)  # fmt: skip
"""Request headers that the transport sets."""
_NOT_PASSED: Final = frozenset(
    {"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive", "alt-svc", "set-cookie",
     "link", "nel", "report-to", "reporting-endpoints", "x-dns-prefetch-control", "strict-transport-security"}
)  # fmt: skip
"""Answer headers that describe a connection, or make the browser connect elsewhere."""
_REFUSED: Final = ("Fetch.failRequest", {"errorReason": "BlockedByClient"})
_NEXT_COOKIE = re.compile(r", (?=[^\s;,=]+=)")
"""Splits several cookies in one header line. The comma inside a date is not followed by a name and an equals sign."""

MayVisit = Callable[[str], Awaitable[None]]
"""Returns if the host's robots.txt allows a visit to the page, and raises an `UpstreamError` if it does not."""


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page as its host sent it."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


class Resources:
    """Answers the requests of one page. Its tasks run in `nursery`, which lasts as long as the page."""

    def __init__(
        self, devtools: DevTools, exchange: Exchange, may_visit: MayVisit, nursery: trio.Nursery, *, frame: str
    ) -> None:
        """`frame` is the id of the page's main frame. Only the documents of that frame are visits."""
        self._devtools = devtools
        self._exchange = exchange
        self._may_visit = may_visit
        self._nursery = nursery
        self._frame = frame
        self._turn, self._aside = trio.CapacityLimiter(AT_ONCE), trio.CapacityLimiter(1)
        self._requests = self._bytes = 0
        self._frame_origins: set[str] = set()
        self.given: FetchedPage | None = None
        """A document that was already fetched, to be used for the next visit."""
        self.shown: FetchedPage | None = None
        """The most recent document of the main frame, without its body."""
        self.refusal: UpstreamError | LimitError | None = None
        """The failure of the main frame's latest visit."""
        self.in_flight = 0

    def begin(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run background work for the page. If the page has navigated or the browser is gone, the work is dropped."""

        async def do() -> None:
            with suppress(CommandRefused, BrowserLost):
                await work()

        self._nursery.start_soon(do)

    def answer_nowait(self, session: str, params: Mapping[str, Any]) -> None:
        """Answer a request that the browser has paused."""
        self.in_flight += 1
        self.begin(partial(self._answer, session, params))

    async def _answer(self, session: str, params: Mapping[str, Any]) -> None:
        is_document = params.get("resourceType") == "Document"
        is_visit = is_document and params.get("frameId") == self._frame
        try:
            if is_document and not is_visit and not self._takes_frame(params["request"]["url"]):
                command, parameters = _REFUSED
            else:
                command, parameters = await self._checked_answer(params["request"], is_visit=is_visit)
            await self._devtools.call(command, session, requestId=params["requestId"], **parameters)
        finally:
            self.in_flight -= 1

    async def _checked_answer(self, request: Mapping[str, Any], *, is_visit: bool) -> tuple[str, dict[str, Any]]:
        """Return the command that answers a request, and its parameters."""
        started = trio.current_time()
        try:
            answer = await self._fetched(request, is_visit=is_visit)
            if len(answer.body) <= LONG_BYTES:
                return "Fetch.fulfillRequest", _as_fulfilled(answer)
            return "Fetch.fulfillRequest", await trio.to_thread.run_sync(_as_fulfilled, answer, limiter=self._aside)
        except TargetRefused as exc:  # requested by the page, not by our caller
            refusal: UpstreamError | LimitError = UpstreamFailed("page", str(exc))
        except (UpstreamError, LimitError) as exc:
            refusal = exc
        except httpx.RequestError as exc:
            refusal = failure_of("page", exc, trio.current_time() - started)
        if is_visit:
            self.refusal = refusal
        return _REFUSED

    def _takes_frame(self, url: str) -> bool:
        """Return whether the frames of this visit may also show documents of this origin."""
        origin = "/".join(url.split("/", 3)[:3])
        if len(self._frame_origins) < FRAME_ORIGINS_MAX:
            self._frame_origins.add(origin)
        return origin in self._frame_origins

    async def _fetched(self, request: Mapping[str, Any], *, is_visit: bool) -> HttpAnswer:
        """Fetch the answer to a request of the page.

        Raises:
            TargetRefused: The target is not clearly public, or the page exceeds its limits.
            UpstreamError, LimitError, httpx.RequestError: The page must not be visited, or the fetch failed.
        """
        if is_visit:
            self._requests = self._bytes = 0
            self._frame_origins.clear()
        self._requests += 1
        url = request["url"].partition("#")[0]
        given = self.given if is_visit else None
        if given is not None:
            self.given = None
        if given is not None and urlsplit(given.url)[:2] == urlsplit(url)[:2] and request["method"] == "GET":
            answer = HttpAnswer(given.status, dict(given.headers), given.body)
        else:
            answer = await self._send_request(request, url, is_visit=is_visit)
        self._bytes += len(answer.body)
        if is_visit and not 300 <= answer.status < 400:
            self.shown = FetchedPage(url, answer.status, answer.headers, b"")
        return answer

    async def _send_request(self, request: Mapping[str, Any], url: str, *, is_visit: bool) -> HttpAnswer:
        call = _call_of(request, url)
        if self._requests > REQUESTS_MAX or self._bytes > BYTES_MAX:
            raise TargetRefused("too_long", "the page made too many requests, or received too many bytes")
        if is_visit:
            await self._may_visit(url)
        async with self._turn:
            return await self._exchange(call, trio.current_time() + FETCH_S)


def _call_of(request: Mapping[str, Any], url: str) -> HttpCall:
    """Return the call for a request.

    Raises:
        TargetRefused: The target, method or body of the request is not allowed.
    """
    target = check_url(url, rules=OPEN_WEB)
    method = request["method"]
    if method not in _METHODS:
        raise TargetRefused("malformed", "the request's method is not allowed for pages")
    sent = request.get("headers") or {}
    headers = tuple(
        (name.lower(), str(value)) for name, value in sent.items() if name.lower() not in _TRANSPORT_HEADERS
    )
    body = b"".join(b64decode(part.get("bytes", "")) for part in request.get("postDataEntries") or ())
    if len(body) > SENT_BYTES_MAX or (request.get("hasPostData") and not body):
        raise TargetRefused("too_long", "the request's body is too long")
    return HttpCall(method, target.origin_at(""), target.path, headers, body)


def _as_fulfilled(answer: HttpAnswer) -> dict[str, Any]:
    """Return an answer in the form that the browser accepts."""
    headers = [(name, value) for name, value in answer.headers.items() if name not in _NOT_PASSED]
    headers += [("set-cookie", one) for one in _NEXT_COOKIE.split(answer.headers.get("set-cookie", "")) if one]
    headers.append(("x-dns-prefetch-control", "off"))
    return {
        "responseCode": answer.status if 200 <= answer.status < 600 else 502,
        "responseHeaders": [{"name": name, "value": value} for name, value in headers],
        "body": orjson.Fragment(b'"%b"' % b64encode(answer.body)),  # a fragment, because encoding 10 MB takes 20 ms
    }
