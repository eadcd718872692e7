"""The routes by which a node tells of itself: catalog, guide, status and the OpenAPI document (spec 4.2)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from gateway.docs.account.fields import Instant, told
from gateway.http.routing import RouteDoc

Health = Literal["operational", "degraded", "down"]
Circuit = Literal["closed", "half_open", "open"]


class CatalogStats(TypedDict):
    """The live numbers of data endpoints."""

    platforms: Annotated[int, told("Platforms that can be called.", 4)]
    endpoints: Annotated[int, told("Data endpoints that can be called.", 41)]
    social_platforms: Annotated[int, told("Those of the platforms that are social networks.", 2)]


class CatalogFilters(TypedDict):
    """The filters as they were sent."""

    platform: str | None
    search: str | None
    method: str | None


class CatalogEntry(TypedDict):
    """One endpoint in the catalog."""

    id: Annotated[str, told("The path without `/v1/`.", "github/profile")]
    path: Annotated[str, told("The path.", "/v1/github/profile")]
    method: Annotated[str, told("The method.", "GET")]
    platform: Annotated[str, told("The platform, or `account` and the like.", "github")]
    resource: Annotated[str, told("What stands behind the platform.", "profile")]
    summary: Annotated[str, told("One line on it.", "One account's public profile.")]
    credits: Annotated[int, told("The least that a call costs.", 1)]
    credits_label: Annotated[str, told("The price in words.", "1 credit")]
    archetype: Annotated[str, told("The name of its answer's shape.", "Author")]
    required_params: Annotated[list[str], told("What must be sent.", ["handle"])]
    one_of: Annotated[list[list[str]], told("Groups of which exactly one must be sent.", [])]
    optional_params: Annotated[list[str], told("What may be sent.", [])]
    paginated: Annotated[bool, told("Whether it answers in pages.")]
    how_to_use: Annotated[str, told("The path of its guide.", "/v1/utility/endpoint?id=github/profile")]
    docs_url: Annotated[str, told("Its page.", "https://api.example.com/docs/github/profile")]


class CatalogData(TypedDict):
    """The catalog."""

    kind: Literal["endpoint_catalog"]
    stats: CatalogStats
    filters: CatalogFilters
    total: Annotated[int, told("Entries that the filters left.", 1)]
    endpoints: list[CatalogEntry]


class GuideData(TypedDict):
    """The guide of one endpoint."""

    kind: Literal["endpoint_guide"]
    id: Annotated[str, told("The endpoint.", "github/profile")]
    path: Annotated[str, told("Its path.", "/v1/github/profile")]
    method: Annotated[str, told("Its method.", "GET")]
    platform: Annotated[str, told("Its platform.", "github")]
    resource: Annotated[str, told("Its resource.", "profile")]
    summary: Annotated[str, told("One line on it.", "One account's public profile.")]
    description: Annotated[str, told("More on it.", "One account's public profile.")]
    credits: Annotated[dict[str, Any], told("Price and billing rules.", {"cost": 1})]
    params: Annotated[dict[str, Any], told("`required`, `one_of` and `optional`.", {"required": []})]
    pagination: Annotated[dict[str, Any] | None, told("How its pages are read.")]
    cache: Annotated[dict[str, Any] | None, told("For how long an answer is kept.")]
    response: Annotated[dict[str, Any], told("The answer's shape, with an example.", {"archetype": "Author"})]
    request: Annotated[dict[str, Any], told("A request to copy.", {"url": "https://api.example.com/v1/..."})]
    errors: Annotated[list[dict[str, Any]], told("The errors that it can give.", [])]
    availability: Annotated[dict[str, Any], told("Whether it can be called.", {"available": True})]
    links: Annotated[dict[str, Any], told("Where to read on.", {})]
    related: Annotated[list[dict[str, Any]], told("Endpoints beside it.", [])]


class SourceState(TypedDict):
    """One source of a platform."""

    circuit: Circuit


class PlatformState(TypedDict):
    """One platform."""

    status: Health
    circuit: Circuit
    sources: Annotated[dict[str, SourceState], told("By name.", {"api": {"circuit": "closed"}})]


class StatusData(TypedDict):
    """The state of every platform's circuits."""

    status: Health
    platforms: dict[str, PlatformState]
    updated_at: Instant


CATALOG: Final = RouteDoc(
    "list_endpoints", "Every endpoint of this node, with filters.", CatalogData, platform="utility"
)
GUIDE: Final = RouteDoc(
    "get_endpoint",
    "The guide of one endpoint: parameters, price, errors and a true example.",
    GuideData,
    one_of=(("id", "url"),),
    platform="utility",
)
STATUS: Final = RouteDoc(
    "get_status", "The state of every platform's circuits.", StatusData, platform="utility", is_public=True
)
OPENAPI: Final = RouteDoc(
    "get_openapi",
    "This API as an OpenAPI 3.1 document.",
    platform="utility",
    is_public=True,
)
