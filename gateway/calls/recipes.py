"""The recipes of monitors: endpoints of the catalog, validated, priced and called as in the API (spec 2.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

import orjson
import trio

from billing.charges.refunds import NOTHING_USED, pages_held, used_by_pages
from gateway.calls.planning import quote
from gateway.calls.pricing import cost_of, used_by_error
from gateway.calls.shaping import RUN, Shaped, error_of, explained, leg_record, shape_call, share_out
from gateway.http.errors import InvalidParam
from gateway.http.params import declared_by
from limits.errors import LimitError
from scheduler.json_input import kind_of, object_at
from scheduler.recipes import Gathered, GatheringFailed, Recipe, RecipeInvalid, RecipePage
from upstreams.catalog import Catalog, Listing
from upstreams.fetching.aside import LONG_BYTES
from upstreams.fetching.bodies import Body, joined_bodies
from upstreams.fetching.plan import Conduct, Plan, as_collecting, prepare
from upstreams.fetching.walk import run_plan
from upstreams.model.endpoint import Endpoint
from upstreams.model.errors import InvalidArgument, UpstreamError, UpstreamFailed
from upstreams.model.params import Args, State, Value
from upstreams.model.steps import Fetched, Leg, Missing, Page, Single
from upstreams.transport.http import BODY_BYTES_MAX

_NOT_OF_MONITORS = ("cursor", "dry_run", "fields", "format", "max_credits")
_RESULT_BYTES_MAX = BODY_BYTES_MAX
_INTEGERS_END = 2**63
"""Integers from this value on are rejected, because many JSON libraries lose the precision of larger integers."""


class CatalogRecipes:
    """The implementation of `scheduler.recipes.Recipes`. `shares` limits the concurrent recipe calls per platform.

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
        """Validate a recipe as a client sent it. A list reads `rows` rows, unless its parameters set a limit.

        Raises:
            RecipeInvalid: the recipe is not valid; nothing was called.
        """
        listing = self._listing(recipe)
        values = _values(listing, params)
        is_walked = False
        if rows is not None and listing.endpoint.archetype.many and not _names_limit(params):
            values["limit"] = _within(listing.endpoint, rows)
            is_walked = listing.endpoint.collect is None
            listing = _walked(listing)
        try:
            planned = prepare(listing.site, listing.endpoint, self._args(listing, values))
        except InvalidArgument as exc:
            raise _invalid(exc.param, exc.problem, reason=exc.reason) from exc
        planned.dismiss()
        least, most = quote(planned.reach, _cost(listing))
        endpoint, platform = listing.endpoint, listing.site.platform
        never = endpoint.unfilled
        is_most_usual = endpoint.price is not None and endpoint.price.is_most_usual
        return Recipe(
            listing.path, values, endpoint.archetype, platform.slug, least, most, is_walked, never, is_most_usual
        )

    async def gather(
        self,
        recipe: Recipe,
        credits_held: int,
        *,
        timeout_s: float,
        account_id: str = "",
        as_sent: bool = False,
        cursor: State | None = None,
    ) -> Gathered:
        """Call a recipe within the reserved credits. `timeout_s` starts once the account may call the platform.

        With `as_sent`, the result is the upstream's original body, except for a composite (spec 2.7). With a `cursor`,
        it is a later page of a list. The concurrent calls per platform are shared among accounts, so the call may wait
        first.

        Raises:
            GatheringFailed: there was no usable response.
        """
        listing = self._catalog.at(recipe.path)
        assert listing is not None, "recipes come from the catalog"
        if recipe.is_walked:
            listing = _walked(listing)
        planned = prepare(
            listing.site, listing.endpoint, self._args(listing, recipe.values, cursor, account_id), keeps=as_sent
        )
        async with self._shares[recipe.platform]:
            began = self._clock()
            try:
                return await self._gather(listing, planned, credits_held, began + timeout_s, account_id)
            except (UpstreamError, LimitError) as exc:
                used = used_by_error(exc, listing.endpoint, planned, credits_held)
                raise self._failed(listing, exc, began, used) from exc

    def page_price(self, recipe: str) -> int:
        """Return the price of a page of a list."""
        return _cost(self._listing(recipe))

    async def page(self, recipe: Recipe, state: State | None, *, timeout_s: float, account_id: str = "") -> RecipePage:
        """Return one page of a list, even if its endpoint collects pages itself (`scheduler.recipes.RecipePages`).

        Raises:
            GatheringFailed: the page could not be read.
        """
        listing = self._catalog.at(recipe.path)
        assert listing is not None, "recipes come from the catalog"
        endpoint = replace(listing.endpoint, collect=None)
        args = self._args(listing, recipe.values, state, account_id)
        async with self._shares[recipe.platform]:
            began = self._clock()
            try:
                planned = prepare(listing.site, endpoint, args)
                fetched = await run_plan(planned, Conduct(1, stopping=self._stopping), began + timeout_s)
            except (UpstreamError, LimitError) as exc:
                raise self._failed(listing, exc, began) from exc
        assert isinstance(fetched.result, Page), "reading a list returns pages"
        return RecipePage(fetched.result.records, fetched.result.next)

    def _failed(
        self, listing: Listing, failure: UpstreamError | LimitError, began: float, used: int = NOTHING_USED
    ) -> GatheringFailed:
        source = str(getattr(failure, "source", listing.site.platform.slug))
        missing = Missing(str(failure), source, self._clock() - began, failure=failure)
        leg = {**leg_record(Leg(_name(listing), missing)), "credits_used": used}
        return GatheringFailed(str(failure), [leg], used)

    async def _gather(
        self, listing: Listing, planned: Plan, credits_held: int, deadline_at: float, account_id: str
    ) -> Gathered:
        pages_max = pages_held(credits_held, _cost(listing), planned.reach.pages_max)
        fetched = await run_plan(planned, Conduct(pages_max, stopping=self._stopping), deadline_at)
        gather = partial(_gathered, listing, planned, fetched, credits_held)
        if fetched.body_bytes <= LONG_BYTES:
            return gather()
        slug = listing.site.platform.slug
        return await listing.site.aside.run(gather, deadline_at, source=slug, account_id=account_id)

    def _listing(self, recipe: str) -> Listing:
        listing = self._catalog.by_id(recipe)
        if listing is None:
            near = self._catalog.nearest(f"/v1/{recipe[:200]}")
            meant = None if near is None else near.removeprefix("/v1/")
            how = (
                f"Send {meant}." if meant else "Send the path of a data endpoint without /v1/, such as github/profile."
            )
            raise RecipeInvalid("recipe", "is not a data endpoint", how, did_you_mean=meant)
        if not listing.available:
            how = "Choose another endpoint, or ask the operator to configure it."
            raise RecipeInvalid("recipe", "needs a credential that the operator has not configured", how)
        return listing

    def _args(
        self, listing: Listing, values: Mapping[str, Value], cursor: State | None = None, account_id: str = ""
    ) -> Args:
        return Args(values, cursor, listing.site.credentials, self._now(), account_id)


def _gathered(listing: Listing, planned: Plan, fetched: Fetched, credits_held: int) -> Gathered:
    """Return the fetched response as a run stores it."""
    cost = _cost(listing)
    shaped, used = shape_call(listing, fetched, credits_held, cost, seal=_sealed, terms=RUN)
    legs, warnings = _legs(listing, planned, fetched, shaped, used=used), _warnings(explained(fetched))
    data, rows = shaped.data, shaped.data.get("items")
    if fetched.bodies and "legs" not in data:
        bodies, left_out = _within_bound(fetched.bodies)
        data, warnings = joined_bodies(bodies), (*warnings, *left_out)
    try:
        body = orjson.dumps(data)
    except orjson.JSONEncodeError as exc:
        raise UpstreamFailed(fetched.source, "its response is nested too deeply to be stored") from exc
    return Gathered(
        data,
        body,
        legs,
        shaped.coverage,
        fetched.whole and fetched.failure is None,
        used_by_pages(credits_held, cost, fetched.pages_used),
        warnings,
        len(rows) if isinstance(rows, list) else None,
        fetched.result.next if isinstance(fetched.result, Page) else None,
    )


def _within_bound(bodies: tuple[Body, ...]) -> tuple[tuple[Body, ...], tuple[str, ...]]:
    """Return as many bodies as fit into a result, and a warning if some were left out."""
    sizes = accumulate(len(body) for _, body in bodies)
    kept = tuple(body for body, size in zip(bodies, sizes, strict=True) if size <= _RESULT_BYTES_MAX)
    if len(kept) == len(bodies):
        return kept, ()
    warning = f"the result contains {len(kept)} of {len(bodies)} response bodies (limit: {_RESULT_BYTES_MAX} bytes)"
    return kept, (warning,)


def _legs(listing: Listing, planned: Plan, fetched: Fetched, shaped: Shaped, *, used: int) -> list[dict[str, Any]]:
    """Return the legs of a composite, or the single leg of any other response.

    A walk's leg includes its page and row counts.
    """
    legs: list[dict[str, Any]] | None = shaped.data.get("legs")
    if legs is not None:
        return legs
    leg = leg_record(Leg(_name(listing), fetched))
    if planned.limit is not None:
        leg.update(_extent(planned, fetched))
    share_out([leg], used)
    return [leg]


def _name(listing: Listing) -> str:
    return f"{listing.site.platform.slug}/{listing.endpoint.resource}"


def _extent(planned: Plan, fetched: Fetched) -> dict[str, Any]:
    """Return how many pages and rows a walk read. All `pages` are billed. A list that ends early has fewer rows."""
    assert isinstance(fetched.result, Page), "a walk's answer is one page"
    return {
        "status": "partial" if fetched.shortfall else "ok",
        "error": None if fetched.failure is None else error_of(fetched.failure),
        "pages": fetched.pages_used,
        "pages_needed": planned.reach.pages_needed,
        "rows": len(fetched.result.records),
        "rows_asked": planned.limit,
    }


def _warnings(result: Page | Single) -> tuple[str, ...]:
    """Return the warnings: from the upstream, on why a walk has too few rows, and on missing legs."""
    missing = [
        f"{leg.endpoint} is missing: {leg.answer.problem}" for leg in result.legs if isinstance(leg.answer, Missing)
    ]
    return tuple(dict.fromkeys((*result.warnings, *missing)))


def _cost(listing: Listing) -> int:
    return cost_of(listing.endpoint)


def _walked(listing: Listing) -> Listing:
    return replace(listing, endpoint=as_collecting(listing.endpoint))


def _names_limit(params: object) -> bool:
    """Return whether a limit is set. An empty value counts as absent, as in all parameters."""
    return isinstance(params, dict) and params.get("limit") not in (None, "")


def _within(endpoint: Endpoint, rows: int) -> int:
    """Limit the rows of a walk to the maximum of an endpoint that collects pages itself."""
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
    except InvalidParam as exc:
        raise _invalid(exc.param, exc.problem, exc.meant, exc.reason) from exc


def _text(name: str, value: object) -> str:
    """Convert a JSON value to the form used in a query."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and not -_INTEGERS_END <= value < _INTEGERS_END:
        raise _invalid(name, "is too large for a number; send it as text")
    if isinstance(value, str | int):
        return str(value)
    raise _invalid(name, f"must be text, a whole number or a boolean, not {kind_of(value)}")


def _invalid(name: str, problem: str, meant: str | None = None, reason: str = "invalid_param") -> RecipeInvalid:
    how = f"Send {meant}." if meant else "The endpoint's guide lists its parameters, with an example of each."
    return RecipeInvalid(f"params.{name}", problem, how, did_you_mean=meant, reason=reason)


def _sealed(_state: State) -> str:
    """Return an empty cursor, because a run has no next page."""
    return ""
