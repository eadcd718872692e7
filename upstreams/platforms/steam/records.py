"""Map Steam's JSON to our records. Steam states prices in hundredths of the currency."""

from __future__ import annotations

import re
from datetime import date

from upstreams.model.archetypes import app, review, reviewer
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import Reader, of

_STORE = "https://store.steampowered.com"
_BELOW_ZERO = 2**31
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY = re.compile(
    r"(?:(?P<day>\d{1,2}) (?P<month>[A-Z][a-z]{2,8})|(?P<first>[A-Z][a-z]{2,8}) (?P<last>\d{1,2})), (?P<year>\d{4})",
    re.ASCII,
)
"""A date in the format of the English store. The order of day and month depends on the country."""


def _whole(hundredths: int | None) -> float | None:
    return None if hundredths is None or hundredths < 0 else hundredths / 100


def _is_free(price: int | None) -> bool | None:
    """Return whether a price is zero; None without a price, because the app may be free or not on sale yet."""
    return None if price is None else price == 0


def _page(kind: str | None, number: str | None) -> str | None:
    """Return the URL of an app, or of a package that contains several apps."""
    return number and f"{_STORE}/{'sub' if kind == 'sub' else 'app'}/{number}"


def _day(written: str | None) -> str | None:
    """Return the day that a text states, or None if the text is a quarter, a year or a vague announcement."""
    found = _DAY.fullmatch(written or "")
    if found is None:
        return None
    try:
        month = _MONTHS.index((found["month"] or found["first"]).lower()[:3]) + 1
        return f"{date(int(found['year']), month, int(found['day'] or found['last']))}T00:00:00Z"
    except ValueError:  # the calendar has no such day or month
        return None


def _first(names: list[str] | None) -> str | None:
    return names[0] if names else None


def _together(*lists: list[str]) -> list[str]:
    return [name for one in lists for name in one]


def _true_names(**are_there: bool | None) -> list[str] | None:
    """Return the names of the members that are true, or None if all of them are missing."""
    if all(one is None for one in are_there.values()):
        return None
    return [name for name, is_there in are_there.items() if is_there]


def _platforms() -> Reader:
    names = ("windows", "mac", "linux")
    return of(
        lambda *flags: _true_names(**dict(zip(names, flags, strict=True))),
        *(read.flag(f"platforms.{one}") for one in names),
    )


def _verdict(is_positive: bool | None) -> float | None:  # noqa: FBT001 - it is the value that was read
    return None if is_positive is None else float(is_positive)


def _votes(name: str) -> Reader:
    """Return a reader for a number of votes. Steam sends negative numbers as unsigned 32-bit numbers."""
    return of(lambda count: None if count is None or count >= _BELOW_ZERO else count, read.count(name))


def _scale(is_positive: bool | None) -> int | None:  # noqa: FBT001 - it is the value that was read
    return None if is_positive is None else 1


_DEVELOPERS, _RELEASED = read.texts("developers"), read.text("release_date.date")
app_of = record_map(
    app,
    id=read.ident("steam_appid"),
    store=read.always("steam"),
    url=of(_page, read.always(None), read.ident("steam_appid")),
    title=read.text("name"),
    description=read.html("short_description"),
    icon=read.text("header_image"),
    image_urls=read.each("screenshots", read.text("path_full")),
    developer_name=of(_first, _DEVELOPERS),
    developer_website=read.text("website"),
    category=of(_first, read.each("genres", read.text("description"))),
    categories=of(
        _together, read.each("genres", read.text("description")), read.each("categories", read.text("description"))
    ),
    price=of(_whole, read.count("price_overview.final")),
    currency=read.text("price_overview.currency"),
    price_displayed=read.text("price_overview.final_formatted"),
    is_free=read.flag("is_free"),
    reviews_count=read.count("recommendations.total"),
    released_at=of(_day, _RELEASED),
    ext={
        "type": read.text("type"),
        "developers": _DEVELOPERS,
        "publishers": read.texts("publishers"),
        "platforms": _platforms(),
        "metacritic": read.count("metacritic.score"),
        "coming_soon": read.flag("release_date.coming_soon"),
        "release_date": _RELEASED,
        "initial_price_cents": read.count("price_overview.initial"),
        "discount_percent": read.count("price_overview.discount_percent"),
    },
)
"""An app, from its store page. The price applies to the requested country."""

_PRICE = read.count("price.final")
found_app_of = record_map(
    app,
    id=read.ident("id"),
    store=read.always("steam"),
    url=of(_page, read.text("type"), read.ident("id")),
    title=read.text("name"),
    icon=read.text("tiny_image"),
    price=of(_whole, _PRICE),
    currency=read.text("price.currency"),
    is_free=of(_is_free, _PRICE),
    ext={
        "type": read.text("type"),
        "platforms": _platforms(),
        "metacritic": read.count("metascore"),
        "initial_price_cents": read.count("price.initial"),
    },
)
"""An app or a package in the results of a search."""

review_of = record_map(
    review,
    id=read.ident("recommendationid"),
    entity_id=read.given("app_id"),
    text=read.text("review"),
    rating=of(_verdict, read.flag("voted_up")),
    rating_max=of(_scale, read.flag("voted_up")),
    author=record_map(reviewer, id=read.ident("author.steamid"), reviews_count=read.count("author.num_reviews")).here(),
    helpful_votes=_votes("votes_up"),
    language=read.text("language"),
    published_at=read.instant("timestamp_created"),
    ext={
        "updated_at": read.instant("timestamp_updated"),
        "votes_funny": _votes("votes_funny"),
        "weighted_vote_score": read.ident("weighted_vote_score"),
        "comment_count": read.count("comment_count"),
        "steam_purchase": read.flag("steam_purchase"),
        "received_for_free": read.flag("received_for_free"),
        "written_during_early_access": read.flag("written_during_early_access"),
        "primarily_steam_deck": read.flag("primarily_steam_deck"),
        "games_owned": read.count("author.num_games_owned"),
        "playtime_forever_min": read.count("author.playtime_forever"),
        "playtime_at_review_min": read.count("author.playtime_at_review"),
    },
)
"""A review. Steam sends a score of zero as a number, and any other score as text."""
