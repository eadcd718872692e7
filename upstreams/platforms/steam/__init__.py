"""Steam: apps in its store, their prices and their reviews."""

from __future__ import annotations

from upstreams.model.archetypes import APP, APP_LIST, REVIEW_LIST
from upstreams.model.calls import Get, Pages, listing
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import NotFound, UpstreamError, UpstreamThrottled
from upstreams.model.fields import obj
from upstreams.model.paging import ByToken, Once
from upstreams.model.params import Args, Param
from upstreams.model.refusals import Pace, Refusals
from upstreams.model.steps import Answer, Single, Steps
from upstreams.platforms.steam.records import app_of, found_app_of, review_of

QUERY = Param("query", "Search query, matched against names.", "portal", required=True)
APP_ID = Param(
    "app_id",
    "The app's number or store URL.",
    "892970",
    required=True,
    forms=(r"(?:store\.steampowered|steamcommunity)\.com/app/(\d+)(?:/.*)?",),
    pattern=r"\d{1,10}",
    problem="must be a number, such as 892970",
)
COUNTRY = Param(
    "country", "The country of the prices, as a two-letter code.", "de", default="us", fold=True,
    pattern="[a-z]{2}", problem="must be a two-letter country code, such as de",
)  # fmt: skip
LANGUAGE = Param(
    "language", "The language of the texts, as Steam names it. Dates are available only in English.", "german",
    default="english", fold=True, pattern="[a-z]{3,20}",
)  # fmt: skip
REVIEW_LANGUAGE = Param(
    "language", "Only reviews in this language, as Steam names it: english, schinese, brazilian.", "english",
    default="all", fold=True, pattern="[a-z]{3,20}",
)  # fmt: skip
FILTER = Param(
    "filter",
    "Sort order: newest first, or last changed first.",
    "updated",
    default="recent",
    choices=("recent", "updated"),
)
REVIEW_TYPE = Param(
    "review_type", "Only reviews with this verdict.", "negative", default="all", choices=("all", "positive", "negative")
)
PURCHASE_TYPE = Param(
    "purchase_type", "Only reviews by people who bought the app on Steam, or elsewhere.", "steam", default="all",
    choices=("all", "steam", "non_steam_purchase"),
)  # fmt: skip
_DETAILS = Get("/api/appdetails", appids=APP_ID, cc=COUNTRY, l=LANGUAGE)


def _judge(answer: Answer) -> UpstreamError | None:
    """Treat an empty answer as throttling, because it does not mean that the app does not exist."""
    return UpstreamThrottled(answer.source) if answer.status < 400 and answer.body is None else None


def _app(args: Args) -> Steps:
    """Return one app, which the answer contains under its number.

    The answer has no data for apps that do not exist or are not sold in the country.
    """
    answer = yield _DETAILS.at(args)
    found = obj(obj(answer.body).get(args.text("app_id")))
    if found.get("success") is False:
        raise NotFound("Steam does not have this app in this country.")
    return Single(app_of(obj(found.get("data"))))


PLATFORM = Platform(
    slug="steam",
    title="Steam",
    category="apps",
    docs_url="https://partner.steamgames.com/doc/store/getreviews",
    terms_url="https://steamcommunity.com/dev/apiterms",
    checked_on="2026-11-23",
    hosts=("steampowered.com", "steamcommunity.com"),
    sources={"store": "https://store.steampowered.com"},
    refusals=Refusals(other=_judge, throttled=(403,)),
    pace=Pace(150, per_s=300),
    endpoints=(
        listing(
            resource="search",
            summary="Search for apps and packages by name.",
            archetype=APP_LIST,
            call=Get("/api/storesearch", term=QUERY, cc=COUNTRY, l=LANGUAGE),
            pages=Pages(found_app_of, Once(size="", total="total"), at="items"),
        ),
        Endpoint(
            resource="app",
            summary="One app.",
            archetype=APP,
            read=_app,
            params=(APP_ID, COUNTRY, LANGUAGE),
            kind="profile",
            record=app_of,
        ),
        listing(
            resource="app/reviews",
            summary="Reviews of an app, newest first.",
            archetype=REVIEW_LIST,
            call=Get(
                "/appreviews/{app_id}",
                app_id=APP_ID,
                json="1",
                filter=FILTER,
                language=REVIEW_LANGUAGE,
                review_type=REVIEW_TYPE,
                purchase_type=PURCHASE_TYPE,
            ),
            pages=Pages(
                review_of,
                ByToken("cursor", first="*", size="num_per_page", total="query_summary.total_reviews", empty_ends=True),
                at="reviews",
            ),
            kind="comments",
        ),
    ),
)
