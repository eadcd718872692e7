"""Apps over several stores: their reviews in numbers, and two listings side by side."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.apps import app as app_record
from upstreams.model.archetypes.shape import Archetype, Of, Record


def rated(
    *,
    store: Annotated[str, "The store."],
    reviews: Annotated[int, "Reviews that were read."],
    rating: Annotated[float | None, "The mean of their verdicts, as a share of the best one."],
    positive_share: Annotated[float | None, "The share of those with at least 0.6 of the best verdict."],
    distribution: Annotated[list[int], "How many gave 0 to 0.2, to 0.4, to 0.6, to 0.8 and above 0.8 of the best."],
    listed_rating: Annotated[float | None, "The rating that the store shows, as a share of the best one."],
    listed_count: Annotated[int | None, "The ratings that the store counts."],
) -> Record:
    """The verdicts of one store's reviews."""
    return locals()


def topic(
    *,
    word: Annotated[str, "The word, or two that stand together."],
    reviews: Annotated[int, "Reviews that have it."],
    rating: Annotated[float | None, "The mean of their verdicts, as a share of the best one."],
    rating_impact: Annotated[float | None, "That mean less the mean of all reviews."],
) -> Record:
    """A word that many reviews have."""
    return locals()


def reviewed_day(
    *,
    date: Annotated[str, "The day in UTC."],
    reviews: Annotated[int, "Reviews of that day."],
    rating: Annotated[float | None, "The mean of their verdicts, as a share of the best one."],
) -> Record:
    """The reviews of one day."""
    return locals()


def wish(
    *,
    store: Annotated[str, "The store."],
    review_id: Annotated[str | None, "The id of the review."],
    text: Annotated[str, "The sentence that asks for something."],
    helpful_votes: Annotated[int | None, "Readers who found the review helpful."],
) -> Record:
    """A sentence of a review that asks for something."""
    return locals()


def app_reviews(
    *,
    reviews: Annotated[Record, "The reviews by store, in the order of the store."],
    apps: Annotated[list[Record], Of(app_record), "The listings that they are of, where a store told it."],
    ratings: Annotated[list[Record], Of(rated), "The verdicts by store."],
    topics: Annotated[list[Record] | None, Of(topic), "Up to 20 words of at least three reviews; null where left out."],
    sentiment_timeline: Annotated[list[Record] | None, Of(reviewed_day), "Verdicts by day; null where left out."],
    feature_requests: Annotated[list[Record] | None, Of(wish), "Up to 20 sentences that ask; null where left out."],
    response_rate: Annotated[float | None, "The share with a developer's answer; null where no store tells it."],
    method: Annotated[str, "How words and wishes are found."],
) -> Record:
    """The reviews of an app, of one or more stores."""
    return locals()


def match(
    *,
    is_match: Annotated[bool, "Whether they are the same app, by the threshold."],
    confidence: Annotated[float | None, "0 to 1: title counts two thirds, developer one; null with one listing."],
    title_similarity: Annotated[float | None, "How alike the titles are."],
    developer_similarity: Annotated[float | None, "How alike the developers' names are; null where one is not told."],
    threshold: Annotated[float, "The confidence from which on they are the same."],
) -> Record:
    """How sure it is that two listings are of one app."""
    return locals()


def listing(
    *,
    store: Annotated[str, "The store."],
    found: Annotated[bool | None, "Whether the store has it; null where it did not answer."],
    app: Annotated[Record | None, Of(app_record), "The listing."],
    rating: Annotated[float | None, "Its rating as a share of the best one."],
) -> Record:
    """One store's listing."""
    return locals()


def apps_lookup(
    *,
    listings: Annotated[list[Record], Of(listing), "The listing of each store."],
    match: Annotated[Record, Of(match), "Whether they are the same app."],
    rating_gap: Annotated[float | None, "The best rating less the worst, as shares; null with less than two."],
    method: Annotated[str, "How likeness is computed."],
) -> Record:
    """An app in all stores, side by side."""
    return locals()


APP_REVIEWS = Archetype("AppReviews", "", app_reviews, has_legs=True, findings=("reviews",))
APPS_LOOKUP = Archetype("AppsLookup", "", apps_lookup, has_legs=True)
