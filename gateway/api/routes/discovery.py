"""Discovery: the catalog and the guide of one endpoint, generated from the live registry (spec 2.3, 2.4, 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from gateway.api.responses import Replies
from gateway.calls.pricing import price_of
from gateway.docs.guide import Guides
from gateway.http.conditional import tagged
from gateway.http.envelope import fragment
from gateway.http.errors import InvalidParam, Refused
from gateway.http.params import read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from upstreams.catalog import Catalog, Listing
from upstreams.model.params import Param

_METHODS = ("GET", "POST", "PATCH", "DELETE")
_METHOD = Param("method", "Keeps only endpoints of this method.", "GET", choices=_METHODS)
_CATALOG = (
    Param("platform", "A platform's slug.", "github"),
    Param("search", "Part of a path or summary.", "profile"),
    _METHOD,
)
_GUIDE = (
    Param("id", "`platform/resource`.", "github/profile"),
    Param("url", "The path, or the whole address.", "/v1/github/profile", type="url"),
    _METHOD,
)


class Discovery:
    """Answers `/v1/utility/endpoints` and `/v1/utility/endpoint`; both are free."""

    def __init__(self, catalog: Catalog, *, guides: Guides, replies: Replies) -> None:
        self._catalog = catalog
        self._guides = guides
        self._replies = replies

    @property
    def routes(self) -> tuple[Route, ...]:
        """The two routes."""
        return (Route("/v1/utility/endpoints", self.endpoints), Route("/v1/utility/endpoint", self.endpoint))

    async def endpoints(self, request: Request, caller: Caller) -> Reply:
        """The catalog (spec 2.3)."""
        filters = read_free(request.query, _CATALOG)
        chosen = [listing for listing in self._catalog.available() if _matches(listing, filters)]
        data = {
            "kind": "endpoint_catalog",
            "stats": self._stats(),
            "filters": {name: filters.get(name) for name in ("platform", "search", "method")},
            "total": len(chosen),
            "endpoints": [entry_of(listing) for listing in chosen],
        }
        return await self._tagged(request, caller, fragment("utility", request.path, data))

    async def endpoint(self, request: Request, caller: Caller) -> Reply:
        """The guide of one endpoint (spec 2.4)."""
        listing = self._chosen(read_free(request.query, _GUIDE))
        return await self._tagged(request, caller, fragment("utility", request.path, self._guides.of(listing)))

    async def _tagged(self, request: Request, caller: Caller, stored: bytes) -> Reply:
        """The answer with a tag of what does not depend on who asks."""
        reply = await self._replies.free(request, caller, stored)
        return tagged(request, reply, stored, caching=b"private, no-cache")

    def _stats(self) -> dict[str, int]:
        available = self._catalog.available()
        platforms = {listing.site.platform.slug: listing.site.platform for listing in available}
        social = sum(1 for platform in platforms.values() if platform.social)
        return {"platforms": len(platforms), "endpoints": len(available), "social_platforms": social}

    def _chosen(self, values: Mapping[str, Any]) -> Listing:
        if ("id" in values) == ("url" in values):
            raise InvalidParam("id", "or url must be sent, exactly one of them")
        path = f"/v1/{values['id'].strip('/')}" if "id" in values else urlsplit(values["url"]).path
        listing = self._catalog.at(path)
        if listing is None or not listing.available or values.get("method", "GET") != "GET":
            near = self._catalog.nearest(path)
            shown = near.removeprefix("/v1/") if near and "id" in values else near
            raise Refused(
                "ENDPOINT_NOT_FOUND",
                f"There is no endpoint {path}; /v1/utility/endpoints lists all.",
                details={"did_you_mean": shown} if shown else None,
            )
        return listing


def entry_of(listing: Listing) -> dict[str, Any]:
    """One entry of the catalog."""
    endpoint, platform = listing.endpoint, listing.site.platform
    price = price_of(endpoint)
    grouped = {name for group in endpoint.one_of for name in group}
    names = [param.name for param in endpoint.params if not param.required and param.name not in grouped]
    return {
        "id": listing.id,
        "path": listing.path,
        "method": "GET",
        "platform": platform.slug,
        "resource": endpoint.resource,
        "summary": endpoint.summary,
        "credits": price.credits,
        "credits_label": price.label,
        "archetype": endpoint.archetype.name,
        "required_params": [param.name for param in endpoint.params if param.required],
        "one_of": [list(group) for group in endpoint.one_of],
        "optional_params": [*names, *(["cursor"] if endpoint.archetype.many else [])],
        "paginated": endpoint.archetype.many,
        "how_to_use": f"/v1/utility/endpoint?id={listing.id}",
        "docs_url": platform.docs_url,
    }


def _matches(listing: Listing, filters: Mapping[str, Any]) -> bool:
    search = str(filters.get("search", "")).lower()
    return (
        filters.get("platform", listing.site.platform.slug) == listing.site.platform.slug
        and filters.get("method", "GET") == "GET"
        and (search in listing.path.lower() or search in listing.endpoint.summary.lower())
    )
