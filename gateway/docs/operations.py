"""Every operation under `/v1` as readers of the docs see it: data endpoints and all other routes.

The catalog, the guides, the OpenAPI document and the pages are built from this list, which is built from the routing
table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec

from gateway.calls.pricing import Price, price_of
from gateway.docs.samples import plain_schema
from gateway.http.params import CURSOR, common_params
from gateway.http.routing import Route, RouteDoc
from upstreams.catalog import Catalog, Listing
from upstreams.fetching.site import Site
from upstreams.known_names import KnownNames
from upstreams.model.params import Param

FORM: Final = "multipart/form-data"
FORM_FIELD: Final = "file=@page.html"
"""The example file as an argument of curl."""
_FREE: Final = Price(0, "free", "Free of charge.")
_NAMED = re.compile(r"\{(\w+)\}")
_IN_PATH: Final = {
    param.name: param
    for param in (
        Param("monitor_id", "The monitor's id.", "mon_01a1fd6f28fd7bba92988ba98f5dc154", required=True),
        Param("run_id", "The run's id.", "run_01a1fd7028fd7bba92988ba98f5dc154", required=True),
        Param("schedule_id", "The schedule's id.", "ds_01a1fd7328fd7bba92988ba98f5dc154", required=True),
        Param("delivery_id", "The delivery's id.", "whd_01a1fd7128fd7bba92988ba98f5dc154", required=True),
        Param("webhook_id", "The webhook's id.", "wh_01a1fd7128fd7bba92988ba98f5dc154", required=True),
        Param("job_id", "The job's id.", "job_01a1fd7328fd7bba92988ba98f5dc154", required=True),
        Param("cohort_id", "The cohort's id.", "coh_01a1fd7328fd7bba92988ba98f5dc154", required=True),
        Param("query_id", "The query's id.", "cq_01a1fd7328fd7bba92988ba98f5dc155", required=True),
        Param("session_id", "The session's id.", "ws_01a1fd7328fd7bba92988ba98f5dc154", required=True),
        Param("consumer", "The consumer's name: 1 to 64 of a-z, 0-9, _ and -.", "billing", required=True),
    )
}


_BY_PATH: Final = {
    "/v1/web/monitors/{monitor_id}": Param(
        "monitor_id", "The web monitor's id.", "wm_01a1fd6f28fd7bba92988ba98f5dc154", required=True
    ),
    "/v1/prism/discover/runs/{run_id}": Param(
        "run_id", "The run's id.", "dr_01a1fd7028fd7bba92988ba98f5dc154", required=True
    ),
}
"""Path parameters with a special meaning, by the path up to and including the parameter."""


@dataclass(frozen=True, slots=True)
class BodyField:
    """One field of a body."""

    name: str
    schema: dict[str, Any]
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOperation:
    """An operation of the API: one method of one path."""

    route: Route
    listing: Listing | None
    """The data endpoint; None for the other routes."""
    site: Site | None
    """The platform of the operation; None for operations of the account or the node."""
    method: str
    path: str
    """The path, which may contain `{name}` parts."""
    id: str
    """The path without `/v1/`."""
    name: str
    """The name of the method in a client library, such as `github_profile_repos` or `list_monitors`."""
    platform: str
    """The platform's slug, or a group such as `account` for a route that is not a data endpoint."""
    resource: str
    """The part of the id after the platform."""
    page: str
    """The path of the operation's docs page."""
    title: str
    """The heading of the operation's docs page."""
    summary: str
    """A one-line summary of the operation."""
    lacks: Sequence[str]
    """The required credentials that are not configured."""
    price: Price
    """The price of a call."""
    tier: str
    """The price tier that the guide shows."""
    archetype: str
    """The name of the response shape; empty if there is none."""
    one_of: Sequence[Sequence[str]]
    """Groups of parameters. Each request must send exactly one parameter of each group."""
    in_path: tuple[Param, ...]
    """The path parameters."""
    query: tuple[Param, ...]
    """The query parameters."""
    paginated: bool
    """Whether the response is paginated."""
    once: bool
    """Whether the operation accepts an `Idempotency-Key`."""

    @property
    def available(self) -> bool:
        """Return whether the operation can be called because no credential is missing."""
        return not self.lacks

    @property
    def is_form(self) -> bool:
        """Return whether the request body is a form with a file."""
        return self.route.takes == FORM

    @property
    def body(self) -> tuple[BodyField, ...]:
        """Return the fields of the request body. The schemas are shared, so callers must not change them."""
        return () if self.route.body is None else _fields_of(self.route.body)


def data_operation(route: Route, listing: Listing) -> ApiOperation:
    """Return the operation of a data endpoint."""
    endpoint, site, id_ = listing.endpoint, listing.site, route.path.removeprefix("/v1/")
    slug, archetype = site.platform.slug, endpoint.archetype
    resource = id_.removeprefix(f"{slug}/")
    return ApiOperation(
        route=route,
        listing=listing,
        site=site,
        method=route.allow[0],
        path=route.path,
        id=id_,
        name=re.sub(r"[^a-z0-9]+", "_", id_),
        platform=slug,
        resource=resource,
        page=f"/docs/{id_}",
        title=f"{site.platform.title}: {resource}",
        summary=endpoint.summary,
        lacks=site.lacks(endpoint),
        price=price_of(endpoint),
        tier=endpoint.tier,
        archetype=archetype.name,
        one_of=endpoint.one_of,
        in_path=_in_path(route.path),
        query=(*endpoint.params, *common_params(archetype)),
        paginated=archetype.many,
        once=True,
    )


def own_operation(route: Route, doc: RouteDoc, site: Site | None) -> ApiOperation:
    """Return the operation of a route that is not a data endpoint, from its description."""
    id_, words = route.path.removeprefix("/v1/"), doc.name.replace("_", " ")
    return ApiOperation(
        route=route,
        listing=None,
        site=site,
        method=route.allow[0],
        path=route.path,
        id=id_,
        name=doc.name,
        platform=doc.platform,
        resource=id_.removeprefix(f"{doc.platform}/"),
        page=f"/docs/{doc.platform}/{doc.name.replace('_', '-')}",
        title=f"{site.platform.title}: {words}" if site else words.capitalize(),
        summary=doc.summary,
        lacks=route.lacks,
        price=_FREE if doc.price is None else Price(*doc.price),
        tier="free" if doc.price is None else "standard",
        archetype=getattr(doc.answer, "__name__", ""),
        one_of=doc.one_of,
        in_path=_in_path(route.path),
        query=route.params,
        paginated=any(param.name == CURSOR.name for param in route.params),
        once=doc.once,
    )


def _in_path(path: str) -> tuple[Param, ...]:
    return tuple(_BY_PATH.get(path[: one.end()]) or _IN_PATH[one[1]] for one in _NAMED.finditer(path))


@cache
def _fields_of(body: type[msgspec.Struct]) -> tuple[BodyField, ...]:
    """Return the fields of a body type. Cached per type, because building a schema takes 0.2 ms."""
    schema = plain_schema(msgspec.json.schema(body))
    due = schema.get("required", ())
    return tuple(BodyField(name, one, name in due) for name, one in schema["properties"].items())


class Reference:
    """All operations of a node, in the order of its routing table.

    They are set once, before the node accepts requests. Platforms and credentials change only with a restart.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.operations: tuple[ApiOperation, ...] = ()
        self.offered: tuple[ApiOperation, ...] = ()
        """The available operations."""
        self.platforms: tuple[str, ...] = ()
        """The platforms of all operations without duplicates, including groups such as `account`."""
        self._by_path: dict[str, list[ApiOperation]] = {}
        self._with_names: tuple[ApiOperation, ...] = ()
        self._paths = self._slugs = KnownNames(())

    def describe(self, routes: Iterable[Route]) -> None:
        """Set the operations from the complete routing table, including the routes that read this reference."""
        self.operations = tuple(map(self._described, routes))
        self.offered = tuple(operation for operation in self.operations if operation.available)
        self.platforms = tuple(dict.fromkeys(operation.platform for operation in self.operations))
        for operation in self.operations:
            self._by_path.setdefault(operation.path, []).append(operation)
        self._with_names = tuple(operation for operation in self.operations if "{" in operation.path)
        self._paths = KnownNames(operation.path for operation in self.offered)
        self._slugs = KnownNames(self.platforms)

    def _described(self, route: Route) -> ApiOperation:
        if route.doc is not None:
            return own_operation(route, route.doc, self.catalog.sites.get(route.doc.platform))
        listing = self.catalog.at(route.path)
        assert listing is not None, "a route without a description is a data endpoint"
        return data_operation(route, listing)

    def find(self, path: str, method: str | None) -> ApiOperation | None:
        """Return the operation of a path, whose `{name}` parts may have values.

        Without a method, return the first one.
        """
        found = self._by_path.get(path) or [one for one in self._with_names if _matches(one.path, path)]
        return next((one for one in found if method is None or method in one.route.allow), None)

    def nearest(self, path: str) -> str | None:
        """Return the most similar known path; None if none is similar."""
        return self._paths.nearest(path)

    def nearest_platform(self, text: str) -> str | None:
        """Return the most similar known platform; None if none is similar."""
        return self._slugs.nearest(text.lower())


def _matches(pattern: str, path: str) -> bool:
    wanted, sent = pattern.split("/"), path.split("/")
    return len(wanted) == len(sent) and all(
        one[:1] == "{" or one == other for one, other in zip(wanted, sent, strict=True)
    )
