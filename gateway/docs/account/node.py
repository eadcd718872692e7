"""The routes by which a node tells of itself: catalog, guide, status and the OpenAPI document (spec 4.2)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from gateway.docs.account.fields import Instant, meaning
from gateway.http.routing import RouteDoc

Health = Literal["operational", "degraded", "down"]
Circuit = Literal["closed", "half_open", "open"]


class CatalogStats(TypedDict):
    """The live numbers of data endpoints."""

    platforms: Annotated[int, meaning("Platforms that can be called.", 4)]
    endpoints: Annotated[int, meaning("Data endpoints that can be called.", 41)]
    social_platforms: Annotated[int, meaning("Those of the platforms that are social networks.", 2)]


class CatalogFilters(TypedDict):
    """The filters as they were sent."""

    platform: str | None
    search: str | None
    method: str | None


class CatalogEntry(TypedDict):
    """One endpoint in the catalog."""

    id: Annotated[str, meaning("The path without `/v1/`.", "github/profile")]
    path: Annotated[str, meaning("The path.", "/v1/github/profile")]
    method: Annotated[str, meaning("The method.", "GET")]
    platform: Annotated[str, meaning("The platform, or `account` and the like.", "github")]
    resource: Annotated[str, meaning("What stands behind the platform.", "profile")]
    summary: Annotated[str, meaning("One line on it.", "The public profile of an account.")]
    credits: Annotated[int, meaning("The least that a call costs.", 1)]
    credits_label: Annotated[str, meaning("The price in words.", "1 credit")]
    archetype: Annotated[str, meaning("The name of its answer's shape.", "Author")]
    required_params: Annotated[list[str], meaning("What must be sent.", ["handle"])]
    one_of: Annotated[list[list[str]], meaning("Groups of which exactly one must be sent.", [])]
    optional_params: Annotated[list[str], meaning("What may be sent.", [])]
    paginated: Annotated[bool, meaning("Whether it answers in pages.")]
    how_to_use: Annotated[str, meaning("The path of its guide.", "/v1/utility/endpoint?id=github/profile")]
    docs_url: Annotated[str, meaning("Its page.", "https://api.example.com/docs/github/profile")]
    never_computed: Annotated[
        list[str],
        meaning(
            "Fields of `computed` that are always null: the platform does not send their inputs.", ["estimated_reach"]
        ),
    ]


class CatalogData(TypedDict):
    """The catalog."""

    kind: Literal["endpoint_catalog"]
    stats: CatalogStats
    filters: CatalogFilters
    total: Annotated[int, meaning("Entries that the filters left.", 1)]
    endpoints: list[CatalogEntry]


class GuideData(TypedDict):
    """The guide of one endpoint."""

    kind: Literal["endpoint_guide"]
    id: Annotated[str, meaning("The endpoint.", "github/profile")]
    path: Annotated[str, meaning("Its path.", "/v1/github/profile")]
    method: Annotated[str, meaning("Its method.", "GET")]
    platform: Annotated[str, meaning("Its platform.", "github")]
    resource: Annotated[str, meaning("Its resource.", "profile")]
    summary: Annotated[str, meaning("One line on it.", "The public profile of an account.")]
    description: Annotated[str, meaning("More on it.", "The public profile of an account.")]
    credits: Annotated[dict[str, Any], meaning("Price and billing rules.", {"cost": 1})]
    params: Annotated[dict[str, Any], meaning("`required`, `one_of` and `optional`.", {"required": []})]
    pagination: Annotated[dict[str, Any] | None, meaning("How its pages are read.")]
    cache: Annotated[dict[str, Any] | None, meaning("For how long an answer is kept.")]
    response: Annotated[dict[str, Any], meaning("The answer's shape, with an example.", {"archetype": "Author"})]
    request: Annotated[dict[str, Any], meaning("A request to copy.", {"url": "https://api.example.com/v1/..."})]
    errors: Annotated[list[dict[str, Any]], meaning("The errors that it can give.", [])]
    availability: Annotated[dict[str, Any], meaning("Whether it can be called.", {"available": True})]
    links: Annotated[dict[str, Any], meaning("Where to read on.", {})]
    related: Annotated[list[dict[str, Any]], meaning("Endpoints beside it.", [])]


class SourceState(TypedDict):
    """One source of a platform."""

    circuit: Circuit
    hosts: NotRequired[Annotated[int, meaning("Hosts that callers named, where they may name any.", 3)]]
    open: NotRequired[Annotated[int, meaning("Those of them whose circuit is open.", 0)]]


class PlatformState(TypedDict):
    """One platform."""

    status: Health
    circuit: Circuit
    sources: Annotated[dict[str, SourceState], meaning("By name.", {"api": {"circuit": "closed"}})]


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
    reasons=("ENDPOINT_NOT_FOUND",),
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
