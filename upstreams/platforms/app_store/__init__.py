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
    hosts=("apps.apple.com", "itunes.apple.com"),
    title="App Store",
    sources={"search": "https://itunes.apple.com", "feeds": "https://itunes.apple.com"},
    docs_url="https://performance-partners.apple.com/search-api",
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
            "app-search",
            "Search for apps.",
            APP_LIST,
            Get("/search", term=QUERY, country=COUNTRY, media="software", entity="software"),
            Pages(app_of, Once(size_max=200), "results"),
            kind="search",
            role="app_search",
        ),
        Endpoint(
            "app-info",
            "One app.",
            APP,
            reads.app_info,
            (COUNTRY,),
            located=reads.ONE_APP,
            kind="profile",
            record=app_of,
        ),
        Endpoint(
            "developer-apps",
            "Apps by a developer.",
            APP_LIST,
            reads.developer_apps,
            (COUNTRY, *WHOLE.params()),
            located=reads.ONE_DEVELOPER,
            record=app_of,
            never=("total",),
        ),
        Endpoint(
            "app-reviews",
            "Reviews of an app in one country, 50 per page.",
            REVIEW_LIST,
            reads.app_reviews,
            (COUNTRY, SORT_BY),
            located=reads.REVIEWED,
            kind="comments",
            description="The store serves at most ten pages of an app's reviews per country.",
            record=review_of,
            never=("total",),
        ),
        Endpoint(
            "app-list",
            "The apps in a country's chart, in rank order.",
            APP_LIST,
            reads.app_list,
            (COLLECTION, COUNTRY, *WHOLE.params()),
            kind="analytics",
            record=chart_app_of,
            never=("total",),
        ),
    ),
)
