"""Steam's recordings as cases, with handmade bodies for search and reviews.

Two recordings belong to no endpoint: `appdetails__price_overview_many.json`, the call for the prices of many apps, and
`b_applist.json`, the list of the names of all apps.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, below, each, ident, rows, table, utc
from upstreams.model.archetypes import app, review, reviewer
from upstreams.model.errors import NotFound
from upstreams.model.fields import plain

_STORE = "store.steampowered.com"


def cents(path: str) -> Any:
    """Return a price, given in cents."""
    return lambda row: None if at(row, path) is None else at(row, path) / 100


def first(path: str) -> Any:
    """Return the first entry in a list."""
    return lambda row: next(iter(at(row, path) or []), None)


def day(row: Json) -> str | None:
    """Return the date of release, which has the recordings' format."""
    written = at(row, "release_date.date")
    if written is None:
        return None
    form = "%d %b, %Y" if written[0].isdecimal() else "%b %d, %Y"
    return f"{datetime.strptime(written, form):%Y-%m-%d}T00:00:00Z"  # noqa: DTZ007 - it is a day


def systems(row: Json) -> list[str] | None:
    """Return the systems on which an app runs."""
    found = at(row, "platforms")
    return None if found is None else [name for name in ("windows", "mac", "linux") if found[name]]


def labels(row: Json) -> list[str]:
    """Return the names of the genres, and after them those of the categories."""
    return [one["description"] for one in (*row.get("genres", ()), *row.get("categories", ()))]


APP = table(
    app,
    id=ident("steam_appid"),
    store=lambda _row: "steam",
    url=lambda row: f"https://{_STORE}/app/{row['steam_appid']}",
    title="name",
    description=lambda row: plain(at(row, "short_description")),
    icon="header_image",
    image_urls=each("screenshots", "path_full"),
    developer_name=first("developers"),
    developer_website="website",
    category=lambda row: at(row, "genres.0.description"),
    categories=labels,
    price=cents("price_overview.final"),
    currency="price_overview.currency",
    price_displayed="price_overview.final_formatted",
    is_free="is_free",
    reviews_count="recommendations.total",
    released_at=day,
    ext={
        "type": "type",
        "developers": "developers",
        "publishers": "publishers",
        "platforms": systems,
        "metacritic": "metacritic.score",
        "coming_soon": "release_date.coming_soon",
        "release_date": "release_date.date",
        "initial_price_cents": "price_overview.initial",
        "discount_percent": "price_overview.discount_percent",
    },
)
FOUND = table(
    app,
    id=ident("id"),
    store=lambda _row: "steam",
    url=lambda row: f"https://{_STORE}/{'sub' if row['type'] == 'sub' else 'app'}/{row['id']}",
    title="name",
    icon="tiny_image",
    price=cents("price.final"),
    currency="price.currency",
    is_free=lambda row: None if at(row, "price.final") is None else at(row, "price.final") == 0,
    ext={
        "type": "type",
        "platforms": systems,
        "metacritic": lambda row: int(row["metascore"]) if row["metascore"] else None,
        "initial_price_cents": "price.initial",
    },
)
REVIEWS = table(
    review,
    id="recommendationid",
    entity_id=lambda _row: "892970",
    text="review",
    rating=lambda row: int(row["voted_up"]),
    rating_max=lambda _row: 1,
    author=below("author", table(reviewer, id="steamid", reviews_count="num_reviews")),
    helpful_votes="votes_up",
    language="language",
    published_at=utc("timestamp_created"),
    ext={
        "updated_at": utc("timestamp_updated"),
        "votes_funny": "votes_funny",
        "weighted_vote_score": ident("weighted_vote_score"),
        "comment_count": "comment_count",
        "steam_purchase": "steam_purchase",
        "received_for_free": "received_for_free",
        "written_during_early_access": "written_during_early_access",
        "primarily_steam_deck": "primarily_steam_deck",
        "games_owned": "author.num_games_owned",
        "playtime_forever_min": "author.playtime_forever",
        "playtime_at_review_min": "author.playtime_at_review",
    },
)


def recorded(number: str) -> Case:
    """Return the case for an app's details."""
    return Case(
        f"the app {number}",
        "app",
        {"app_id": number, "country": "us", "language": "english"},
        {f"{_STORE}/api/appdetails": f"appdetails__{number}.json"},
        lambda body: APP(body[number]["data"]),
    )


SOLD: Json = {
    "type": "game",
    "name": "Parsers 2",
    "id": 4711,
    "price": {"currency": "USD", "initial": 1999, "final": 999},
    "tiny_image": "https://shared.example.com/4711.jpg",
    "metascore": "90",
    "platforms": {"windows": True, "mac": False, "linux": True},
}
UNPRICED: Json = {"type": "sub", "name": "Parsers 3", "id": 4712, "tiny_image": "", "metascore": ""}
DETAILS: Json = {
    "type": "game",
    "name": "Parsers 4",
    "steam_appid": 4713,
    "is_free": True,
    "short_description": "Reads &amp; writes.",
    "header_image": "https://shared.example.com/4713.jpg",
    "genres": [{"id": "1", "description": "Strategy"}],
    "categories": [{"id": 2, "description": "Single-player"}],
    "release_date": {"coming_soon": False, "date": "Sep 24, 2024"},
}
REVIEW: Json = {
    "recommendationid": "1001",
    "author": {
        "steamid": "70000000000000001",
        "num_games_owned": 12,
        "num_reviews": 3,
        "playtime_forever": 600,
        "playtime_at_review": 90,
    },
    "language": "english",
    "review": "It <reads> everything.",
    "timestamp_created": 1_700_000_000,
    "timestamp_updated": 1_700_000_100,
    "voted_up": True,
    "votes_up": 4,
    "votes_funny": 1,
    "weighted_vote_score": "0.523809552192687988",
    "comment_count": 2,
    "steam_purchase": True,
    "received_for_free": False,
    "written_during_early_access": False,
    "primarily_steam_deck": False,
}
"""The bodies above are handmade, because no recording contains them."""

CASES: tuple[Case, ...] = (
    *map(recorded, ("892970", "1997660", "322330", "346110")),
    Case(
        "a free app of a country that writes days otherwise",
        "app",
        {"app_id": "4713", "country": "us", "language": "english"},
        {f"{_STORE}/api/appdetails": {"4713": {"success": True, "data": DETAILS}}},
        lambda body: APP(body["4713"]["data"]),
    ),
    Case(
        "an app that is not sold",
        "app",
        {"app_id": "404", "country": "us", "language": "english"},
        {f"{_STORE}/api/appdetails": {"404": {"success": False}}},
        refused=NotFound,
    ),
    Case(
        "the end of the reviews",
        "app/reviews",
        {"app_id": "892970"},
        {f"{_STORE}/appreviews/892970": "appreviews__empty.json"},
        rows("reviews", REVIEWS),
        has_more=False,
    ),
    Case(
        "reviews by hand",
        "app/reviews",
        {"app_id": "892970"},
        {
            f"{_STORE}/appreviews/892970": {
                "success": 1,
                "query_summary": {"num_reviews": 2, "total_reviews": 45},
                "cursor": "AoJ4s+b=",
                "reviews": [REVIEW, {**REVIEW, "recommendationid": "1002", "weighted_vote_score": 0}],
            }
        },
        rows("reviews", REVIEWS),
        has_more=True,
        total=45,
    ),
    Case(
        "apps that a search found",
        "search",
        {"query": "parsers"},
        {f"{_STORE}/api/storesearch": {"total": 2, "items": [SOLD, UNPRICED]}},
        rows("items", FOUND),
        has_more=False,
        total=2,
    ),
)
