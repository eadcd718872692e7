"""Search on every platform that supports it (decisions 18)."""

from __future__ import annotations

from functools import partial

from upstreams.composites.legs import playing
from upstreams.composites.params import several
from upstreams.composites.search.everywhere import DESCRIPTION, search
from upstreams.model.archetypes.threads import EVERYWHERE
from upstreams.model.endpoint import Endpoint, Platform, fixed
from upstreams.model.params import Param, limit

QUERY = Param("query", "Search query.", "structured concurrency", required=True)


def over(platforms: tuple[Platform, ...]) -> Platform:
    """Return the search endpoint over these platforms."""
    searched = playing(platforms, "search")
    return Platform(
        slug="search",
        title="Search",
        sources={},
        docs_url="https://plg.uwaterloo.ca/~gvcormac/cormacksigir09-rrf.pdf",
        endpoints=(
            Endpoint(
                resource="everywhere",
                summary="Search for posts on every searchable platform, in one ranking.",
                archetype=EVERYWHERE,
                read=partial(search, searched),
                params=(
                    QUERY,
                    several(
                        "platforms",
                        "Comma-separated slugs (default: all).",
                        (one.slug for one in searched),
                    ),
                    limit(25, 10),
                ),
                price=fixed(20),
                kind="search",
                description=DESCRIPTION,
            ),
        ),
    )
