"""Reads that reshape the App Store's answers: lookups start with the developer, and small feeds contain no list."""

from __future__ import annotations

import re
from typing import Any

from upstreams.model.calls import Get, made
from upstreams.model.errors import NotFound
from upstreams.model.fields import Json, obj, part, parts, rows, text
from upstreams.model.paging import Whole
from upstreams.model.params import Args, Param
from upstreams.model.paths import Within
from upstreams.model.steps import Answer, Page, Single, Steps
from upstreams.platforms.app_store.records import app_of, chart_app_of, review_of

_APPS = r"(?:apps|itunes)\.apple\.com/(?:([a-z]{2})/)?"
_APP_ADDRESS = rf"{_APPS}app/(?:[^/]+/)?id(\d+)"
_IN_COUNTRY = "([a-z]{2}/)?"
"""Matches the country before a number. It is present if the number was sent as a URL."""
COUNTRY = Param(
    "country",
    "The storefront, as a two-letter country code.",
    "de",
    default="us",
    fold=True,
    pattern="[a-z]{2}",
    problem="must be a two-letter country code, such as de",
)
APP = Param(
    "app_id",
    "The app's number, bundle id or App Store URL.",
    "284815942",
    required=True,
    forms=(_APP_ADDRESS,),
    pattern=rf"{_IN_COUNTRY}(id)?\d{{1,20}}|[A-Za-z][\w-]*(?:\.[\w-]+)+",
    problem="must be a number such as 284815942, or a bundle id such as com.example.app",
)
APP_NUMBER = Param(
    "app_id",
    "The app's number or App Store URL.",
    "284815942",
    required=True,
    strip="id",
    forms=(_APP_ADDRESS,),
    pattern=rf"{_IN_COUNTRY}\d{{1,20}}",
    problem="must be a number, such as 284815942",
)
DEVELOPER = Param(
    "developer_id",
    "The developer's number or App Store URL.",
    "281956209",
    required=True,
    strip="id",
    forms=(rf"{_APPS}developer/(?:[^/]+/)?id(\d+)",),
    pattern=rf"{_IN_COUNTRY}\d{{1,20}}",
    problem="must be a number, such as 281956209",
)
SORT_BY = Param(
    "sort_by", "Sort order of the reviews.", "mosthelpful", default="mostrecent", choices=("mostrecent", "mosthelpful")
)
COLLECTION = Param(
    "app_collection",
    "The chart to read.",
    "toppaidapplications",
    default="topfreeapplications",
    choices=("topfreeapplications", "toppaidapplications", "topgrossingapplications"),
)
ONE_APP, REVIEWED, ONE_DEVELOPER = (Within(COUNTRY, one) for one in (APP, APP_NUMBER, DEVELOPER))
_PAGES_MAX = 10
"""The maximum number of review pages that the store serves for an app in one country."""
_PAGE = re.compile(r"/page=(\d{1,3})/")
_NO_ENTRY = "The store sent an empty page, which it sometimes does even if reviews exist. Try again later."


def _number(app_id: str) -> str | None:
    digits = app_id.removeprefix("id")
    return digits if digits.isdecimal() else None


def _bundle(app_id: str) -> str | None:
    return None if _number(app_id) else app_id


_LOOKUP = Get("/lookup", id=made(_number, APP), bundleId=made(_bundle, APP), country=COUNTRY)
_LOOKUP_APPS = Get("/lookup", id=DEVELOPER, country=COUNTRY, entity="software", limit=200)
_CHART = Get("/{country}/rss/{collection}/limit=100/json", country=COUNTRY, collection=COLLECTION).via("feeds")
_FIRST = Get(
    "/{country}/rss/customerreviews/id={id}/sortby={sort_by}/json", country=COUNTRY, id=APP_NUMBER, sort_by=SORT_BY
).via("feeds")
_LATER = Get(
    "/{country}/rss/customerreviews/page={page}/id={id}/sortby={sort_by}/json",
    country=COUNTRY,
    id=APP_NUMBER,
    sort_by=SORT_BY,
).via("feeds")
WHOLE = Whole(size_max=200)


def _software(body: Any) -> list[Json]:
    """Return the apps in a lookup, whose other rows are developers."""
    return [row for row in rows(obj(body).get("results")) if row.get("wrapperType") == "software"]


def _entries(body: Any) -> list[Json]:
    """Return a feed's entries as a list.

    The store sends a single entry as an object, and an empty feed without `entry`.
    """
    found = obj(obj(body).get("feed")).get("entry", [])
    return [found] if isinstance(found, dict) else rows(found)


def app_info(args: Args) -> Steps:
    """Return one app. Raises NotFound if the number belongs to a developer, because a lookup finds both."""
    answer = yield _LOOKUP.at(args)
    found = _software(answer.body)
    if not found:
        raise NotFound("The store has no such app in this country.")
    return Single(app_of(found[0]))


def developer_apps(args: Args) -> Steps:
    """Return a developer's apps. The lookup for an unknown developer has no rows, not even one for the developer."""
    answer = yield _LOOKUP_APPS.at(args)
    if not rows(obj(answer.body).get("results")):
        raise NotFound("The store has no such developer in this country.")
    return _part(args, [app_of(row) for row in _software(answer.body)])


def app_list(args: Args) -> Steps:
    """Return the apps in a chart, in rank order."""
    answer = yield _CHART.at(args)
    return _part(args, [chart_app_of(entry) for entry in _entries(answer.body)])


def _part(args: Args, records: list[Json]) -> Page:
    """Return one page of a list that the store sends whole."""
    left = records[args.position("o", 0) :]
    return Page(left[: args.number("limit")], WHOLE.following(args, Answer(200, {}, None), {}, left))


def app_reviews(args: Args) -> Steps:
    """Return a page of reviews.

    In an older form of the feed, the first entry is the app itself, which has a name but no rating. The first page is
    requested without a page number, because the store then answers more reliably. If a page is empty but an earlier
    page reported more pages, the list has not ended.
    """
    page = args.position("p", 1)
    answer = yield _FIRST.at(args) if page == 1 else _LATER.at(args, page=str(page))
    entries = _entries(answer.body)
    last = min(_last_page(part(obj(answer.body), "feed")) or args.position("l", 0), _PAGES_MAX)
    found = [review_of(entry, args.values) for entry in entries if "im:rating" in entry or "im:name" not in entry]
    following = {"p": page + 1, "l": last} if page < last else None
    return Page(found, following, warnings=() if entries else (_NO_ENTRY,))


def _last_page(feed: Json) -> int:
    """Return the number of the last page, from its URL in the feed; 0 if the feed contains no such URL."""
    links = (part(link, "attributes") for link in parts(feed, "link"))
    address = next((text(link, "href") for link in links if link.get("rel") == "last"), None)
    found = _PAGE.search(address or "")
    return int(found[1]) if found else 0
