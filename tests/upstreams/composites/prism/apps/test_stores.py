"""Apps in several stores, with recorded and handmade reviews and listings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platforms.case import recorded
from tests.upstreams.composites.prism.insight.legs import Json, compose, record
from upstreams.composites.prism.apps.listings import likeness
from upstreams.composites.prism.apps.reviews import topics, wishes
from upstreams.model.errors import InvalidArgument, UpstreamError
from upstreams.model.steps import Single

ITUNES, STEAM = "itunes.apple.com", "store.steampowered.com"
FEED = f"{ITUNES}/us/rss/customerreviews/id=1404176564/sortby=mostrecent/json"


def test_recorded_reviews_are_counted_like_their_feed() -> None:
    """Goal: ratings, days and the price of a recorded leg are correct. Method: count them in the feed's JSON."""
    body = recorded("", "app_store/reviews_rss__50.json").body
    stars = [int(one["im:rating"]["label"]) for one in body["feed"]["entry"] if "im:rating" in one]
    result = compose("app-reviews", {"app_store_id": "1404176564"}, {FEED: "app_store/reviews_rss__50.json"})
    assert isinstance(result, Single)
    told = result.record
    assert result.credits_used == 10
    (rated,) = told["ratings"]
    assert (rated["store"], rated["reviews"]) == ("app_store", len(stars))
    assert rated["distribution"] == [stars.count(star) for star in (1, 2, 3, 4, 5)]
    assert rated["rating"] == pytest.approx(sum(stars) / len(stars) / 5, abs=5e-5)
    assert rated["positive_share"] == pytest.approx(sum(star >= 3 for star in stars) / len(stars), abs=5e-5)
    assert sum(one["reviews"] for one in told["sentiment_timeline"]) == len(stars)
    assert told["response_rate"] is None
    fewer = record(
        "app-reviews",
        {"app_store_id": "1404176564", "include": "topics", "depth": "7"},
        {FEED: "app_store/reviews_rss__50.json"},
    )
    assert len(fewer["reviews"]["app_store"]) == 7
    assert fewer["feature_requests"] is fewer["sentiment_timeline"] is None


def review(text: str, value: float, votes: int | None = None) -> Json:
    return {"id": text[:3], "title": None, "text": text, "rating": {"value": value, "max": 5}, "helpful_votes": votes}


def test_topics_are_words_of_at_least_three_reviews_with_their_rating() -> None:
    rows = [
        review("The sync failed", 1),
        review("Sync failed again", 2),
        review("sync FAILED!", 1),
        review("Lovely design", 5),
    ]
    # all: (0.2 + 0.4 + 0.2 + 1) / 4 = 0.45; with the words: 0.8 / 3 = 0.2667
    expected = {"reviews": 3, "rating": 0.2667, "rating_impact": -0.1833}
    assert topics(rows) == [{"word": word, **expected} for word in ("failed", "sync", "sync failed")]


def test_feature_requests_are_sentences_with_a_request() -> None:
    rows = [
        ("steam", review("I like it. Please add a dark theme. Bye.", 4, 2)),
        ("app_store", review("It would be nice to have tabs! Good.", 4, 9)),
        ("app_store", review("All is fine.", 5)),
    ]
    assert [(one["store"], one["text"]) for one in wishes(rows)] == [
        ("app_store", "It would be nice to have tabs!"),
        ("steam", "Please add a dark theme."),
    ]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [("Acme Inc.", "ACME", 1.0), ("Acme", "Bolt", 0.0), ("Things 3", "Things", 0.8571), (None, "x", 0.0)],
)
def test_names_are_compared_without_company_suffixes(one: str | None, other: str, alike: float) -> None:
    assert likeness(one, other) == alike


def app(title: str, developer: str, rating: float) -> Json:
    return {
        "wrapperType": "software",
        "trackId": 7,
        "trackName": title,
        "sellerName": developer,
        "artistName": developer,
        "averageUserRating": rating,
    }


def test_listings_match_by_title_and_developer() -> None:
    steam = {
        "steam_appid": 9, "name": "Acme", "developers": ["Ada Games"], "publishers": ["Ada Games"], "type": "game",
    }  # fmt: skip
    answers: dict[str, Any] = {
        f"{ITUNES}/search": {"results": [app("Acme", "Ada Inc.", 4.5)]},
        f"{ITUNES}/lookup": {"results": [app("Acme", "Ada Inc.", 4.5)]},
        f"{STEAM}/api/storesearch": {"items": [{"id": 9, "name": "Acme", "type": "app"}], "total": 1},
        f"{STEAM}/api/storesearch/": {"items": [{"id": 9, "name": "Acme", "type": "app"}], "total": 1},
        f"{STEAM}/api/appdetails": {"9": {"success": True, "data": steam}},
    }
    told = record("apps-lookup", {"title": "Acme"}, answers)
    assert [(one["store"], one["found"], one["rating"]) for one in told["listings"]] == [
        ("app_store", True, 0.9),
        ("steam", True, None),
        ("google_play", None, None),
    ]
    assert told["match"]["is_match"] is True
    assert (told["match"]["title_similarity"], told["match"]["confidence"]) == (1.0, 1.0)
    assert told["rating_gap"] is None
    alone = record("apps-lookup", {"app_store_id": "7", "stores": "app_store"}, answers)
    assert (alone["match"]["is_match"], alone["match"]["confidence"]) == (False, None)
    beside = record("apps-lookup", {"app_store_id": "7", "stores": "steam"}, answers)
    assert [(one["store"], one["found"]) for one in beside["listings"]] == [("app_store", True), ("steam", True)]


def test_app_in_no_store_is_not_found() -> None:
    with pytest.raises(UpstreamError):
        compose("apps-lookup", {"title": "Acme"}, {})
    with pytest.raises(InvalidArgument):
        compose("apps-lookup", {"title": "Acme", "match_threshold": "2"}, {})
