"""Computed fields: engagement rate, reach, language and category, only where the upstream gave the inputs (spec 1)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pycld2

Record = dict[str, Any]
Computed = Callable[[Record, list[str]], Record]

_ENOUGH_LETTERS = re.compile(r"(?:[^\W\d_][\W\d_]*+){10}")
"""Ten letters, whatever stands between them: fewer do not tell a language."""
_TEXT_MAX = 2_000
"""Characters that language and category are read from: more does not change the answer, only its cost."""

_CATEGORY_WORDS = {
    "technology": "software code coding programming developer python javascript rust linux api app apps tech computer "
    "engineer engineering database server web cloud devops opensource github hardware compiler",
    "ai": "ai ml llm gpt neural model models machinelearning deeplearning chatbot openai anthropic",
    "science": "science physics biology chemistry research researcher astronomy space nasa climate mathematics math",
    "business": "business startup startups founder ceo marketing sales entrepreneur company hiring jobs saas",
    "finance": "finance stock stocks invest investing investor trading bank money economy crypto bitcoin ethereum",
    "politics": "politics political election president government senate congress minister vote policy parliament",
    "news": "news breaking journalist reporter newspaper headline headlines",
    "sports": "sport sports football soccer basketball nba nfl tennis olympics coach league match",
    "gaming": "game games gaming gamer esports steam nintendo playstation xbox twitch",
    "music": "music song songs album band singer concert guitar rapper dj spotify",
    "entertainment": "movie movies film films tv series actor actress netflix comedy celebrity anime",
    "art": "art artist design designer photography photographer illustration painting drawing poet writer author",
    "food": "food recipe recipes cooking chef restaurant baking coffee wine vegan",
    "travel": "travel traveler traveller trip tourism hotel flight vacation nomad",
    "health": "health fitness gym workout yoga doctor medical medicine nutrition wellness therapy",
    "education": "education teacher school university student students learning course professor tutorial",
}
_CATEGORY_OF = {word: category for category, words in _CATEGORY_WORDS.items() for word in words.split()}
_WORD = re.compile(r"[a-z]{2,}")
_UNASSIGNED = "".join(chr(plane * 0x10000 + last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
_NO_TEXT = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_UNASSIGNED}]")
"""Control characters, lone surrogates and what Unicode assigns to nothing: the detector refuses a text with one."""


def language_of(text: str | None, own_tag: str | None = None) -> str | None:
    """The language of a text as a tag such as `en`; the upstream's own tag wins; short or unclear texts give None."""
    if own_tag:
        return own_tag
    if text is None or not _ENOUGH_LETTERS.search(text, 0, _TEXT_MAX):
        return None
    return _language(text[:_TEXT_MAX])


@lru_cache(maxsize=2_048)
def _language(text: str) -> str | None:
    """Remembered, since one detection costs 17 us and the same bios and posts come again with every refresh."""
    reliable, _, guesses = _detected(text)
    tag = guesses[0][1]
    return str(tag) if reliable and tag != "un" else None


def _detected(text: str) -> Any:
    try:
        return pycld2.detect(text)
    except (pycld2.error, UnicodeEncodeError):
        return pycld2.detect(_NO_TEXT.sub(" ", text))


def category_of(text: str | None) -> str:
    """The category whose keywords a text names most often, or `other`."""
    counts: dict[str, int] = {}
    for word in _WORD.findall((text or "")[:_TEXT_MAX].lower()):
        if (category := _CATEGORY_OF.get(word)) is not None:
            counts[category] = counts.get(category, 0) + 1
    return max(counts, key=lambda name: counts[name]) if counts else "other"


def _rate(part: int | None, whole: int | None, *, what: str, warnings: list[str]) -> float | None:
    if part is None or not whole or whole < 0 or part < 0:
        return None
    if part > whole:
        warnings.append(f"engagement_rate is null: {what} is above 1.0")
        return None
    return part / whole


def _own_tag(record: Record) -> str | None:
    tag = record["ext"].get("language")
    return tag if isinstance(tag, str) else None


def author_computed(record: Record, warnings: list[str]) -> Record:
    """Computed fields of an Author: rate = likes / followers, reach = followers x rate x 0.1 (decisions 3)."""
    followers = record["followers"]
    rate = _rate(record["likes_count"], followers, what="likes_count / followers", warnings=warnings)
    return {
        "engagement_rate": rate,
        "language": language_of(record["bio"], _own_tag(record)),
        "content_category": category_of(record["bio"]),
        "estimated_reach": None if rate is None else round(followers * rate * 0.1),
    }


def post_computed(record: Record, warnings: list[str]) -> Record:
    """Computed fields of a Post: rate = (likes + comments + shares) / views, reach = views x 1.2 (decisions 3).

    Of the three, what the upstream never counts is left out of the sum; without any of them there is no rate.
    """
    engagement = record["engagement"]
    counted = [engagement[name] for name in ("likes", "comments", "shares") if engagement[name] is not None]
    views = engagement["views"]
    text = record["content"]["text"]
    what = "(likes + comments + shares) / views"
    return {
        "engagement_rate": _rate(sum(counted) if counted else None, views, what=what, warnings=warnings),
        "language": language_of(text, _own_tag(record)),
        "content_category": category_of(text),
        "estimated_reach": None if views is None else round(views * 1.2),
    }
