"""The fields that every platform with sources must have, with invented values."""

from __future__ import annotations

from typing import Final, TypedDict

from upstreams.model.choices import Category


class PlatformFields(TypedDict):
    """The category, the links and the day of a platform."""

    category: Category
    docs_url: str
    terms_url: str
    checked_on: str


FIELDS: Final[PlatformFields] = {
    "category": "forums",
    "docs_url": "https://odd.test/docs",
    "terms_url": "https://odd.test/terms",
    "checked_on": "2026-11-28",
}
