"""Podcasts: shows and episodes, from Apple's directory and from feeds on any host."""

from __future__ import annotations

from collections.abc import Mapping

from upstreams.model.archetypes import COLLECTION, COLLECTION_LIST, POST_LIST
from upstreams.model.calls import Get, Pages, listing
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import NotFound, UpstreamError, UpstreamThrottled
from upstreams.model.paging import Once, Whole
from upstreams.model.params import Param
from upstreams.model.refusals import Pace, Refusals
from upstreams.model.steps import Answer
from upstreams.platforms.podcasts import reads
from upstreams.platforms.podcasts.reads import COUNTRY, FEED_URL, SHOW_ID
from upstreams.platforms.podcasts.records import (
    chart_episode_of,
    chart_show_of,
    episode_of,
    found_episode_of,
    show_of,
)

QUERY = Param("query", "Search query.", "economics", required=True)
_KEYS: Mapping[str, str] = {"country": "country", "term": "query", "limit": "limit"}
"""Maps the parameter names in Apple's refusals to our parameter names."""
_ONE_OF = (("id", "url"),)
_FOUND, _CHARTED = Once(size_max=200), Whole(size_max=100)


def _judge(answer: Answer) -> UpstreamError | None:
    """Treat 403 and 503 as throttling if Apple sends them.

    If the host of a feed sends them, they keep their usual meaning.
    """
    if answer.source != "feed":
        return UpstreamThrottled(answer.source) if answer.status in (403, 503) else None
    is_private = answer.status in (401, 403)
    return NotFound("The feed's host restricts access to it.", reason="account_private") if is_private else None


PLATFORM = Platform(
    slug="podcasts",
    hosts=("podcasts.apple.com",),
    title="Podcasts",
    sources={
        "directory": "https://itunes.apple.com",
        "charts": "https://rss.marketingtools.apple.com/api/v2",
        "feed": "https://{feed_host}",
    },
    docs_url="https://performance-partners.apple.com/search-api",
    refusals=Refusals(
        other=_judge, code="errorMessage", message="errorMessage", hidden=True, bad={200: _KEYS, 400: _KEYS}
    ),
    pace=Pace(20, per_s=60, sources=("directory",)),
    endpoints=(
        listing(
            "search",
            "Search for shows.",
            COLLECTION_LIST,
            Get("/search", term=QUERY, country=COUNTRY, media="podcast", entity="podcast"),
            Pages(show_of, _FOUND, "results"),
            kind="search",
        ),
        listing(
            "search/episodes",
            "Search for episodes.",
            POST_LIST,
            Get("/search", term=QUERY, country=COUNTRY, media="podcast", entity="podcastEpisode"),
            Pages(found_episode_of, _FOUND, "results"),
        ),
        Endpoint(
            "show",
            "One show.",
            COLLECTION,
            reads.show,
            (SHOW_ID, FEED_URL, COUNTRY),
            one_of=_ONE_OF,
            located=reads.ONE_SHOW,
            kind="profile",
            description="For a number, Apple's directory and the feed are read; for a feed URL, only the feed.",
            never=("followers", "owner.username", "owner.avatar_url", "owner.verified"),
        ),
        Endpoint(
            "episodes",
            "Episodes of a show, in the order of its feed.",
            POST_LIST,
            reads.episodes,
            (SHOW_ID, FEED_URL, COUNTRY, *reads.EPISODES.paging.params()),
            one_of=_ONE_OF,
            located=reads.ONE_SHOW,
            description="If the feed is unavailable, the last 200 episodes come from Apple's directory.",
            record=episode_of,
            never=("total",),
        ),
        listing(
            "charts",
            "The most popular shows in a country.",
            COLLECTION_LIST,
            Get("/{country}/podcasts/top/100/podcasts.json", country=COUNTRY).via("charts"),
            Pages(chart_show_of, _CHARTED, "feed.results"),
            kind="analytics",
        ),
        listing(
            "charts/episodes",
            "The most popular episodes in a country.",
            POST_LIST,
            Get("/{country}/podcasts/top/100/podcast-episodes.json", country=COUNTRY).via("charts"),
            Pages(chart_episode_of, _CHARTED, "feed.results"),
            kind="analytics",
        ),
    ),
)
