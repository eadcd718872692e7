"""Apps in several stores: statistics of their reviews, and listings side by side."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.apps import app as app_record
from upstreams.model.archetypes.shape import Archetype, Of, Record


def rated(
    *,
    store: Annotated[str, "The store."],
    reviews: Annotated[int, "Number of reviews read."],
    rating: Annotated[float | None, "Mean rating, as a share of the highest possible rating."],
    positive_share: Annotated[float | None, "Share of reviews that rate at least 0.6 of the highest possible rating."],
    distribution: Annotated[
        list[int], ("Number of reviews by rating: up to 0.2, 0.4, 0.6 and 0.8 of the highest rating, and above 0.8.")
    ],
    listed_rating: Annotated[
        float | None, ("The rating that the store displays, as a share of the highest possible rating.")
    ],
    listed_count: Annotated[int | None, "The number of ratings that the store displays."],
) -> Record:
    """The ratings in one store's reviews."""
    return locals()


def topic(
    *,
    word: Annotated[str, "The word, or two adjacent words."],
    reviews: Annotated[int, "Reviews with the word, counted."],
    rating: Annotated[float | None, "Mean rating, as a share of the highest possible rating."],
    rating_impact: Annotated[float | None, "The mean rating minus the mean of all reviews."],
) -> Record:
    """A word that occurs in many reviews."""
    return locals()


def reviewed_day(
    *,
    date: Annotated[str, "The day in UTC."],
    reviews: Annotated[int, "Reviews on the day."],
    rating: Annotated[float | None, "Mean rating, as a share of the highest possible rating."],
) -> Record:
    """The reviews of one day."""
    return locals()


def wish(
    *,
    store: Annotated[str, "The store."],
    review_id: Annotated[str | None, "ID of the review."],
    text: Annotated[str, "The sentence that requests a feature."],
    helpful_votes: Annotated[int | None, "Readers who found the review helpful."],
) -> Record:
    """A sentence from a review that requests a feature."""
    return locals()


def app_reviews(
    *,
    reviews: Annotated[Record, "The reviews by store, in the store's order."],
    apps: Annotated[list[Record], Of(app_record), "The listings of the reviewed apps, if a store returned them."],
    ratings: Annotated[list[Record], Of(rated), "The ratings by store."],
    topics: Annotated[
        list[Record] | None, Of(topic), ("Up to 20 words that occur in at least three reviews; null if not requested.")
    ],
    sentiment_timeline: Annotated[list[Record] | None, Of(reviewed_day), "Ratings by day; null if not requested."],
    feature_requests: Annotated[
        list[Record] | None, Of(wish), ("Up to 20 sentences that request a feature; null if not requested.")
    ],
    response_rate: Annotated[float | None, "Share of reviews with a developer's reply; null if no store reports it."],
    method: Annotated[str, "How words and feature requests are found."],
) -> Record:
    """The reviews of an app, from one or more stores."""
    return locals()


def match(
    *,
    is_match: Annotated[bool, "Whether the listings belong to the same app, according to the threshold."],
    confidence: Annotated[float | None, "0 to 1: two thirds title, one third developer; null with only one listing."],
    title_similarity: Annotated[float | None, "Similarity of the titles."],
    developer_similarity: Annotated[float | None, "Similarity of the developers' names; null if one is unknown."],
    threshold: Annotated[float, "The confidence at which listings count as the same app."],
) -> Record:
    """How certain it is that two listings describe the same app."""
    return locals()


def listing(
    *,
    store: Annotated[str, "The store."],
    found: Annotated[bool | None, "Whether the store has the app; null if the store did not answer."],
    app: Annotated[Record | None, Of(app_record), "The listing."],
    rating: Annotated[float | None, "The rating, as a share of the highest possible rating."],
) -> Record:
    """One store's listing."""
    return locals()


def apps_lookup(
    *,
    listings: Annotated[list[Record], Of(listing), "The listing of each store."],
    match: Annotated[Record, Of(match), "Whether the listings belong to the same app."],
    rating_gap: Annotated[float | None, "The highest rating minus the lowest, as shares; null unless two are known."],
    method: Annotated[str, "How similarity is computed."],
) -> Record:
    """An app in all stores, side by side."""
    return locals()


APP_REVIEWS = Archetype("AppReviews", "", app_reviews, has_legs=True, findings=("reviews",))
APPS_LOOKUP = Archetype("AppsLookup", "", apps_lookup, has_legs=True)
