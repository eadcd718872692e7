"""The catalog and the guide of one endpoint, generated from the routing table (spec 2.3, 2.4, 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import trio

from gateway.api.responses import Replies
from gateway.docs.account.node import CATALOG, GUIDE
from gateway.docs.node_docs import NodeDocs
from gateway.http.conditional import TaggedText, tagged, with_tag
from gateway.http.envelope import fragment
from gateway.http.errors import InvalidParam, Refused
from gateway.http.params import read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from upstreams.model.params import Param

if TYPE_CHECKING:
    from gateway.docs.catalog import EncodedCatalog
    from gateway.docs.operations import ApiOperation, Reference

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_METHOD = Param("method", "Only endpoints of this method.", "GET", choices=_METHODS)
_CATALOG = (
    Param("platform", "A platform's slug, or account or utility.", "github"),
    Param("search", "Part of a path or summary.", "profile"),
    _METHOD,
)
_GUIDE = (
    Param("id", "The path without `/v1/`, such as `platform/resource`.", "github/profile"),
    Param("url", "The path, or the whole URL.", "/v1/github/profile", type="url"),
    _METHOD,
)


class Discovery:
    """Serves `/v1/utility/endpoints` and `/v1/utility/endpoint`. Both are free."""

    def __init__(self, docs: NodeDocs, replies: Replies) -> None:
        self._docs = docs
        self._aside = trio.CapacityLimiter(1)
        self._replies = replies
        self._catalog: EncodedCatalog | None = None
        self._made: dict[str, TaggedText] = {}
        """The guides built so far, by method and path: at most one per operation."""

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the two routes."""
        return (
            Route("/v1/utility/endpoints", self.endpoints, doc=CATALOG, params=_CATALOG),
            Route("/v1/utility/endpoint", self.endpoint, doc=GUIDE, params=_GUIDE),
        )

    async def endpoints(self, request: Request, caller: Caller) -> Reply:
        """Return the catalog (spec 2.3)."""
        filters = read_free(request.query, _CATALOG)
        catalog = self._catalog
        if catalog is None:
            catalog = await trio.to_thread.run_sync(self._encode, limiter=self._aside)
        made = with_tag(fragment("utility", request.path, catalog.data(filters)))
        return await self._tagged(request, caller, made)

    async def endpoint(self, request: Request, caller: Caller) -> Reply:
        """Return the guide of one endpoint (spec 2.4)."""
        operation = self._chosen((await self._docs.prepared()).reference, read_free(request.query, _GUIDE))
        made = self._made.get(_name_of(operation))
        if made is None:  # In a thread, because the example of a composite over many platforms takes 0.1 s to build.
            made = await trio.to_thread.run_sync(self._guide, operation, limiter=self._aside)
        return await self._tagged(request, caller, made)

    def _encode(self) -> EncodedCatalog:
        """Encode the catalog on its first read. Only one thread at a time runs this function."""
        if self._catalog is None:
            from gateway.docs.catalog import EncodedCatalog  # noqa: PLC0415 - see `NodeDocs`

            self._catalog = EncodedCatalog(self._docs.reference, self._replies.base_url)
        return self._catalog

    def _guide(self, operation: ApiOperation) -> TaggedText:
        """Build the guide of an operation on its first read. Only one thread at a time runs this function."""
        name = _name_of(operation)
        if name not in self._made:
            self._made[name] = with_tag(fragment("utility", "/v1/utility/endpoint", self._docs.guides.of(operation)))
        return self._made[name]

    async def _tagged(self, request: Request, caller: Caller, made: TaggedText) -> Reply:
        """Return the response. Its ETag covers only the part that is the same for all callers."""
        made = self._replies.relinked(request, made)
        reply = await self._replies.free(request, caller, made.text)
        return tagged(request, reply, made.tag, caching=b"private, no-cache")

    @staticmethod
    def _chosen(reference: Reference, values: Mapping[str, Any]) -> ApiOperation:
        if ("id" in values) == ("url" in values):
            raise InvalidParam("id", "or url is required, exactly one of them")
        path = f"/v1/{_id(values['id'])}" if "id" in values else unquote(urlsplit(values["url"]).path)
        method = values.get("method")
        operation = reference.find(path, method)
        if operation is None:
            near, other = reference.nearest(path), reference.find(path, None)
            shown = near.removeprefix("/v1/") if near and "id" in values else near
            problem = (
                f"Unknown endpoint {path[:200]}"
                if other is None
                else f"{path[:200]} supports {other.method}, not {method}"
            )
            raise Refused(
                "ENDPOINT_NOT_FOUND",
                f"{problem}; /v1/utility/endpoints lists all endpoints.",
                details={"did_you_mean": shown} if shown else None,
            )
        return operation


def _name_of(operation: ApiOperation) -> str:
    return f"{operation.method} {operation.path}"


def _id(sent: str) -> str:
    """Return an id in the catalog's form. For the account's routes, clients may send the resource name alone."""
    return sent.strip("/").removeprefix("account/")
