"""Computed fields: engagement rate, reach, language and category.

A field is null if its inputs are missing (spec 1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from upstreams.model.computed.category import category_of
from upstreams.model.computed.language import TEXT_MAX, language_and_category
from upstreams.model.computed.scores import READ_MAX

Record = dict[str, Any]
Computed = Callable[[Record, list[str]], Record]


def _language_and_category(record: Record, text: str | None) -> tuple[str | None, str]:
    """Return the language and category of a record's text. A language tag from the upstream takes precedence."""
    own_tag = record["ext"].get("language")
    if own_tag and isinstance(own_tag, str):
        return own_tag, _category(text[:READ_MAX]) if text else "other"
    if not text:
        return _UNKNOWN
    return _read(text if len(text) <= TEXT_MAX else text[:TEXT_MAX])  # most texts are short, and a slice costs more


_UNKNOWN = (None, "other")
_read = lru_cache(maxsize=2_048)(language_and_category)
_category = lru_cache(maxsize=2_048)(category_of)
"""Language and category are cached, because detecting them is slow and each refresh returns the same texts."""


def _rate(part: int | None, whole: int, what: str, warnings: list[str]) -> float | None:
    if part is None or whole < 0 or part < 0:
        return None
    if part > whole:
        warnings.append(f"engagement_rate is null: {what} is above 1.0")
        return None
    return part / whole


def author_computed(record: Record, warnings: list[str]) -> Record:
    """Return the computed fields of an Author: rate = likes / followers, reach = followers x rate x 0.1.

    See decisions 3.
    """
    followers = record["followers"]
    rate = _rate(record["likes_count"], followers, "likes_count / followers", warnings) if followers else None
    language, category = _language_and_category(record, record["bio"])
    return {
        "engagement_rate": rate,
        "language": language,
        "content_category": category,
        "estimated_reach": None if rate is None else round(followers * rate * 0.1),
    }


def post_computed(record: Record, warnings: list[str]) -> Record:
    """Return the computed fields of a Post: rate = (likes + comments + shares) / views, reach = views x 1.2.

    See decisions 3.
    """
    engagement = record["engagement"]
    views = engagement["views"]
    language, category = _language_and_category(record, record["content"]["text"])
    return {
        "engagement_rate": _post_rate(engagement, warnings) if views else None,
        "language": language,
        "content_category": category,
        "estimated_reach": None if views is None else round(views * 1.2),
    }


def _post_rate(engagement: Record, warnings: list[str]) -> float | None:
    """Return the sum of the counts that the upstream sent, divided by the views; None if it sent no count."""
    counted = [engagement[name] for name in ("likes", "comments", "shares") if engagement[name] is not None]
    part = sum(counted) if counted else None
    return _rate(part, engagement["views"], "(likes + comments + shares) / views", warnings)
