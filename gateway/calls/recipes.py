"""The recipes of monitors: the catalog's endpoints, validated, priced and called as the API does (spec 2.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import trio

from billing.prices import credits_for
from gateway.calls.planning import begin, dismiss, price, used_by, walk_within
from gateway.calls.run_legs import legs_of, warnings_of
from gateway.calls.shaping import explained, shape, share_out
from gateway.http.errors import Refused
from gateway.http.params import declared_by
from scheduler.json_input import kind_of, object_at
from scheduler.monitors.runs.verdict import covered
from scheduler.recipes import Gathered, Recipe, RecipeInvalid
from upstreams.catalog import Catalog, Listing
from upstreams.fetching.aside import LONG_BYTES
from upstreams.fetching.fetch import Plan, fetch
from upstreams.fetching.walk import Walk, Walked, as_collecting
from upstreams.model.endpoint import Endpoint
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args, State, Value
from upstreams.model.steps import Fetched

_NOT_OF_MONITORS = ("cursor", "dry_run", "max_credits")
_INTEGERS_END = 2**63
"""Larger ones are not kept as they are by what reads and writes JSON."""


class CatalogRecipes:
    """As `scheduler.recipes.Recipes`. `shares` says how many calls of recipes a platform takes at a time.

    While the node is `stopping`, walks end at their next page.
    """

    def __init__(
        self,
        catalog: Catalog,
        shares: Mapping[str, int],
        *,
        now: Callable[[], float],
        clock: Callable[[], float],
        stopping: Callable[[], bool],
    ) -> None:
        self._catalog = catalog
        self._shares = {slug: trio.CapacityLimiter(share) for slug, share in shares.items()}
        self._now = now
        self._clock = clock
        self._stopping = stopping

    def read(self, recipe: str, params: object, *, rows: int | None = None) -> Recipe:
        """A recipe as it was sent; a list is asked for `rows`, unless the parameters say how many.

        Raises:
            RecipeInvalid: it cannot be used; nothing was called.
        """
        listing = self._listing(recipe)
        values = _values(listing, params)
        is_walked = False
        if rows is not None and listing.endpoint.archetype.many and not _names_limit(params):
            values["limit"] = _within(listing.endpoint, rows)
            is_walked = listing.endpoint.collect is None
            listing = _walked(listing)
        try:
            planned = begin(listing, self._args(listing, values))
        except InvalidArgument as exc:
            raise _invalid(exc.param, exc.problem) from exc
        dismiss(planned)
        least, most = price(planned, _cost(listing))
        endpoint, platform = listing.endpoint, listing.site.platform
        return Recipe(listing.path, values, endpoint.archetype, platform.slug, least, most, is_walked)

    async def gather(self, recipe: Recipe, credits_held: int, *, timeout_s: float) -> Gathered:
        """Call it, within the credits that are held for it, and within `timeout_s` from when its turn has come.

        Raises:
            UpstreamError, LimitError: nothing usable came.
        """
        listing = self._catalog.at(recipe.path)
        assert listing is not None, "a recipe was read from the catalog"
        if recipe.is_walked:
            listing = _walked(listing)
        planned = begin(listing, self._args(listing, recipe.values))
        async with self._shares[recipe.platform]:
            deadline_at = self._clock() + timeout_s
            fetched = await self._fetch(planned, credits_held, _cost(listing), deadline_at=deadline_at)
        gather = partial(_gathered, listing, planned, fetched, credits_held)
        if fetched.body_bytes <= LONG_BYTES:
            return gather()
        return await listing.site.aside.run(gather, deadline_at, source=recipe.platform)

    async def _fetch(self, planned: Plan | Walk, credits_held: int, cost: int, *, deadline_at: float) -> Fetched:
        if isinstance(planned, Plan):
            return await fetch(planned, deadline_at)
        return await walk_within(planned, credits_held, cost, deadline_at=deadline_at, go_on=self._go_on)

    async def _go_on(self, _walked: Walked) -> bool:
        await trio.lowlevel.checkpoint()
        return not self._stopping()

    def _listing(self, recipe: str) -> Listing:
        listing = self._catalog.by_id(recipe)
        if listing is None:
            near = self._catalog.nearest(f"/v1/{recipe[:200]}")
            meant = None if near is None else near.removeprefix("/v1/")
            how = (
                f"Send {meant}." if meant else "Send the path of a data endpoint without /v1/, such as github/profile."
            )
            raise RecipeInvalid("recipe", "names no data endpoint", how, did_you_mean=meant)
        if not listing.available:
            how = "Choose another endpoint, or ask the operator to configure it."
            raise RecipeInvalid("recipe", "needs a credential that the operator has not configured", how)
        return listing

    def _args(self, listing: Listing, values: Mapping[str, Value]) -> Args:
        return Args(values, None, listing.site.credentials, self._now())


def _gathered(listing: Listing, planned: Plan | Walk, fetched: Fetched, credits_held: int) -> Gathered:
    """The fetched answer as a run keeps it."""
    result = explained(fetched)
    shaped = shape(listing.endpoint.archetype, result, _sealed)
    used = used_by(listing, fetched, credits_held=credits_held, cost_credits=_cost(listing))
    legs = legs_of(planned, fetched, shaped)
    share_out(legs, covered(used, shaped.coverage))
    return Gathered(
        shaped.data,
        orjson.dumps(shaped.data),
        legs,
        shaped.coverage,
        fetched.whole and fetched.failure is None,
        used,
        warnings_of(result),
    )


def _cost(listing: Listing) -> int:
    return credits_for(listing.endpoint.tier)


def _walked(listing: Listing) -> Listing:
    return replace(listing, endpoint=as_collecting(listing.endpoint))


def _names_limit(params: object) -> bool:
    """An empty value counts as not sent, as everywhere."""
    return isinstance(params, dict) and params.get("limit") not in (None, "")


def _within(endpoint: Endpoint, rows: int) -> int:
    """As many rows as a walk can have: where the endpoint collects by itself, its own maximum holds."""
    if endpoint.collect is None:
        return rows
    return min([rows, *(param.maximum for param in endpoint.params if param.name == "limit" and param.maximum)])


def _values(listing: Listing, params: object) -> dict[str, Value]:
    rules = declared_by(listing.endpoint)
    sent = {} if params is None else params
    takes = [name for name in rules.by_name if name not in _NOT_OF_MONITORS]
    fields = object_at("params", sent, takes, refuse=RecipeInvalid)
    try:
        return rules.read((name, _text(name, value)) for name, value in fields.items())
    except Refused as exc:
        name, _, problem = exc.message.removesuffix(".").partition(" ")
        details: Mapping[str, Any] = exc.details or {}
        meant, reason = details.get("did_you_mean"), details.get("reason", "invalid_param")
        raise _invalid(name, problem, meant, reason) from exc


def _text(name: str, value: object) -> str:
    """A JSON value as a query would have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and not -_INTEGERS_END <= value < _INTEGERS_END:
        raise _invalid(name, "is too large for a number; send it as text")
    if isinstance(value, str | int):
        return str(value)
    raise _invalid(name, f"must be text, a whole number or a boolean, not {kind_of(value)}")


def _invalid(name: str, problem: str, meant: str | None = None, reason: str = "invalid_param") -> RecipeInvalid:
    how = f"Send {meant}." if meant else "The endpoint's guide tells its parameters and an example of each."
    return RecipeInvalid(f"params.{name}", problem, how, did_you_mean=meant, reason=reason)


def _sealed(_state: State) -> str:
    """Nobody asks for a run's next page."""
    return ""
