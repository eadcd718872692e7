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
from gateway.http.routing import Route
from upstreams.catalog import Catalog, Listing
from upstreams.fetching.site import Site
from upstreams.known_names import KnownNames
from upstreams.model.params import Param

FORM: Final = "multipart/form-data"
SOURCE: Final = "source"
"""Reported as the missing credential of an operation that has no source that an operator could configure."""
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


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """An operation of the API: one method of one path."""

    route: Route
    listing: Listing | None
    site: Site | None
    """The platform of the operation; None for operations of the account or the node."""
    method: str

    @property
    def path(self) -> str:
        """Return the path, which may contain `{name}` parts."""
        return self.route.path

    @property
    def id(self) -> str:
        """Return the path without `/v1/`."""
        return self.path.removeprefix("/v1/")

    @property
    def name(self) -> str:
        """Return the name of the method in a client library, such as `github_profile_repos` or `list_monitors`."""
        if self.route.doc is not None:
            return self.route.doc.name
        return re.sub(r"[^a-z0-9]+", "_", self.id)

    @property
    def platform(self) -> str:
        """Return the platform's slug, or a group such as `account` for a route that is not a data endpoint."""
        if self.listing is not None:
            return self.listing.site.platform.slug
        assert self.route.doc is not None, "only data endpoints have no description"
        return self.route.doc.platform

    @property
    def resource(self) -> str:
        """Return the part of the id after the platform."""
        return self.id.removeprefix(f"{self.platform}/")

    @property
    def page(self) -> str:
        """Return the path of the operation's docs page."""
        return f"/docs/{self.id}" if self.listing else f"/docs/{self.platform}/{self.name.replace('_', '-')}"

    @property
    def summary(self) -> str:
        """Return a one-line summary of the operation."""
        return self.listing.endpoint.summary if self.listing else self._doc.summary

    @property
    def title(self) -> str:
        """Return the heading of the operation's docs page."""
        name = self.resource if self.listing else self.name.replace("_", " ")
        return f"{self.site.platform.title}: {name}" if self.site else name.capitalize()

    @property
    def available(self) -> bool:
        """Return whether the operation can be called because no credential is missing."""
        return not self.lacks

    @property
    def lacks(self) -> Sequence[str]:
        """Return the required credentials that are not configured."""
        return self.route.lacks if self.listing is None else self.listing.site.lacks(self.listing.endpoint)

    @property
    def price(self) -> Price:
        """Return the price of a call."""
        if self.listing is not None:
            return price_of(self.listing.endpoint)
        return _FREE if self._doc.price is None else Price(*self._doc.price)

    @property
    def tier(self) -> str:
        """Return the price tier that the guide shows."""
        if self.listing is not None:
            return self.listing.endpoint.tier
        return "free" if self._doc.price is None else "standard"

    @property
    def archetype(self) -> str:
        """Return the name of the response shape; empty if there is none."""
        if self.listing is not None:
            return self.listing.endpoint.archetype.name
        return getattr(self._doc.answer, "__name__", "")

    @property
    def one_of(self) -> Sequence[Sequence[str]]:
        """Return groups of parameters. Each request must send exactly one parameter of each group."""
        return self.listing.endpoint.one_of if self.listing else self._doc.one_of

    @property
    def in_path(self) -> tuple[Param, ...]:
        """Return the path parameters."""
        found = _NAMED.finditer(self.path)
        return tuple(_BY_PATH.get(self.path[: one.end()]) or _IN_PATH[one[1]] for one in found)

    @property
    def query(self) -> tuple[Param, ...]:
        """Return the query parameters."""
        if self.listing is None:
            return self.route.params
        return (*self.listing.endpoint.params, *common_params(self.listing.endpoint.archetype))

    @property
    def is_form(self) -> bool:
        """Return whether the request body is a form with a file."""
        return self.route.takes == FORM

    @property
    def body(self) -> tuple[BodyField, ...]:
        """Return the fields of the request body. The schemas are shared, so callers must not change them."""
        return () if self.route.body is None else _fields_of(self.route.body)

    @property
    def paginated(self) -> bool:
        """Return whether the response is paginated."""
        if self.listing is not None:
            return self.listing.endpoint.archetype.many
        return any(param.name == CURSOR.name for param in self.query)

    @property
    def once(self) -> bool:
        """Return whether the operation accepts an `Idempotency-Key`."""
        return self.listing is not None or self._doc.once

    @property
    def _doc(self) -> Any:
        assert self.route.doc is not None, "only data endpoints have no description"
        return self.route.doc


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
            return ApiOperation(route, None, self.catalog.sites.get(route.doc.platform), route.allow[0])
        listing = self.catalog.at(route.path)
        return ApiOperation(route, listing, listing.site if listing else None, route.allow[0])

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
