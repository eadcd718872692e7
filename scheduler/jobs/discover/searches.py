"""The searches that legs use, grouped by the kind of their rows, and the endpoints that read one account's details."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from scheduler.recipes import RecipeInvalid, Recipes
from upstreams.composites import composite_slugs
from upstreams.model.archetypes.shape import RowKind

if TYPE_CHECKING:
    from upstreams.catalog import Listing
    from upstreams.model.endpoint import Endpoint
    from upstreams.model.params import Value

View = Literal["posts", "accounts", "items"]
OF_VIEW: Final[Mapping[View, tuple[RowKind, ...]]] = {
    "posts": ("post",),
    "accounts": ("account", "post"),
    "items": ("item",),
}
"""The kinds of searches in each view, in the order in which they run."""
PAGE_MAX: Final = 50
"""Rows per page, if the search has a limit parameter."""


@dataclass(frozen=True, slots=True)
class PlatformSearch:
    """A search on one platform: an endpoint that takes a query and returns a list."""

    id: str
    platform: str
    kind: RowKind
    key: str
    """The name under which a row contains its record."""
    values: Mapping[str, Value]
    """The parameters of every page except the query."""
    newest: Mapping[str, Value]
    """The parameters that sort the newest first. Empty if the search cannot do that."""
    takes_days: bool
    """Whether the search accepts the first and the last day of the results."""
    available: bool
    """False if it needs a credential that the operator has not configured."""
    price_credits: int
    """The price of a page."""


@dataclass(frozen=True, slots=True)
class ProfileRead:
    """How to read one account on a platform: the endpoint, the parameter that names the account, and the price."""

    id: str
    param: str
    price_credits: int


@dataclass(frozen=True, slots=True)
class Searches:
    """All searches of a node in catalog order, and for each platform the endpoint that reads one account."""

    all: tuple[PlatformSearch, ...]
    profiles: Mapping[str, ProfileRead]

    def of_view(self, view: View) -> list[PlatformSearch]:
        """Return the searches of a view."""
        return [one for kind in OF_VIEW[view] for one in self.all if one.kind == kind]


def searches_of(listings: Iterable[Listing], recipes: Recipes) -> Searches:
    """Return the searches among a node's endpoints with their prices, except composites over several platforms."""
    composites = frozenset(composite_slugs())
    own = [one for one in listings if one.site.platform.slug not in composites]
    found = tuple(
        _search(one, kind, recipes)
        for one in own
        if (kind := one.endpoint.archetype.row_kind) is not None and _is_search(one.endpoint)
    )
    reads = (_profile(one, recipes) for one in own if one.available and _is_profile(one))
    return Searches(found, {one.id.partition("/")[0]: one for one in reads if one is not None})


def _is_search(endpoint: Endpoint) -> bool:
    required = {one.name for one in endpoint.params if one.required}
    is_plain = not endpoint.archetype.has_legs and not endpoint.one_of
    return required == {"query"} and is_plain


def _is_profile(listing: Listing) -> bool:
    playing = listing.site.platform.playing("profile")
    return playing == listing.endpoint and "handle" in listing.endpoint.named_by


def _profile(listing: Listing, recipes: Recipes) -> ProfileRead | None:
    """Return how to read an account by its handle.

    Return None if that needs a credential that reading by id does not need.
    """
    try:
        return ProfileRead(listing.id, "handle", _price(listing, recipes, "handle"))
    except RecipeInvalid:
        return None


def _price(listing: Listing, recipes: Recipes, named_by: str) -> int:
    """Return the minimum price of an endpoint, which is the price of one page."""
    example = next(one.example for one in listing.endpoint.params if one.name == named_by)
    return recipes.read(listing.id, {named_by: example}).credits_least


def _search(listing: Listing, kind: RowKind, recipes: Recipes) -> PlatformSearch:
    endpoint = listing.endpoint
    by_name = {one.name: one for one in endpoint.params}
    size: dict[str, Value] = {}
    if "limit" in by_name:
        most = by_name["limit"].maximum if endpoint.collect is None else endpoint.collect.per_page
        size["limit"] = min(PAGE_MAX, most or PAGE_MAX)
    return PlatformSearch(
        id=listing.id,
        platform=listing.site.platform.slug,
        kind=kind,
        key=endpoint.archetype.key,
        values=size,
        newest=endpoint.newest or {},
        takes_days={"since", "until"} <= by_name.keys(),
        available=listing.available,
        price_credits=_price(listing, recipes, "query") if listing.available else 0,
    )
