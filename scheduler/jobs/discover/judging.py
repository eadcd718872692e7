"""Decides whether an account is the one that a keyword names, using documented weights for facts in its profile.

Each reason counts once, and the score is the sum of the weights, at most 1. A score of 0.6 or more means `same`, and
0.3 or more means `possible`. Below 0.3 the account is `different` if its own page was read, and `uncertain` otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple
from unicodedata import normalize
from urllib.parse import urlsplit

Label = Literal["same", "possible", "different", "uncertain"]
WEIGHTS: Final[Mapping[str, float]] = {
    "handle_equals": 0.50,
    "handle_contains": 0.20,
    "name_equals": 0.35,
    "name_contains": 0.20,
    "site_equals": 0.30,
    "bio_contains": 0.15,
    "verified": 0.10,
}
"""The weights of all reasons.

Of the two reasons about the handle, and of the two about the name, only the stronger one counts.

`verified` counts only together with another reason.
"""
SAME: Final = 0.6
POSSIBLE: Final = 0.3
_CONTAINED_MIN: Final = 4
"""The minimum length of a keyword that may match part of a handle. Shorter ones occur in many handles by chance."""
_NO_LETTER = re.compile(r"[\W_]+")


class Match(NamedTuple):
    """How well an account matches its best keyword."""

    keyword: str
    label: Label
    score: float
    reasons: tuple[str, ...]


def judge(keywords: Iterable[str], author: Mapping[str, Any], *, is_read: bool) -> Match:
    """Return the best match of an account over all keywords. Of several equal matches, return the first.

    `is_read` means that the account's own page was read.
    """
    return max((judge_one(one, author, is_read=is_read) for one in keywords), key=lambda match: match.score)


def judge_one(keyword: str, author: Mapping[str, Any], *, is_read: bool) -> Match:
    """Return how well an account matches a single keyword."""
    reasons = tuple(_reasons(keyword, author))
    if reasons and author.get("verified"):
        reasons = (*reasons, "verified")
    score = min(1.0, round(sum(WEIGHTS[one] for one in reasons), 2))
    label: Label = "same" if score >= SAME else "possible" if score >= POSSIBLE else "uncertain"
    if label == "uncertain" and is_read:
        label = "different"
    return Match(keyword, label, score, reasons)


def _reasons(keyword: str, author: Mapping[str, Any]) -> Iterable[str]:
    word, handle = _compact(keyword), _compact(str(author.get("username") or "").lstrip("@").partition("@")[0])
    if handle and handle == word:
        yield "handle_equals"
    elif len(word) >= _CONTAINED_MIN and word in handle:
        yield "handle_contains"
    name = _folded(str(author.get("display_name") or ""))
    if name and _compact(name) == word:
        yield "name_equals"
    elif _has_words(name, keyword):
        yield "name_contains"
    if _site_of(author.get("external_url")) == word:
        yield "site_equals"
    if _has_words(_folded(str(author.get("bio") or "")), keyword):
        yield "bio_contains"


def _site_of(address: object) -> str | None:
    """Return the name in a website's address: `example` for https://www.example.co.uk/."""
    try:
        host = urlsplit(address).hostname if isinstance(address, str) else None
    except ValueError:
        return None
    labels = (host or "").removeprefix("www.").split(".")
    return _compact(labels[0]) or None


def _has_words(text: str, keyword: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(_folded(keyword))}(?!\w)", text) is not None


def _folded(text: str) -> str:
    return " ".join(normalize("NFKC", text).casefold().split())


def _compact(text: str) -> str:
    """Return only the letters and digits of a text."""
    return _NO_LETTER.sub("", _folded(text))
