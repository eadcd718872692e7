"""The catalog: one entry for each available operation, and its filters (spec 2.3, 4.2); the platforms by category."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from gateway.docs.operations import ApiOperation, Reference
from gateway.http.errors import InvalidParam
from gateway.http.params import CURSOR
from scheduler.monitors.metrics.shapes import ROW, shape_of
from upstreams.catalog import Listing
from upstreams.model.choices import CATEGORIES, Category
from upstreams.model.endpoint import Platform

CATEGORY_TITLES: Final[Mapping[Category, str]] = MappingProxyType(
    {
        "social": "Social networks",
        "video": "Video",
        "audio": "Music and podcasts",
        "code": "Code",
        "forums": "Forums",
        "news": "News",
        "knowledge": "Knowledge",
        "apps": "Apps and games",
        "commerce": "Shopping",
        "places": "Places",
        "markets": "Markets",
        "models": "AI models",
        "analytics": "Analytics",
        "web": "Web pages",
        "combined": "Across platforms",
    }
)
_FILTERS = ("platform", "search", "method")


class PlatformGroup(NamedTuple):
    """The platforms of one category, by title."""

    category: Category
    title: str
    platforms: Sequence[Platform]


def by_category(platforms: Iterable[Platform]) -> list[PlatformGroup]:
    """Return the platforms by category, in the order of `CATEGORIES`. Categories without platforms are left out."""
    ordered = sorted(platforms, key=lambda one: one.title.casefold())
    found = ((category, [one for one in ordered if one.category == category]) for category in CATEGORIES)
    return [PlatformGroup(category, CATEGORY_TITLES[category], members) for category, members in found if members]


class _Entry(NamedTuple):
    """One operation of the catalog, with the fields that filters compare."""

    platform: str
    method: str
    path: str
    summary: str
    encoded: orjson.Fragment


class EncodedCatalog:
    """The catalog with its entries already encoded, so that a read only joins the entries that match its filters.

    A node's operations never change while it runs, so neither do the entries. Responses are not cached per set of
    filters, because `search` is free text: callers could fill any cache with it.
    """

    def __init__(self, reference: Reference, base_url: str) -> None:
        self._reference = reference
        self._stats = stats_of(reference)
        self._entries = [
            _Entry(
                operation.platform,
                operation.method,
                operation.path.lower(),
                operation.summary.lower(),
                orjson.Fragment(orjson.dumps(entry_of(operation, base_url))),
            )
            for operation in reference.offered
        ]

    def data(self, filters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the `data` of the catalog. `orjson` copies the encoded entries unchanged.

        Raises:
            InvalidParam: the platform does not exist, but a platform with a similar name does.
        """
        platform, method = filters.get("platform"), filters.get("method")
        search = str(filters.get("search", "")).lower()
        chosen = [
            entry.encoded
            for entry in self._entries
            if platform in (None, entry.platform)
            and method in (None, entry.method)
            and (search in entry.path or search in entry.summary)
        ]
        if not chosen and platform is not None:
            self._check_platform(platform)
        return {
            "kind": "endpoint_catalog",
            "stats": self._stats,
            "filters": {name: filters.get(name) for name in _FILTERS},
            "total": len(chosen),
            "endpoints": chosen,
        }

    def _check_platform(self, platform: str) -> None:
        if platform in self._reference.platforms:
            return
        if near := self._reference.nearest_platform(platform):
            problem = f"Unknown platform `{platform}`. Did you mean `{near}`?"
            raise InvalidParam("platform", problem, meant=near, is_sentence=True)


def stats_of(reference: Reference) -> dict[str, int]:
    """Return the counts of available platforms and data endpoints."""
    available = reference.catalog.available()
    platforms = {listing.site.platform.slug: listing.site.platform for listing in available}
    social = sum(1 for platform in platforms.values() if platform.social)
    return {"platforms": len(platforms), "endpoints": len(available), "social_platforms": social}


def entry_of(operation: ApiOperation, base_url: str) -> dict[str, Any]:
    """Return one entry of the catalog."""
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
        "never_computed": never_computed(listing),
    }


def never_computed(listing: Listing | None) -> list[str]:
    """Return the computed fields that are always null in an endpoint's responses, because input data is missing."""
    if listing is None:
        return []
    never = shape_of(listing.endpoint.archetype, listing.endpoint.unfilled).never
    return sorted(path.rpartition(".")[2] for path in never if path.removeprefix(ROW).startswith("computed."))


def how_to_use(operation: ApiOperation) -> str:
    """Return the path of an operation's guide."""
    method = "" if operation.method == "GET" else f"&method={operation.method}"
    return f"/v1/utility/endpoint?id={operation.id}{method}"
