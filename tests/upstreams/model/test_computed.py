"""Computed fields are computed only from the upstream's own numbers and texts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.model.archetypes import author, post
from upstreams.model.computed import author_computed, post_computed

ENGLISH = "This is a plain sentence in English about nothing at all"
COUNTS = st.none() | st.integers(-5, 2**63 - 1)


def of_author(**fields: Any) -> tuple[dict[str, Any], list[str]]:
    warnings: list[str] = []
    return author_computed(author(id="1", **fields), warnings), warnings


def of_post(text: str | None = None, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    warnings: list[str] = []
    return post_computed(post(id="1", url=None, text=text, author=None, **fields), warnings), warnings


@pytest.mark.parametrize(
    ("fields", "rate", "reach"),
    [
        ({"likes_count": 250, "followers": 1_000}, 0.25, 25),
        ({"likes_count": 0, "followers": 10}, 0, 0),
        ({"likes_count": 10, "followers": 10}, 1.0, 1),
        ({}, None, None),
        ({"likes_count": 5}, None, None),
        ({"followers": 5}, None, None),
        ({"likes_count": 5, "followers": 0}, None, None),
        ({"likes_count": -5, "followers": 10}, None, None),
        ({"likes_count": 5, "followers": -10}, None, None),
    ],
)
def test_author_rate_is_likes_by_followers(fields: dict[str, int], rate: float | None, reach: int | None) -> None:
    computed, warnings = of_author(**fields)
    assert (computed["engagement_rate"], computed["estimated_reach"], warnings) == (rate, reach, [])


@pytest.mark.parametrize(
    ("fields", "rate", "reach"),
    [
        ({"views": 1_000, "likes": 50, "comments": 30, "shares": 20, "saves": 900}, 0.1, 1_200),
        ({"views": 10, "likes": 1, "comments": None, "shares": None}, 0.1, 12),
        ({"views": 10, "likes": 0}, 0, 12),
        ({"views": 10}, None, 12),
        ({"likes": -5, "views": 10}, None, 12),
        ({"likes": 5, "views": 0}, None, 0),
        ({"likes": 3}, None, None),
        ({}, None, None),
    ],
)
def test_post_rate_is_engagement_by_views_and_reach_is_views_times_1_2(
    fields: dict[str, Any], rate: float | None, reach: int | None
) -> None:
    computed, warnings = of_post(**fields)
    assert (computed["engagement_rate"], computed["estimated_reach"], warnings) == (rate, reach, [])


def test_rate_above_one_is_null_with_a_warning() -> None:
    computed, warnings = of_author(likes_count=11, followers=10)
    assert (computed["engagement_rate"], computed["estimated_reach"]) == (None, None)
    assert warnings == ["engagement_rate is null: likes_count / followers is above 1.0"]
    computed, warnings = of_post(views=10, likes=11)
    assert (computed["engagement_rate"], computed["estimated_reach"]) == (None, 12)
    assert warnings == ["engagement_rate is null: (likes + comments + shares) / views is above 1.0"]


@given(COUNTS, COUNTS)
def test_rate_is_null_or_between_zero_and_one(likes: int | None, whole: int | None) -> None:
    for computed, warnings in (of_author(likes_count=likes, followers=whole), of_post(views=whole, likes=likes)):
        rate = computed["engagement_rate"]
        assert rate is None or 0 <= rate <= 1
        assert len(warnings) == int(likes is not None and whole is not None and likes > whole > 0)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        (ENGLISH, "en"),
        ("Bonjour tout le monde, ceci est un texte en français", "fr"),
        ("Guten Morgen zusammen, wie geht es euch heute", "de"),
        ("你好世界这是一个测试文本内容", "zh"),
        (None, None),
        ("", None),
        ("1234567890 1234567890 !!! ???", None),
    ],
)
def test_language_is_detected_from_the_text(text: str | None, tag: str | None) -> None:
    assert of_post(text)[0]["language"] == tag


def test_upstream_language_tag_takes_precedence() -> None:
    assert of_author(bio=ENGLISH, ext={"language": "pt-BR"})[0]["language"] == "pt-BR"
    assert of_author(bio="football coach", ext={"language": "nl"})[0]["content_category"] == "sports"
    assert of_post("", ext={"language": "fr"})[0]["language"] == "fr"
    assert of_post(ENGLISH, ext={"language": ""})[0]["language"] == "en"
    assert of_post(ENGLISH, ext={"language": None})[0]["language"] == "en"
    assert of_post(ENGLISH, ext={"language": 7})[0]["language"] == "en"


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("We write Python software for servers", "technology"),
        ("AI", "ai"),
        ("Recipes from a cooking chef, and one song", "food"),
        ("A song, a recipe", "music"),
        ("Élitecoach/PYTHON.rust\ud800nba", "technology"),
        ("Nothing of the sort", "other"),
        ("Partly scientific", "other"),
        ("", "other"),
        (None, "other"),
    ],
)
def test_category_has_the_most_keywords(text: str | None, category: str) -> None:
    assert of_post(text)[0]["content_category"] == category


def test_category_is_computed_from_bio_or_post_text() -> None:
    assert of_author(bio="football coach")[0]["content_category"] == "sports"
    assert of_post("a new album by the band")[0]["content_category"] == "music"
