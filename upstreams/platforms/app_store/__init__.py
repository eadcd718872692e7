"""Apple's App Store: apps, reviews, developers and charts, from the search API and the store's feeds."""

from __future__ import annotations

from upstreams.model.archetypes import APP, APP_LIST, REVIEW_LIST
from upstreams.model.calls import Get, Pages, listing
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import InvalidArgument, UpstreamError
from upstreams.model.paging import Once
from upstreams.model.params import Param
from upstreams.model.refusals import Pace, Refusals
from upstreams.model.steps import Answer
from upstreams.platforms.app_store import reads
from upstreams.platforms.app_store.reads import COLLECTION, COUNTRY, SORT_BY, WHOLE
from upstreams.platforms.app_store.records import app_of, chart_app_of, review_of

QUERY = Param("query", "Search query.", "podcast player", required=True)
_KEYS = {"country": "country", "term": "query", "limit": "limit"}
"""Maps the parameter names in Apple's refusals to our parameter names."""


def _judge(answer: Answer) -> UpstreamError | None:
    """Reject an unknown storefront, because the feeds only return 400 with an empty body for it."""
    says_nothing = answer.status == 400 and answer.body in (None, "")
    return InvalidArgument("country", "is not an App Store storefront") if says_nothing else None


PLATFORM = Platform(
    slug="app_store",
    title="App Store",
    category="apps",
    docs_url="https://performance-partners.apple.com/search-api",
    terms_url="https://www.apple.com/legal/internet-services/itunes/",
    checked_on="2026-11-23",
    hosts=("apps.apple.com", "itunes.apple.com"),
    sources={"search": "https://itunes.apple.com", "feeds": "https://itunes.apple.com"},
    refusals=Refusals(
        other=_judge,
        code="errorMessage",
        message="errorMessage",
        hidden=True,
        throttled=(403, 503),
        bad={200: _KEYS, 400: _KEYS},
    ),
    pace=Pace(20, per_s=60),
    endpoints=(
        listing(
            resource="app-search",
            summary="Search for apps.",
            archetype=APP_LIST,
            call=Get("/search", term=QUERY, country=COUNTRY, media="software", entity="software"),
            pages=Pages(app_of, Once(size_max=200), at="results"),
            kind="search",
            role="app_search",
        ),
        Endpoint(
            resource="app-info",
            summary="One app.",
            archetype=APP,
            read=reads.app_info,
            params=(COUNTRY,),
            located=reads.ONE_APP,
            kind="profile",
            record=app_of,
        ),
        Endpoint(
            resource="developer-apps",
            summary="Apps by a developer.",
            archetype=APP_LIST,
            read=reads.developer_apps,
            params=(COUNTRY, *WHOLE.params()),
            located=reads.ONE_DEVELOPER,
            record=app_of,
            never=("total",),
        ),
        Endpoint(
            resource="app-reviews",
            summary="Reviews of an app in one country, 50 per page.",
            archetype=REVIEW_LIST,
            read=reads.app_reviews,
            params=(COUNTRY, SORT_BY),
            located=reads.REVIEWED,
            kind="comments",
            description="The store serves at most ten pages of an app's reviews per country.",
            record=review_of,
            never=("total",),
        ),
        Endpoint(
            resource="app-list",
            summary="The apps in a country's chart, in rank order.",
            archetype=APP_LIST,
            read=reads.app_list,
            params=(COLLECTION, COUNTRY, *WHOLE.params()),
            kind="analytics",
            record=chart_app_of,
            never=("total",),
        ),
    ),
)
