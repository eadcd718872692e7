"""The registry of endpoints that this node serves: lookup by path, and suggestions for misspelled paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from upstreams.fetching.site import Site
from upstreams.known_names import KnownNames
from upstreams.model.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class Listing:
    """One endpoint in the registry; `available` is False if a credential that it needs is missing."""

    id: str
    path: str
    site: Site
    endpoint: Endpoint
    available: bool


class Catalog:
    """All endpoints by id `platform/resource`, in the order of their declaration."""

    def __init__(self, sites: Iterable[Site]) -> None:
        self.sites = {site.platform.slug: site for site in sites}
        self._by_path = {listing.path: listing for site in self.sites.values() for listing in _listings(site)}
        self._ids = KnownNames(listing.id for listing in self.available())

    def at(self, path: str) -> Listing | None:
        """Return the endpoint at a request path, such as `/v1/github/profile`; None if there is none."""
        return self._by_path.get(path)

    def by_id(self, id: str) -> Listing | None:  # noqa: A002 - the name in the specification
        """Return the endpoint with an id, such as `github/profile`; None if there is none."""
        return self._by_path.get(f"/v1/{id}")

    def all(self) -> list[Listing]:
        """Return all endpoints, including unavailable ones."""
        return list(self._by_path.values())

    def available(self) -> list[Listing]:
        """Return the endpoints that can be called now, as listed in the catalog."""
        return [listing for listing in self._by_path.values() if listing.available]

    def nearest(self, path: str) -> str | None:
        """Return the path that was probably meant; None if no path is similar."""
        near = self._ids.nearest(path.removeprefix("/v1/"))
        return None if near is None else f"/v1/{near}"


def _listings(site: Site) -> list[Listing]:
    slug = site.platform.slug
    return [
        Listing(f"{slug}/{endpoint.resource}", f"/v1/{slug}/{endpoint.resource}", site, endpoint, site.offers(endpoint))
        for endpoint in site.platform.endpoints
    ]
