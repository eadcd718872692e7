"""Computed fields: engagement rate, reach, language and category, only where the upstream gave the inputs (spec 1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from string import ascii_lowercase
from typing import Any

from upstreams.model import fields
from upstreams.model.computed.language import language_of

Record = dict[str, Any]
Computed = Callable[[Record, list[str]], Record]

_TEXT_MAX = 2_000
"""Characters that the category is read from: more does not change the answer, only its cost."""

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
_CATEGORY_OF = {word.encode(): category for category, words in _CATEGORY_WORDS.items() for word in words.split()}
_KEYWORDS = frozenset(_CATEGORY_OF)
_WORDS_APART = bytes(code if chr(code) in ascii_lowercase else ord(" ") for code in range(256))
"""A table for `bytes.translate` that leaves letters from a to z. With it a text is split into words in a third of the
time that a regular expression takes."""


def category_of(text: str) -> str:
    """The category whose keywords a text names most often, the first named of several; or `other`."""
    words = text[:_TEXT_MAX].lower().encode(errors="replace").translate(_WORDS_APART).split()
    if _KEYWORDS.isdisjoint(words):
        return "other"
    counts: dict[str, int] = {}
    for word in words:
        if word in _CATEGORY_OF:
            category = _CATEGORY_OF[word]
            counts[category] = counts.get(category, 0) + 1
    return max(counts, key=counts.__getitem__)


def _told_by(record: Record, text: str | None) -> tuple[str | None, str]:
    """Language and category of a record by its text; the upstream's own language tag wins."""
    own_tag = fields.text(record["ext"], "language")
    if not text:
        return own_tag, "other"
    start = text[:_TEXT_MAX]
    return own_tag or _language(start), _category(start)


_language = lru_cache(maxsize=2_048)(language_of)
_category = lru_cache(maxsize=2_048)(category_of)
"""Both are remembered: they are slow, and the same bios and posts come again with every refresh."""


def _rate(part: int | None, whole: int, what: str, warnings: list[str]) -> float | None:
    if part is None or whole < 0 or part < 0:
        return None
    if part > whole:
        warnings.append(f"engagement_rate is null: {what} is above 1.0")
        return None
    return part / whole


def author_computed(record: Record, warnings: list[str]) -> Record:
    """Computed fields of an Author: rate = likes / followers, reach = followers x rate x 0.1 (decisions 3)."""
    followers = record["followers"]
    rate = _rate(record["likes_count"], followers, "likes_count / followers", warnings) if followers else None
    language, category = _told_by(record, record["bio"])
    return {
        "engagement_rate": rate,
        "language": language,
        "content_category": category,
        "estimated_reach": None if rate is None else round(followers * rate * 0.1),
    }


def post_computed(record: Record, warnings: list[str]) -> Record:
    """Computed fields of a Post: rate = (likes + comments + shares) / views, reach = views x 1.2 (decisions 3)."""
    views = record["engagement"]["views"]
    language, category = _told_by(record, record["content"]["text"])
    return {
        "engagement_rate": _post_rate(record["engagement"], warnings) if views else None,
        "language": language,
        "content_category": category,
        "estimated_reach": None if views is None else round(views * 1.2),
    }


def _post_rate(engagement: Record, warnings: list[str]) -> float | None:
    """Return the rate over the counts that the upstream has; without any of the three there is no rate."""
    counted = [engagement[name] for name in ("likes", "comments", "shares") if engagement[name] is not None]
    part = sum(counted) if counted else None
    return _rate(part, engagement["views"], "(likes + comments + shares) / views", warnings)
