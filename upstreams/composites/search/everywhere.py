"""Merges the searches of all platforms into one ranking by reciprocal rank fusion (decisions 18)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import orjson

from upstreams.composites.addresses import subject_of
from upstreams.composites.legs import attempt, check_any, joined_states, legs_of, part_of, states_of
from upstreams.composites.params import chosen
from upstreams.model.archetypes import POST_LIST, Record
from upstreams.model.archetypes.threads import by_source, fused, sighting
from upstreams.model.endpoint import Platform
from upstreams.model.params import Args, State
from upstreams.model.steps import Page, Part, Steps

K: Final = 60
"""The constant of reciprocal rank fusion. The larger it is, the less the top ranks stand out."""
WEIGHTS: Final[Mapping[str, float]] = {"bluesky": 0.5, "mastodon": 0.5}
"""The weight of a platform that sorts search results by time instead of relevance. Other platforms have weight 1."""
_SEEN: Final = "seen"
"""The key in a cursor's state for the number of rows that each platform had on earlier pages."""
_NONE: Final[Mapping[str, int]] = {}
DESCRIPTION: Final = (
    "Searches all platforms in parallel and ranks the rows by reciprocal rank fusion: a row's score is the sum of "
    "weight / (60 + rank) over the platforms that return it. Rows about the same page are merged. `limit` is the "
    "number of rows per platform on a page; next_cursor continues all searches. Scoring: /docs/composites."
)


def search(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return a page of the merged ranking."""
    states, before = _states(args)
    settled = yield from attempt(_parts(platforms, args, states))
    check_any(settled)
    rows = {leg.platform: POST_LIST.rows(leg.records, []) for leg in settled if leg.answer}
    following = joined_states(settled)
    seen = {slug: before.get(slug, 0) + len(rows.get(slug, ())) for slug in following or ()}
    return Page(
        fuse(rows, before),
        None if following is None else {**following, _SEEN: orjson.dumps(seen).decode()},
        legs=legs_of(settled),
        beside=by_source(items_by_source=rows),
    )


def _states(args: Args) -> tuple[Mapping[str, State | None] | None, Mapping[str, int]]:
    """Return each platform's state, and the number of rows that it had on earlier pages."""
    if args.cursor is None:
        return None, _NONE
    own = {name: state for name, state in args.cursor.items() if name != _SEEN}
    return states_of(own), orjson.loads(str(args.cursor.get(_SEEN, "{}")))


def _parts(platforms: Sequence[Platform], args: Args, states: Mapping[str, State | None] | None) -> list[Part]:
    names = chosen(args, "platforms", (one.slug for one in platforms))
    values, rows = {"query": args.text("query")}, args.number("limit")
    return [
        part_of(one, "search", values, rows=rows, cursor=None if states is None else states[one.slug])
        for one in platforms
        if one.slug in (names if states is None else states)
    ]


def fuse(rows: Mapping[str, Iterable[Record]], before: Mapping[str, int] = _NONE) -> list[Record]:
    """Merge the platforms' rows, which are sorted best first, into one ranking.

    `before` is the number of rows that each platform had on earlier pages.
    """
    found: dict[str, list[tuple[float, int, str, Record]]] = {}
    for slug, of_platform in rows.items():
        for rank, row in enumerate(of_platform, before.get(slug, 0) + 1):
            key = subject_of(row["post"]) or f"{slug} {row['post']['id']}"
            found.setdefault(key, []).append((WEIGHTS.get(slug, 1.0) / (K + rank), rank, slug, row))
    fused_rows = [_fused(places) for places in found.values()]
    return sorted(fused_rows, key=lambda row: (-row["score"], row["platform"], row["found_in"][0]["rank"]))


def _fused(places: list[tuple[float, int, str, Record]]) -> Record:
    places.sort(key=lambda place: (-place[0], place[2], place[1]))
    _, _, slug, best = places[0]
    found_in = [
        sighting(platform=slug, rank=rank, id=row["post"]["id"], url=row["post"]["url"])
        for _, rank, slug, row in places
    ]
    shares = {slug: share for share, _, slug, _ in reversed(places)}  # reversed: each platform's best place counts
    score = round(sum(shares.values()), 6)
    return fused(post=best["post"], computed=best["computed"], platform=slug, score=score, found_in=found_in)
