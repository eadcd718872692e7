"""Compares the listings in several stores: whether they are the same app, and how its ratings differ (decisions 18)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final
from unicodedata import normalize

from upstreams.composites.legs import Settled
from upstreams.composites.prism.apps.reviews import share_of
from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import stores as records
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args

METHOD: Final = (
    "Titles and developers' names in lower case, without punctuation and company forms, compared by difflib's ratio; "
    "confidence is (2 x title + developer) / 3, or the title's ratio alone if a developer is unknown."
)
_FORMS = re.compile(r"\b(?:inc|llc|ltd|gmbh|corp|co|limited|sa|ab|bv|games?|studios?|the)\b")


def threshold_of(args: Args) -> float:
    """Return how similar two listings must be to count as the same app.

    Raises:
        InvalidArgument: The value is not a number from 0 to 1.
    """
    try:
        threshold = float(args.text("match_threshold"))
    except ValueError:
        threshold = -1.0
    if not 0 <= threshold <= 1:
        raise InvalidArgument("match_threshold", "must be a number from 0 to 1, such as 0.6")
    return threshold


def listing(store: str, app: Record | None, legs: Sequence[Settled]) -> Record:
    """Return a store's listing in the form of the response.

    If all legs of the store failed, it is unknown whether the store has the app.
    """
    is_known = any(leg.answer or leg.is_absent for leg in legs if leg.platform == store)
    return records.listing(
        store=store,
        found=True if app is not None else False if is_known else None,
        app=app,
        rating=None if app is None else share_of(app["rating"]),
    )


def rating_gap(apps: Sequence[Record]) -> float | None:
    """Return the highest rating minus the lowest, as shares of the maximum; None if fewer than two are known."""
    known = [share for one in apps if (share := share_of(one["rating"])) is not None]
    return round(max(known) - min(known), 4) if len(known) > 1 else None


def matched(apps: Sequence[Record], threshold: float) -> Record:
    """Return how similar the first two listings are, from 0 to 1."""
    if len(apps) < 2:
        return records.match(
            is_match=False, confidence=None, title_similarity=None, developer_similarity=None, threshold=threshold
        )
    title = likeness(apps[0]["title"], apps[1]["title"])
    names = [one["developer"]["name"] for one in apps[:2]]
    developer = None if None in names else likeness(*names)
    confidence = round(title if developer is None else (2 * title + developer) / 3, 4)
    return records.match(
        is_match=confidence >= threshold,
        confidence=confidence,
        title_similarity=title,
        developer_similarity=developer,
        threshold=threshold,
    )


def nearest(apps: Sequence[Record], title: str) -> Record:
    """Return the app whose title is most similar. If several are, return the first of them."""
    return max(apps, key=lambda app: likeness(title, app["title"]))


def likeness(one: str | None, other: str | None) -> float:
    """Return the similarity of two names, from 0 to 1."""
    return round(SequenceMatcher(None, _plain(one), _plain(other), autojunk=False).ratio(), 4)


def _plain(name: str | None) -> str:
    text = re.sub(r"[^\w\s]", " ", normalize("NFKC", name or "").casefold())
    return " ".join(_FORMS.sub(" ", text).split())
