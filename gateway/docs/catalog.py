"""The catalog: one entry for each operation that can be called, and its filters (spec 2.3, 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from gateway.docs.operations import ApiOperation, Reference
from gateway.http.errors import InvalidParam
from gateway.http.params import CURSOR


def catalog_of(reference: Reference, filters: Mapping[str, Any], base_url: str) -> dict[str, Any]:
    """The `data` of the catalog.

    Raises:
        InvalidParam: there is no such platform, but one of nearly this name.
    """
    chosen = [operation for operation in reference.offered if _matches(operation, filters)]
    if not chosen:
        _check_platform(reference, filters.get("platform"))
    return {
        "kind": "endpoint_catalog",
        "stats": stats_of(reference),
        "filters": {name: filters.get(name) for name in ("platform", "search", "method")},
        "total": len(chosen),
        "endpoints": [entry_of(operation, base_url) for operation in chosen],
    }


def stats_of(reference: Reference) -> dict[str, int]:
    """The live numbers of data endpoints."""
    available = reference.catalog.available()
    platforms = {listing.site.platform.slug: listing.site.platform for listing in available}
    social = sum(1 for platform in platforms.values() if platform.social)
    return {"platforms": len(platforms), "endpoints": len(available), "social_platforms": social}


def entry_of(operation: ApiOperation, base_url: str) -> dict[str, Any]:
    """One entry of the catalog."""
    price, listing = operation.price, operation.listing
    grouped = {name for group in operation.one_of for name in group}
    own = listing.endpoint.params if listing else operation.query
    optional = [param.name for param in own if not param.required and param.name not in grouped]
    paging = [param.name for param in operation.query if listing and param.name == CURSOR.name]
    fields = operation.body
    return {
        "id": operation.id,
        "path": operation.path,
        "method": operation.method,
        "platform": operation.platform,
        "resource": operation.resource,
        "summary": operation.summary,
        "credits": price.credits,
        "credits_label": price.label,
        "archetype": operation.archetype,
        "required_params": [
            *(param.name for param in operation.in_path),
            *(param.name for param in own if param.required),
            *(field.name for field in fields if field.required),
        ],
        "one_of": [list(group) for group in operation.one_of],
        "optional_params": [*optional, *paging, *(field.name for field in fields if not field.required)],
        "paginated": operation.paginated,
        "how_to_use": how_to_use(operation),
        "docs_url": listing.site.platform.docs_url if listing else f"{base_url}{operation.page}",
    }


def how_to_use(operation: ApiOperation) -> str:
    """The path of an operation's guide."""
    method = "" if operation.method == "GET" else f"&method={operation.method}"
    return f"/v1/utility/endpoint?id={operation.id}{method}"


def _matches(operation: ApiOperation, filters: Mapping[str, Any]) -> bool:
    search = str(filters.get("search", "")).lower()
    return (
        filters.get("platform", operation.platform) == operation.platform
        and filters.get("method", operation.method) == operation.method
        and (search in operation.path.lower() or search in operation.summary.lower())
    )


def _check_platform(reference: Reference, platform: str | None) -> None:
    if platform is None or platform in reference.platforms:
        return
    near = get_close_matches(platform.lower()[:100], reference.platforms, n=1, cutoff=0.6)
    if near:
        raise InvalidParam("platform", f"is none of this node's; did you mean {near[0]}?", meant=near[0])
