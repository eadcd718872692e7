"""The platforms that support cohort members: those with a list of an account's posts (decisions 20)."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from scheduler.errors import CohortPlatformUnsupported
from scheduler.json_input import nearest
from scheduler.recipes import Recipe, RecipeInvalid, Recipes
from upstreams.catalog import Catalog
from upstreams.model.endpoint import Endpoint
from upstreams.model.paths import Within

PAGE_ROWS: Final = 100
"""Posts per page, if the platform's list can return as many."""


@dataclass(frozen=True, slots=True)
class PostRoute:
    """The list of an account's posts on one platform, and the parameters that name the account."""

    platform: str
    endpoint: str
    """The id of the endpoint, such as `bluesky/user/posts`."""
    named_by: tuple[str, ...]
    """The parameters that may name an account. A parameter for handles comes first."""
    is_available: bool
    """Whether this node has the required credentials."""
    fixed: Mapping[str, Any]
    """The other parameters: the page size, and the order by time."""
    place: str = ""
    """The parameter for the host or site of an account. Empty if the platform has only one host."""

    def recipe(self, recipes: Recipes, handle: str) -> Recipe:
        """Return the recipe for one account's posts, using the first parameter that accepts its handle.

        Raises:
            RecipeInvalid: no parameter accepts it.
        """
        for name in self.named_by[:-1]:
            with suppress(RecipeInvalid):
                return recipes.read(self.endpoint, {**self.fixed, name: handle})
        return recipes.read(self.endpoint, {**self.fixed, self.named_by[-1]: handle})

    def identity(self, recipe: Recipe) -> str:
        """Return the canonical form that identifies the account of a recipe, no matter how its handle was written."""
        name = next(str(recipe.values[name]) for name in self.named_by if name in recipe.values)
        return name if "/" in name or not self.place else f"{name}/{recipe.values[self.place]}"

    def plain(self, handle: str) -> str:
        """Return a handle in lower case without an at sign or surrounding whitespace. Ids keep their case."""
        plain = unicodedata.normalize("NFKC", handle).strip()
        return plain.lstrip("@").casefold() if self.named_by[0] == "handle" else plain


PostRoutes = Mapping[str, PostRoute]
"""Routes by platform."""


def post_routes(catalog: Catalog) -> dict[str, PostRoute]:
    """Return the routes of all platforms that have one, even if this node lacks the credentials."""
    found = {}
    for slug, site in catalog.sites.items():
        endpoint = site.platform.playing("profile_posts")
        if endpoint is not None:
            named_by = tuple(sorted(endpoint.named_by, key=lambda name: name != "handle"))
            id_ = f"{slug}/{endpoint.resource}"
            listing = catalog.by_id(id_)
            assert listing is not None, "the catalog has every endpoint of its platforms"
            found[slug] = PostRoute(slug, id_, named_by, listing.available, _fixed(endpoint), _place(endpoint))
    return found


def _place(endpoint: Endpoint) -> str:
    if isinstance(endpoint.located, Within):
        return endpoint.located.place.name
    return next((one.name for one in endpoint.params if one.is_host), "")


def _fixed(endpoint: Endpoint) -> dict[str, Any]:
    limit = next((one for one in endpoint.params if one.name == "limit"), None)
    if limit is None:
        return dict(endpoint.newest or {})
    most = limit.maximum or PAGE_ROWS
    if endpoint.collect is not None:
        most = min(most, endpoint.collect.per_page)
    return {**(endpoint.newest or {}), "limit": min(most, PAGE_ROWS)}


def route_at(param: str, platform: str, routes: PostRoutes) -> PostRoute:
    """Return the route of the platform that a field names.

    Raises:
        CohortPlatformUnsupported: the platform has no route.
    """
    route = routes.get(platform)
    if route is None:
        raise CohortPlatformUnsupported(param, nearest(platform, routes), sorted(routes))
    return route
