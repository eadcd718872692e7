"""Discovery: the catalog and the guide of one endpoint, generated from the routing table (spec 2.3, 2.4, 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import trio

from gateway.api.responses import Replies
from gateway.docs.account.node import CATALOG, GUIDE
from gateway.docs.catalog import catalog_of
from gateway.docs.guide import Guides
from gateway.docs.operations import ApiOperation, Reference
from gateway.http.conditional import tagged
from gateway.http.envelope import fragment
from gateway.http.errors import InvalidParam, Refused
from gateway.http.params import read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from upstreams.model.params import Param

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_METHOD = Param("method", "Keeps only endpoints of this method.", "GET", choices=_METHODS)
_CATALOG = (
    Param("platform", "A platform's slug, or account or utility.", "github"),
    Param("search", "Part of a path or summary.", "profile"),
    _METHOD,
)
_GUIDE = (
    Param("id", "The path without `/v1/`, such as `platform/resource`.", "github/profile"),
    Param("url", "The path, or the whole address.", "/v1/github/profile", type="url"),
    _METHOD,
)


class Discovery:
    """Answers `/v1/utility/endpoints` and `/v1/utility/endpoint`; both are free."""

    def __init__(self, reference: Reference, *, guides: Guides, replies: Replies) -> None:
        self._reference = reference
        self._guides = guides
        self._aside = trio.CapacityLimiter(1)
        self._replies = replies

    @property
    def routes(self) -> tuple[Route, ...]:
        """The two routes."""
        return (
            Route("/v1/utility/endpoints", self.endpoints, doc=CATALOG, params=_CATALOG),
            Route("/v1/utility/endpoint", self.endpoint, doc=GUIDE, params=_GUIDE),
        )

    async def endpoints(self, request: Request, caller: Caller) -> Reply:
        """The catalog (spec 2.3)."""
        data = catalog_of(self._reference, read_free(request.query, _CATALOG), self._replies.base_url)
        return await self._tagged(request, caller, fragment("utility", request.path, data))

    async def endpoint(self, request: Request, caller: Caller) -> Reply:
        """The guide of one endpoint (spec 2.4)."""
        operation = self._chosen(read_free(request.query, _GUIDE))
        # The example of a composite over many platforms is a tenth of a second's work.
        guide = await trio.to_thread.run_sync(self._guides.of, operation, limiter=self._aside)
        return await self._tagged(request, caller, fragment("utility", request.path, guide))

    async def _tagged(self, request: Request, caller: Caller, stored: bytes) -> Reply:
        """The answer with a tag of what does not depend on who asks."""
        stored = self._replies.relinked(request, stored)
        reply = await self._replies.free(request, caller, stored)
        return tagged(request, reply, stored, caching=b"private, no-cache")

    def _chosen(self, values: Mapping[str, Any]) -> ApiOperation:
        if ("id" in values) == ("url" in values):
            raise InvalidParam("id", "or url must be sent, exactly one of them")
        path = f"/v1/{_id(values['id'])}" if "id" in values else unquote(urlsplit(values["url"]).path)
        method = values.get("method")
        operation = self._reference.find(path, method)
        if operation is None:
            near, other = self._reference.nearest(path), self._reference.find(path, None)
            shown = near.removeprefix("/v1/") if near and "id" in values else near
            what = f"endpoint {path[:200]}" if other is None else f"{method} {path[:200]}, but a {other.method}"
            raise Refused(
                "ENDPOINT_NOT_FOUND",
                f"There is no {what}; /v1/utility/endpoints lists all.",
                details={"did_you_mean": shown} if shown else None,
            )
        return operation


def _id(sent: str) -> str:
    """An id as the catalog has it; routes of the account may be named as its resources."""
    return sent.strip("/").removeprefix("account/")
