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


def test_author_rate_is_likes_by_followers() -> None:
    computed, warnings = of_author(likes_count=250, followers=1_000)
    assert (computed["engagement_rate"], computed["estimated_reach"], warnings) == (0.25, 25, [])


def test_post_rate_is_engagement_by_views_and_reach_is_views_times_1_2() -> None:
    computed, warnings = of_post(views=1_000, likes=50, comments=30, shares=20, saves=900)
    assert (computed["engagement_rate"], computed["estimated_reach"], warnings) == (0.1, 1_200, [])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"likes_count": 5},
        {"followers": 5},
        {"likes_count": 5, "followers": 0},
        {"likes_count": -5, "followers": 10},
        {"likes_count": 5, "followers": -10},
    ],
)
def test_author_without_inputs_has_no_rate_and_reach(fields: dict[str, int]) -> None:
    computed, warnings = of_author(**fields)
    assert (computed["engagement_rate"], computed["estimated_reach"], warnings) == (None, None, [])


@pytest.mark.parametrize("fields", [{}, {"likes": 5}, {"likes": 5, "views": 0}, {"likes": -5, "views": 10}])
def test_post_without_inputs_has_no_rate(fields: dict[str, Any]) -> None:
    computed, warnings = of_post(**fields)
    assert (computed["engagement_rate"], warnings) == (None, [])


def test_views_alone_give_a_reach_but_no_rate() -> None:
    computed, _ = of_post(views=10)
    assert (computed["engagement_rate"], computed["estimated_reach"]) == (None, 12)
    assert of_post(likes=3)[0]["estimated_reach"] is None


def test_engagement_sum_ignores_missing_counts() -> None:
    assert of_post(views=10, likes=1, comments=None, shares=None)[0]["engagement_rate"] == 0.1


def test_zero_engagement_is_a_rate_of_zero() -> None:
    assert of_post(views=10, likes=0)[0]["engagement_rate"] == 0
    computed, _ = of_author(likes_count=0, followers=10)
    assert (computed["engagement_rate"], computed["estimated_reach"]) == (0, 0)


def test_rate_of_exactly_one_is_kept() -> None:
    assert of_author(likes_count=10, followers=10) == (
        {"engagement_rate": 1.0, "language": None, "content_category": "other", "estimated_reach": 1},
        [],
    )


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
