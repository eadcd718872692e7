"""The guide of one endpoint: parameters, price, cache, paging, a request to copy and a true example (spec 2.4)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from billing.prices import credits_for
from gateway.calls.pricing import price_of
from gateway.calls.shaping import shape, share_out
from gateway.http.params import CURSOR, DRY_RUN, MAX_CREDITS
from upstreams.catalog import Catalog, Listing
from upstreams.fetching.fetch import plan, sources_of
from upstreams.model.cursors import CursorSigner
from upstreams.model.endpoint import Endpoint
from upstreams.model.params import Args, Param
from upstreams.sandbox.rehearse import example_values, rehearse

_BILLING_RULES = (
    "Cache hits cost 0 credits.",
    "Failed calls and empty results are refunded automatically.",
    "Errors in the request are found before anything is charged.",
)
_EXAMPLE_NOW_AT = 1_767_225_600.0
_RELATED_MAX = 5


class Guides:
    """Makes guides; the example is what the endpoint's own reader makes of the sandbox's answer."""

    def __init__(self, catalog: Catalog, *, base_url: str, signer: CursorSigner) -> None:
        self._catalog = catalog
        self._base_url = base_url
        self._signer = signer

    def of(self, listing: Listing) -> dict[str, Any]:
        """The guide of one endpoint."""
        endpoint, platform = listing.endpoint, listing.site.platform
        request_url = f"{self._base_url}{listing.path}?{urlencode(_example_params(listing))}".rstrip("?")
        return {
            "kind": "endpoint_guide",
            "id": listing.id,
            "path": listing.path,
            "method": "GET",
            "platform": platform.slug,
            "resource": endpoint.resource,
            "summary": endpoint.summary,
            "description": _description(listing),
            "credits": _credits(listing),
            "params": _params(listing),
            "pagination": _pagination(listing),
            "cache": {
                "ttl_seconds": endpoint.cache_ttl_s,
                "note": "Hits cost nothing; Cache-Control: no-cache asks for a billed refresh.",
            },
            "response": {
                "archetype": endpoint.archetype.name,
                "schema_url": f"{self._base_url}/schemas/{endpoint.archetype.name}.json",
                "example": self._example(listing),
                "example_source": "sandbox",
            },
            "request": {"url": request_url, "curl": f"curl -H 'x-api-key: YOUR_KEY' '{request_url}'"},
            "links": {
                "docs": f"{self._base_url}/docs/errors",
                "platform_docs": platform.docs_url,
                "llms": f"{self._base_url}/llms.txt",
                "catalog": f"{self._base_url}/v1/utility/endpoints",
            },
            "related": self._related(listing),
        }

    def _example(self, listing: Listing) -> dict[str, Any]:
        result = rehearse(listing.site.platform, listing.endpoint, _EXAMPLE_NOW_AT)
        shaped = shape(listing.endpoint.archetype, result, lambda state: self._signer.seal(b"example", state))
        share_out(shaped.data.get("legs", ()), credits_for(listing.endpoint.tier))
        if shaped.pagination is None:
            return {"data": shaped.data}
        items = shaped.data["items"]
        return {"data": {**shaped.data, "items": items[:1]}, "pagination": shaped.pagination}

    def _related(self, listing: Listing) -> list[dict[str, str]]:
        same = [other for other in self._catalog.available() if other.site is listing.site and other.id != listing.id]
        same.sort(key=lambda other: other.endpoint.archetype.key != listing.endpoint.archetype.key)
        return [
            {
                "id": other.id,
                "path": other.path,
                "summary": other.endpoint.summary,
                "how_to_use": f"/v1/utility/endpoint?id={other.id}",
            }
            for other in same[:_RELATED_MAX]
        ]


def _example_params(listing: Listing) -> dict[str, str]:
    first_of_groups = {group[0] for group in listing.endpoint.one_of}
    return {p.name: p.example for p in listing.endpoint.params if p.required or p.name in first_of_groups}


def _description(listing: Listing) -> str:
    """Return the endpoint's own description, and the order of its sources if it has several."""
    endpoint, site = listing.endpoint, listing.site
    told = endpoint.description or endpoint.summary
    if not endpoint.fallbacks:
        return told
    sources = sources_of(plan(site, endpoint, Args(example_values(endpoint), None, site.credentials)))
    return f"{told} Its sources, of which each is asked when those before it fail: {', '.join(sources)}."


def _credits(listing: Listing) -> dict[str, Any]:
    price = price_of(listing.endpoint)
    return {
        "cost": price.credits,
        "label": price.label,
        "tier": listing.endpoint.tier,
        "pricing_notes": price.note,
        "billing_rules": list(_BILLING_RULES),
    }


def _params(listing: Listing) -> dict[str, Any]:
    endpoint = listing.endpoint
    grouped = {name for group in endpoint.one_of for name in group}
    paging = (CURSOR,) if endpoint.archetype.many else ()
    optional = [p for p in endpoint.params if not p.required and p.name not in grouped]
    by_name = {p.name: p for p in endpoint.params}
    return {
        "required": [_param(p) for p in endpoint.params if p.required],
        "one_of": [
            {"options": [_param(by_name[name]) for name in group], "rule": "exactly one"} for group in endpoint.one_of
        ],
        "optional": [_param(p) for p in (*optional, *paging, MAX_CREDITS, DRY_RUN)],
    }


def _param(param: Param) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": param.name,
        "type": param.type,
        "description": param.description,
        "example": param.example,
        "requires": None,
    }
    extra = {"default": param.default, "minimum": param.minimum, "maximum": param.maximum}
    shown.update({name: value for name, value in extra.items() if value is not None})
    if param.choices:
        shown["choices"] = list(param.choices)
    return shown


def _pagination(listing: Listing) -> dict[str, Any] | None:
    if not listing.endpoint.archetype.many:
        return None
    return {
        "style": "cursor",
        "param": "cursor",
        "limit": _limit(listing.endpoint),
        "limit_max": next((param.maximum for param in listing.endpoint.params if param.name == "limit"), None),
        "note": "Send pagination.next_cursor back unchanged until has_more is false; no limit above limit_max counts.",
    }


def _limit(endpoint: Endpoint) -> str | None:
    """Return how this endpoint reads `limit`; None for one that has no such parameter (spec 4.3, rule 7)."""
    if endpoint.collect is not None:
        return "collect-until-N"
    return "page size" if any(param.name == "limit" for param in endpoint.params) else None
