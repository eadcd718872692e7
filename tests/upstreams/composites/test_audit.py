"""The audit's arithmetic, compared with a handmade table that docs/composites.md contains too."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.docs.source import PROJECT
from tests.upstreams.composites.playing import ABSENT, FAILED, Answered, page, play, play_single, single
from upstreams.composites.prism import scoring
from upstreams.model.archetypes import Record, author, post
from upstreams.model.errors import NotFound, UpstreamFailed
from upstreams.model.steps import Missing

DAY_S = 86_400
NOW_AT = 1_735_689_600
FIELDS = ("display_name", "avatar_url", "bio", "external_url")
TABLE: tuple[tuple[dict[str, Any], dict[str, float | None], int | None], ...] = (
    # Columns: signals; components; score = sum of weight x component, divided by the sum of the weights that apply.
    (
        {"followers": 999_999, "ratio": 2.0, "days": 0.0, "weekly": 3.0, "media": 0.5, "letters": 200.0, "filled": 4},
        {"presence": 100, "audience": 100, "engagement": 100, "activity": 100, "content_richness": 100},
        100,
    ),
    (
        {"followers": 999, "ratio": 1.0, "days": 7.0, "weekly": 1.5, "media": 0.0, "letters": 100.0, "filled": 2},
        {"presence": 80, "audience": 50, "engagement": 50, "activity": 80, "content_richness": 25},
        57,  # 8 + 12.5 + 12.5 + 20 + 3.75 = 56.75
    ),
    (
        {"followers": 0, "ratio": None, "days": 90.0, "weekly": 0.03, "media": 0.0, "letters": 0.0, "filled": 0},
        {"presence": 60, "audience": 0, "engagement": None, "activity": 0.4, "content_richness": 0},
        8,  # (6 + 0 + 0.1 + 0) / 0.75 = 8.13
    ),
    (
        {"followers": None, "ratio": None, "days": None, "weekly": None, "media": None, "letters": None, "filled": 4},
        {"presence": 100, "audience": None, "engagement": None, "activity": None, "content_richness": None},
        None,  # 0.1 of the weight
    ),
    (
        {"followers": 99, "ratio": 5.0, "days": 48.5, "weekly": None, "media": 0.25, "letters": 400.0, "filled": 1},
        {"presence": 70, "audience": 33.3, "engagement": 100, "activity": 50, "content_richness": 75},
        64,  # 7 + 8.33 + 25 + 12.5 + 11.25 = 64.08
    ),
)


def signals(row: dict[str, Any]) -> Record:
    return {
        "followers": row["followers"],
        "er_benchmark_ratio": row["ratio"],
        "days_since_last_post": row["days"],
        "posts_per_week": row["weekly"],
        "media_fraction": row["media"],
        "avg_text_length": row["letters"],
        "sampled_posts": None if row["days"] is None else 5,
    }


@pytest.mark.parametrize(("row", "components", "score"), TABLE)
def test_scores_match_the_table(row: dict[str, Any], components: dict[str, float | None], score: int | None) -> None:
    filled = dict.fromkeys(FIELDS[: row["filled"]], "x")
    scored = scoring.score_of(author(id="1", **filled), signals(row), frozenset())
    assert {name: value if value is None else round(value, 1) for name, value in scored.components.items()} == {
        name: value if value is None else round(value, 1) for name, value in components.items()
    }
    assert scored.score == score


def test_docs_table_has_the_first_rows() -> None:
    text = (PROJECT / "docs" / "composites.md").read_text()
    rows = re.findall(r"^\| (?:[\d,]+|unknown) \|.*\| (\d+|none) \|$", text, re.MULTILINE)
    assert rows == ["none" if score is None else str(score) for _, _, score in TABLE[:4]]
    for name, weight in scoring.WEIGHTS.items():
        assert f"| `{name}` | {weight:.2f} |" in text
    for words in (
        "at least 60",
        "at least 35",
        "less than 0.4",
        "0.04 for a rate of views",
        "0.01 for a rate of followers",
    ):
        assert words.lower() in text.lower()
    assert (scoring.PULL, scoring.PULL_PARTIAL, scoring.WEIGHT_LEAST) == (60, 35, 0.4)
    assert (scoring.BENCHMARK_BY_VIEWS, scoring.BENCHMARK_BY_FOLLOWERS) == (0.04, 0.01)
    assert sum(scoring.WEIGHTS.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("score", "verdict"),
    [
        (None, "insufficient_evidence"),
        (0, "skip"),
        (34, "skip"),
        (35, "pull_partial"),
        (59, "pull_partial"),
        (60, "pull"),
    ],
)
def test_verdict_follows_from_the_score(score: int | None, verdict: str) -> None:
    assert scoring.verdict_of(score) == verdict


def test_never_filled_field_does_not_lower_the_score() -> None:
    scored = scoring.score_of(author(id="1", bio="x"), signals(TABLE[3][0]), frozenset(FIELDS[:2]))
    assert scored.components["presence"] == 80  # it fills one of the two remaining fields


def posted(days_ago: float, **more: Any) -> Record:
    at = NOW_AT - days_ago * DAY_S
    instant = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return post(id=str(days_ago), url=None, text=more.pop("text", "x" * 100), author=None, published_at=instant, **more)


SLOW = Missing("late", "x", failure=UpstreamFailed("x", "late"), late=True)


def test_audit_fields_match_hand_made_evidence() -> None:
    """Mastodon has posts that are 7 and 14 days old.

    Lemmy does not have the name, GitHub has no posts, and Bluesky is late.
    """
    filled = {"display_name": "Ada", "bio": "x", "avatar_url": "https://x"}
    ada = author(id="7", username="ada", followers=999, posts_count=80, **filled)
    legs: dict[tuple[str, str], Answered] = {
        ("mastodon", "profile"): single(ada),
        ("mastodon", "profile/posts"): page(posted(7, likes=10, comments=0), posted(14, likes=10, comments=4)),
        ("lemmy", "profile"): ABSENT,
        ("lemmy", "profile/posts"): ABSENT,
        ("github", "profile"): single(author(id="8", username="ada", followers=None, posts_count=5)),
        ("bluesky", "profile"): SLOW,
        ("bluesky", "user/posts"): FAILED,
    }
    result = play_single(
        "prism/handle-audit",
        {"handle": "ada", "platforms": "mastodon,lemmy,github,bluesky"},
        lambda part: legs[part.platform, part.resource],
    )
    record = result.record
    own = record["platforms"]["mastodon"]
    assert own["signals"] == {
        "followers": 999,
        "verified": None,
        "posts_total": 80,
        "sampled_posts": 2,
        "median_engagement_rate": 0.012012,  # the median of 10/999 and 14/999
        "er_benchmark_ratio": 1.2012,
        "days_since_last_post": 7.0,
        "avg_comments_per_post": 2.0,
        "posts_per_week": 1.0,
        "media_fraction": 0.0,
        "avg_text_length": 100.0,
    }
    # presence 60 + 40 x 3/3, since Mastodon has no external_url; audience 50; engagement 60.1; activity 0.6 x 100 + 0.4
    # x 33.3; content 25: 10 + 12.5 + 15.02 + 18.33 + 3.75 = 59.6
    assert own["score_components"] == {
        "presence": 100.0,
        "audience": 50.0,
        "engagement": 60.1,
        "activity": 73.3,
        "content_richness": 25.0,
    }
    assert (own["score"], own["score_status"], own["verdict"]) == (60, "complete", "pull")
    github = record["platforms"]["github"]
    assert (github["score"], github["verdict"], github["found"]) == (None, "insufficient_evidence", True)
    assert github["evidence"]["posts"]["state"] == "not_supported"
    assert record["platforms"]["lemmy"]["verdict"] == "not_found"
    bluesky = record["platforms"]["bluesky"]["evidence"]
    assert (bluesky["profile"]["state"], bluesky["profile"]["failure_reason"]) == ("unavailable", "timeout")
    assert bluesky["posts"]["failure_reason"] == "upstream_error"
    assert record["evaluated_platforms"] == ["github", "mastodon"]
    assert (record["skipped_platforms"], record["best_platforms"]) == (["bluesky"], ["mastodon"])
    assert record["score_aggregation"] == {
        "best_platform": "mastodon",
        "best_score": 60,
        "mean_score": 60.0,
        "best_weight": 0.7,
        "mean_weight": 0.3,
    }
    assert (record["score"], record["verdict"], record["score_status"]) == (60, "pull", "partial")
    assert record["component_coverage"]["audience"] == "partial"
    assert record["surface"]["posts_estimate"] == {"github": 5, "mastodon": 80, "total": 85}
    assert record["surface"]["comments_estimate"] == {"github": None, "mastodon": 160, "total": 160}
    cost = record["surface"]["pull_cost_estimate_credits"]
    assert cost == {"posts_only": 2, "posts_and_comments": 162}  # 80 posts in pages of 40; two for the comments of each
    assert record["confidence"]["tier"] == "medium"  # 5 of 7 reads
    assert len(record["evidence_fingerprint"]) == 64


def test_fingerprint_depends_on_the_evidence() -> None:
    def fingerprint(followers: int) -> str:
        legs: dict[str, Answered] = {"profile": single(author(id="7", followers=followers)), "profile/posts": page()}
        result = play_single(
            "prism/handle-audit", {"handle": "ada", "platforms": "mastodon"}, lambda part: legs[part.resource]
        )
        assert result.record["platforms"]["mastodon"]["evidence"]["posts"]["state"] == "observed_empty"
        return str(result.record["evidence_fingerprint"])

    assert fingerprint(1) == fingerprint(1) != fingerprint(2)


def test_unknown_name_is_not_found() -> None:
    with pytest.raises(NotFound):
        play("prism/handle-audit", {"handle": "ada", "platforms": "lemmy,mastodon"}, lambda _part: ABSENT)
