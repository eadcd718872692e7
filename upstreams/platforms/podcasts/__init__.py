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
    title="Podcasts",
    category="audio",
    docs_url="https://performance-partners.apple.com/search-api",
    terms_url="https://www.apple.com/legal/internet-services/itunes/",
    checked_on="2026-11-23",
    hosts=("podcasts.apple.com",),
    sources={
        "directory": "https://itunes.apple.com",
        "charts": "https://rss.marketingtools.apple.com/api/v2",
        "feed": "https://{feed_host}",
    },
    refusals=Refusals(
        other=_judge, code="errorMessage", message="errorMessage", hidden=True, bad={200: _KEYS, 400: _KEYS}
    ),
    pace=Pace(20, per_s=60, sources=("directory",)),
    endpoints=(
        listing(
            resource="search",
            summary="Search for shows.",
            archetype=COLLECTION_LIST,
            call=Get("/search", term=QUERY, country=COUNTRY, media="podcast", entity="podcast"),
            pages=Pages(show_of, _FOUND, at="results"),
            kind="search",
        ),
        listing(
            resource="search/episodes",
            summary="Search for episodes.",
            archetype=POST_LIST,
            call=Get("/search", term=QUERY, country=COUNTRY, media="podcast", entity="podcastEpisode"),
            pages=Pages(found_episode_of, _FOUND, at="results"),
        ),
        Endpoint(
            resource="show",
            summary="One show.",
            archetype=COLLECTION,
            read=reads.show,
            params=(SHOW_ID, FEED_URL, COUNTRY),
            one_of=_ONE_OF,
            located=reads.ONE_SHOW,
            kind="profile",
            description="For a number, Apple's directory and the feed are read; for a feed URL, only the feed.",
            never=("followers", "owner.username", "owner.avatar_url", "owner.verified"),
        ),
        Endpoint(
            resource="episodes",
            summary="Episodes of a show, in the order of its feed.",
            archetype=POST_LIST,
            read=reads.episodes,
            params=(SHOW_ID, FEED_URL, COUNTRY, *reads.EPISODES.paging.params()),
            one_of=_ONE_OF,
            located=reads.ONE_SHOW,
            description="If the feed is unavailable, the last 200 episodes come from Apple's directory.",
            record=episode_of,
            never=("total",),
        ),
        listing(
            resource="charts",
            summary="The most popular shows in a country.",
            archetype=COLLECTION_LIST,
            call=Get("/{country}/podcasts/top/100/podcasts.json", country=COUNTRY).via("charts"),
            pages=Pages(chart_show_of, _CHARTED, at="feed.results"),
            kind="analytics",
        ),
        listing(
            resource="charts/episodes",
            summary="The most popular episodes in a country.",
            archetype=POST_LIST,
            call=Get("/{country}/podcasts/top/100/podcast-episodes.json", country=COUNTRY).via("charts"),
            pages=Pages(chart_episode_of, _CHARTED, at="feed.results"),
            kind="analytics",
        ),
    ),
)
