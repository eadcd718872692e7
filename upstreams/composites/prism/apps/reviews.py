"""Statistics of reviews, computed by rules: ratings, topics, feature requests and days (decisions 18)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final

from upstreams.composites.prism.insight.days import instant_day
from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import stores

_TOP, _LEAST = 20, 3
_GOOD: Final = 0.6
METHOD: Final = (
    "No model is used. Topics are words and word pairs that occur in at least three reviews, without the most common "
    "English words. Feature requests are sentences with words such as please add, wish, would be nice, missing. "
    "Ratings are shares of the highest possible rating."
)
_STOP: Final = frozenset(
    """
    a about after all also am an and any app apps are as at be because been before but by can could did do does don't
    for from get got had has have he her his how i if i'm i've in into is it it's its just like me more most my no not
    now of on one only or other our out over so some than that the their them then there they this to too up us use
    used using very was we were what when which who will with would you your game really even much still
    """.split()  # noqa: SIM905 - a list would take one line per word
)
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_WISH = re.compile(
    r"\b(?:please (?:add|bring|make|fix|give|let)|wish(?:es)?\b|would be (?:nice|great|good|better)|should (?:add|have)"
    r"|needs? (?:a|an|to|more)\b|missing|add (?:a|an|the|support|more)\b|feature request|hope (?:you|they) add)",
    re.IGNORECASE,
)


def _verdict(review: Record) -> float | None:
    """Return the rating of a review, as a share of the highest possible rating."""
    value, best = review["rating"]["value"], review["rating"]["max"]
    return None if value is None or not best else value / best


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(fmean(known), 4) if known else None


def rated(store: str, reviews: Sequence[Record], app: Record | None) -> Record:
    """Return the ratings in a store's reviews, and the rating that the store displays."""
    verdicts = [verdict for one in reviews if (verdict := _verdict(one)) is not None]
    distribution = [0] * 5
    for verdict in verdicts:
        distribution[min(4, max(0, -(-round(verdict * 100) // 20) - 1))] += 1
    listed = None if app is None else app["rating"]
    return stores.rated(
        store=store,
        reviews=len(reviews),
        rating=_mean(verdicts),
        positive_share=round(sum(one >= _GOOD for one in verdicts) / len(verdicts), 4) if verdicts else None,
        distribution=distribution,
        listed_rating=None if listed is None else share_of(listed),
        listed_count=None if listed is None else listed["count"],
    )


def share_of(rating: Record) -> float | None:
    """Return a rating as a share of the highest possible rating."""
    return round(rating["value"] / rating["max"], 4) if rating["value"] is not None and rating["max"] else None


def topics(reviews: Sequence[Record]) -> list[Record]:
    """Return the words and word pairs that occur in at least three reviews, most frequent first."""
    holders: dict[str, list[float | None]] = {}
    for review in reviews:
        text = " ".join(filter(None, (review["title"], review["text"]))).lower().replace("\u2019", "'")
        tokens = [token if token not in _STOP and len(token) > 2 else "" for token in _WORD.findall(text)]
        pairs = {f"{one} {other}" for one, other in pairwise(tokens) if one and other}
        for word in (set(tokens) - {""}) | pairs:
            holders.setdefault(word, []).append(_verdict(review))
    overall = _mean([_verdict(one) for one in reviews])
    often = sorted((word for word in holders if len(holders[word]) >= _LEAST), key=lambda w: (-len(holders[w]), w))
    return [_topic(word, holders[word], overall) for word in often[:_TOP]]


def _topic(word: str, verdicts: Sequence[float | None], overall: float | None) -> Record:
    mean = _mean(verdicts)
    impact = None if mean is None or overall is None else round(mean - overall, 4)
    return stores.topic(word=word, reviews=len(verdicts), rating=mean, rating_impact=impact)


def timeline(reviews: Sequence[Record]) -> list[Record]:
    """Return the ratings of each day."""
    by_day: dict[str, list[float | None]] = {}
    for one in reviews:
        if (day := instant_day(one["published_at"])) is not None:
            by_day.setdefault(day.isoformat(), []).append(_verdict(one))
    return [
        stores.reviewed_day(date=day, reviews=len(by_day[day]), rating=_mean(by_day[day])) for day in sorted(by_day)
    ]


def wishes(listed: Sequence[tuple[str, Record]]) -> list[Record]:
    """Return sentences that request a feature. Those in the most helpful reviews come first."""
    found = [
        stores.wish(store=store, review_id=one["id"], text=sentence.strip(), helpful_votes=one["helpful_votes"])
        for store, one in listed
        for sentence in _SENTENCE.findall(one["text"] or "")
        if _WISH.search(sentence)
    ]
    return sorted(found, key=lambda one: -(one["helpful_votes"] or 0))[:_TOP]
