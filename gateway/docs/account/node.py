"""Reference texts for the routes that describe a node: catalog, guide, status and OpenAPI document (spec 4.2)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from gateway.docs.account.fields import Instant, meaning
from gateway.http.routing import RouteDoc

Health = Literal["operational", "degraded", "down"]
Circuit = Literal["closed", "half_open", "open"]


class CatalogStats(TypedDict):
    """Current counts of platforms and data endpoints."""

    platforms: Annotated[int, meaning("Available platforms.", 4)]
    endpoints: Annotated[int, meaning("Available data endpoints.", 41)]
    social_platforms: Annotated[int, meaning("Available platforms that are social networks.", 2)]


class CatalogFilters(TypedDict):
    """The filters of the request."""

    platform: str | None
    search: str | None
    method: str | None


class CatalogEntry(TypedDict):
    """One endpoint in the catalog."""

    id: Annotated[str, meaning("The path without `/v1/`.", "github/profile")]
    path: Annotated[str, meaning("The path.", "/v1/github/profile")]
    method: Annotated[str, meaning("The method.", "GET")]
    platform: Annotated[str, meaning("The platform, or a group such as `account`.", "github")]
    resource: Annotated[str, meaning("The part of the path after the platform.", "profile")]
    summary: Annotated[str, meaning("A one-line summary.", "One account's public profile.")]
    credits: Annotated[int, meaning("The minimum price of a call.", 1)]
    credits_label: Annotated[str, meaning("The price in words.", "1 credit")]
    archetype: Annotated[str, meaning("The name of the response shape.", "Author")]
    required_params: Annotated[list[str], meaning("Required parameters.", ["handle"])]
    one_of: Annotated[list[list[str]], meaning("Groups of parameters; send exactly one of each group.", [])]
    optional_params: Annotated[list[str], meaning("Optional parameters.", [])]
    paginated: Annotated[bool, meaning("Whether the response is paginated.")]
    how_to_use: Annotated[str, meaning("The path of its guide.", "/v1/utility/endpoint?id=github/profile")]
    docs_url: Annotated[str, meaning("The URL of its docs page.", "https://api.example.com/docs/github/profile")]
    never_computed: Annotated[
        list[str],
        meaning(
            "Fields of `computed` that are always null for lack of input data.",
            ["estimated_reach"],
        ),
    ]


class CatalogData(TypedDict):
    """The catalog."""

    kind: Literal["endpoint_catalog"]
    stats: CatalogStats
    filters: CatalogFilters
    total: Annotated[int, meaning("Entries that match the filters.", 1)]
    endpoints: list[CatalogEntry]


class GuideData(TypedDict):
    """The guide of one endpoint."""

    kind: Literal["endpoint_guide"]
    id: Annotated[str, meaning("The endpoint.", "github/profile")]
    path: Annotated[str, meaning("The path.", "/v1/github/profile")]
    method: Annotated[str, meaning("The method.", "GET")]
    platform: Annotated[str, meaning("The platform.", "github")]
    resource: Annotated[str, meaning("The resource.", "profile")]
    summary: Annotated[str, meaning("A one-line summary.", "One account's public profile.")]
    description: Annotated[str, meaning("A longer description.", "One account's public profile.")]
    credits: Annotated[dict[str, Any], meaning("Price and billing rules.", {"cost": 1})]
    params: Annotated[dict[str, Any], meaning("`required`, `one_of` and `optional`.", {"required": []})]
    pagination: Annotated[dict[str, Any] | None, meaning("How to read further pages.")]
    cache: Annotated[dict[str, Any] | None, meaning("How long responses are cached.")]
    response: Annotated[dict[str, Any], meaning("The shape of the response, with an example.", {"archetype": "Author"})]
    request: Annotated[
        dict[str, Any], meaning("A request that you can copy.", {"url": "https://api.example.com/v1/..."})
    ]
    errors: Annotated[list[dict[str, Any]], meaning("The errors that it can return.", [])]
    availability: Annotated[dict[str, Any], meaning("Whether the endpoint is available.", {"available": True})]
    upstream: Annotated[
        dict[str, Any] | None,
        meaning("The platform: its documentation, its terms, and the day on which both were last checked."),
    ]
    links: Annotated[dict[str, Any], meaning("Related URLs.", {})]
    related: Annotated[list[dict[str, Any]], meaning("Related endpoints.", [])]


class SourceState(TypedDict):
    """One source of a platform."""

    circuit: Circuit
    hosts: NotRequired[Annotated[int, meaning("Hosts in use, for a source that accepts any host.", 3)]]
    open: NotRequired[Annotated[int, meaning("Hosts whose circuit is open.", 0)]]


class PlatformState(TypedDict):
    """One platform."""

    status: Health
    circuit: Circuit
    sources: Annotated[dict[str, SourceState], meaning("The sources by name.", {"api": {"circuit": "closed"}})]


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
    "The guide of one endpoint: parameters, price, errors and a real example.",
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
