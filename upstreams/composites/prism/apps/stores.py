"""One app in all stores that have reviews: analysis of its reviews and comparison of its listings (decisions 18)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from upstreams.composites.legs import Settled, attempt, check_any, failure_of, legs_of, part_of
from upstreams.composites.params import chosen, number, several
from upstreams.composites.prism.apps import reviews as verdicts
from upstreams.composites.prism.apps.listings import METHOD, listing, matched, nearest, rating_gap, threshold_of
from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import stores as records
from upstreams.model.endpoint import Endpoint, Platform, PriceRange, fixed
from upstreams.model.params import Args, Param, Value
from upstreams.model.roles import Role
from upstreams.model.steps import Part, Single, Steps

PARTS: Final = ("topics", "sentiment_timeline", "feature_requests", "responses")
DEPTH_MAX: Final = 600
_ROUNDS: Final = 12
_SHARED: Final = (
    Param("country", "The store's country, as a two-letter code.", "de", fold=True, pattern="[a-z]{2}"),
    Param("language", "The language, for stores whose apps or reviews depend on it.", "english"),
)


def id_param(platform: Platform) -> str:
    """Return the name of the parameter that contains an app's id in a store."""
    return f"{platform.slug}_id"


def app_reviews(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return an analysis of an app's reviews."""
    legs: list[Settled] = []
    apps = yield from _listed(platforms, (yield from _resolved(platforms, args, "query", legs)), args, legs)
    if "stores" in args.values:
        apps |= yield from _by_title(platforms, apps, args, legs)
    reviews = yield from _reviews([one for one in platforms if one.slug in apps], apps, args, legs)
    if not any(leg.answer for leg in legs if leg.part.resource in _resources(platforms)):
        raise failure_of(legs)
    included = chosen(args, "include", PARTS)
    listed = [(slug, one) for slug, rows in reviews.items() for one in rows]
    known = {slug: app for slug, app in apps.items() if app.get("title") is not None}
    record = records.app_reviews(
        reviews=reviews,
        apps=list(known.values()),
        ratings=[verdicts.rated(slug, rows, known.get(slug)) for slug, rows in reviews.items()],
        topics=verdicts.topics([one for _, one in listed]) if "topics" in included else None,
        sentiment_timeline=verdicts.timeline([one for _, one in listed]) if "sentiment_timeline" in included else None,
        feature_requests=verdicts.wishes(listed) if "feature_requests" in included else None,
        response_rate=None,
        method=verdicts.METHOD,
    )
    return Single(record, legs=legs_of(legs), credits_used=15 if len(reviews) > 1 else 10)


def _resources(platforms: Sequence[Platform]) -> set[str]:
    return {endpoint.resource for one in platforms if (endpoint := one.playing("app_reviews")) is not None}


def _resolved(
    platforms: Sequence[Platform], args: Args, name: str, legs: list[Settled]
) -> Generator[tuple[Part, ...], Any, dict[str, Record]]:
    """Return the app in each store, by its id if the request contains it.

    If not, it is the most similar search result.
    """
    found: dict[str, Record] = {
        one.slug: {"id": args.text(id_param(one))} for one in platforms if id_param(one) in args.values
    }
    words, wanted = args.text_or_none(name), _wanted(platforms, args)
    searched = [one for one in platforms if one.slug in wanted] if words is not None else []
    values: dict[str, Value] = {"query": words or ""}
    settled = yield from attempt(
        [part_of(one, "app_search", {**values, **_shared(one, "app_search", args)}, rows=5) for one in searched]
    )
    legs += settled
    found |= {leg.platform: nearest(leg.records, words or "") for leg in settled if leg.records}
    if not found:
        check_any(settled)
        raise failure_of(settled)
    return found


def _listed(
    platforms: Sequence[Platform], apps: dict[str, Record], args: Args, legs: list[Settled]
) -> Generator[tuple[Part, ...], Any, dict[str, Record]]:
    """Return the apps with their full listings, because searches return only some of the fields."""
    named = [one for one in platforms if one.slug in apps]
    settled = yield from attempt([_listing_part(one, apps[one.slug], args) for one in named])
    legs += settled
    return apps | {leg.platform: leg.record for leg in settled if leg.record is not None}


def _shared(platform: Platform, role: Role, args: Args) -> dict[str, Value]:
    """Return the request's country and language, as far as the store's endpoint accepts them."""
    endpoint = platform.playing(role)
    names = {param.name for param in endpoint.params} if endpoint is not None else set()
    return {name: args.values[name] for name in ("country", "language") if name in args.values and name in names}


def _reviews(
    platforms: Sequence[Platform], apps: Mapping[str, Record], args: Args, legs: list[Settled]
) -> Generator[tuple[Part, ...], Any, dict[str, list[Record]]]:
    """Return up to `depth` reviews from each store.

    Read a store's pages until it has returned `depth` reviews or has no more, for at most `_ROUNDS` pages.
    """
    depth = args.number("depth")
    found: dict[str, list[Record]] = {}
    parts = {one.slug: _first(one, apps[one.slug], args, depth) for one in platforms}
    for _ in range(_ROUNDS):
        settled = yield from attempt(list(parts.values()))
        legs += settled
        parts = {}
        for leg in settled:
            if leg.answer:
                rows = found.setdefault(leg.platform, [])
                rows += leg.records[: depth - len(rows)]
                if leg.next is not None and leg.records and len(rows) < depth:
                    parts[leg.platform] = replace(leg.part, cursor=leg.next)
        if not parts:
            break
    return found


def _first(platform: Platform, app: Record, args: Args, depth: int) -> Part:
    values = {**_named(platform, "app_reviews", app), **_shared(platform, "app_reviews", args)}
    return part_of(platform, "app_reviews", values, rows=depth)


def _named(platform: Platform, role: Role, app: Record) -> dict[str, Value]:
    """Return the value that identifies an app to a store's endpoint."""
    endpoint = platform.playing(role)
    return {"app_id" if endpoint is None else endpoint.named_by[0]: str(app["id"])}


def apps_lookup(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return an app's listing in each store, and whether the listings are the same app."""
    threshold = threshold_of(args)
    legs: list[Settled] = []
    apps = yield from _listed(platforms, (yield from _resolved(platforms, args, "title", legs)), args, legs)
    apps |= yield from _by_title(platforms, apps, args, legs)
    found = {slug: app for slug, app in apps.items() if app.get("title") is not None}
    if not found:
        raise failure_of(legs)
    record = records.apps_lookup(
        listings=[listing(slug, found.get(slug), legs) for slug in _wanted(platforms, args)],
        match=matched(list(found.values()), threshold),
        rating_gap=rating_gap(list(found.values())),
        method=METHOD,
    )
    return Single(record, legs=legs_of(legs))


def _by_title(
    platforms: Sequence[Platform], apps: Mapping[str, Record], args: Args, legs: list[Settled]
) -> Generator[tuple[Part, ...], Any, dict[str, Record]]:
    """Return the most similar app in each requested store not searched yet, by the title of a known listing."""
    title = next((str(app["title"]) for app in apps.values() if app.get("title")), None)
    tried = {leg.platform for leg in legs}
    missing = [one for one in platforms if one.slug in _wanted(platforms, args) and one.slug not in tried]
    if title is None or not missing:
        return {}
    values: dict[str, Value] = {"query": title}
    found = yield from attempt([part_of(one, "app_search", values, rows=5) for one in missing])
    legs += found
    return {leg.platform: nearest(leg.records, title) for leg in found if leg.records}


def _wanted(platforms: Sequence[Platform], args: Args) -> tuple[str, ...]:
    """Return the slugs of the stores in `stores`, and of those for which the request contains an app's id."""
    named = chosen(args, "stores", (one.slug for one in platforms))
    return tuple(one.slug for one in platforms if one.slug in named or id_param(one) in args.values)


def _listing_part(platform: Platform, app: Record, args: Args) -> Part:
    return part_of(platform, "app", {**_named(platform, "app", app), **_shared(platform, "app", args)})


def of_stores(listed: tuple[Platform, ...]) -> tuple[Endpoint, ...]:
    """Return the endpoints over these stores."""
    ids = tuple(
        Param(id_param(one), f"The app's id in {one.title}.", _example_of(one), length_max=100, platform=one.slug)
        for one in listed
    )
    where = several("stores", "Comma-separated slugs of the stores (default: all).", (one.slug for one in listed))
    return (
        Endpoint(
            resource="app-reviews",
            summary="An analysis of an app's reviews in one or more stores.",
            archetype=records.APP_REVIEWS,
            read=partial(app_reviews, listed),
            params=(
                Param("query", "The app's name.", "podcast player"),
                *ids,
                where,
                *_SHARED,
                number("depth", "Number of reviews per store", 50, least=1, most=DEPTH_MAX),
                several("include", "Comma-separated parts (default: all).", PARTS),
            ),
            one_of=(("query", *(one.name for one in ids)),),
            price=PriceRange(10, 15, "10 for reviews from one store, 15 for several stores."),
            kind="comments",
        ),
        Endpoint(
            resource="apps-lookup",
            summary="Compare an app's listings in several stores and check whether they are the same app.",
            archetype=records.APPS_LOOKUP,
            read=partial(apps_lookup, listed),
            params=(
                Param("title", "The app's name.", "podcast player"),
                *ids,
                where,
                *_SHARED,
                Param(
                    "match_threshold",
                    "Minimum similarity to count as the same app, 0 to 1.",
                    "0.8",
                    default="0.6",
                    length_max=10,
                ),
            ),
            one_of=(("title", *(one.name for one in ids)),),
            price=fixed(30),
            kind="analytics",
        ),
    )


def _example_of(platform: Platform) -> str:
    endpoint = platform.playing("app_reviews")
    if endpoint is None:
        return "com.example.app"
    return str(next(one for one in endpoint.params if one.name == endpoint.named_by[0]).example_value)
