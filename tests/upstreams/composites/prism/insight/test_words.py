"""Mentions and their statistics, compared with handmade tables and with recorded searches."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.node import open_test_node
from tests.platforms.case import recorded
from tests.upstreams.composites.prism.insight.legs import ALGOLIA, Json, compose, hit, hits, record
from upstreams.composites.prism.insight.crisis import alert_level, judge
from upstreams.composites.prism.insight.days import DaySpan, group_of
from upstreams.composites.prism.insight.mentions import shares, trend_of
from upstreams.composites.prism.insight.severity import severity_parts
from upstreams.composites.prism.insight.sweep import Mention, finder
from upstreams.composites.prism.insight.tone import Tone, tone_of
from upstreams.model.errors import InvalidArgument
from upstreams.model.steps import Page, Single

ON_HN = {"platforms": "hackernews"}


@pytest.mark.parametrize(
    ("text", "language", "tone"),
    [
        ("Great, it works and I love it", "en", "positive"),
        ("It crashed. Terrible!", "en", "negative"),
        ("Great, but it crashed", "en", "neutral"),
        ("It is not good at all", "en", "negative"),
        ("I don\u2019t hate it", "en", "positive"),
        ("The parser reads a file", "en", "neutral"),
        ("It is good", "en-GB", "positive"),
        ("Das ist super und hilfreich", "de", "positive"),
        ("Nicht gut, leider kaputt", "de-AT", "negative"),
        ("C'est magnifique", "fr", None),
        ("Great", None, None),
        (None, "en", None),
    ],
)
def test_tone_follows_from_the_word_list(text: str | None, language: str | None, tone: Tone | None) -> None:
    assert tone_of(text, language) == tone


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        ("acme", "We use #Acme daily", True),
        ("acme", "acmecorp is another", False),
        ("Notepad++", "I like notepad++.", True),
        ("structured concurrency", "STRUCTURED\n concurrency", True),
        ("\uff21cme", "acme", True),
        ("c", "c++", True),
        ("c", "cc", False),
    ],
)
def test_phrase_matches_whole_words_in_any_case_and_width(phrase: str, text: str, *, found: bool) -> None:
    assert finder(phrase)(text) is found


def mentions_of(table: dict[str, list[Tone | None]]) -> list[Mention]:
    return [Mention("x", date.fromisoformat(day), {}, tone) for day, tones in table.items() for tone in tones]


P, N, NONE = "positive", "negative", None
TABLE: dict[str, list[Any]] = {
    "2025-01-01": [P, P, P],
    "2025-01-02": [P, P, P, P, N],
    "2025-01-03": [P, P, P, N],
    "2025-01-04": [P, P, P, P, N, N],
    "2025-01-05": [NONE, NONE],
    "2025-01-06": [P, P, P, P, N],
    "2025-01-07": [P, P, N],
    "2025-01-08": [P, P, P, N, N, N, N, N, N, NONE, NONE, NONE],
}
"""Volumes 3 5 4 6 2 5 3, then 12: mean 4, deviation sqrt((1+1+0+4+4+1+1)/6) = sqrt(2). Negative shares 0, 1/5, 1/4,
1/3, none, 1/5, 1/3, then 6/9: mean 79/360 = 0.219444, squares 0.048156+0.000378+0.000934+0.012970+0.000378+0.012970 =
0.075787, deviation sqrt(0.075787/5) = 0.123115."""


def test_daily_scores_match_the_table() -> None:
    told = judge(mentions_of(TABLE), DaySpan(date(2025, 1, 1), date(2025, 1, 8)), 2.0)
    assert told["z_volume"] == 5.6569  # (12 - 4) / 1.414214
    assert told["z_negative_share"] == 3.6325  # (0.666667 - 0.219444) / 0.123115
    assert (told["alert_level"], told["breached"]) == ("crisis", True)
    assert told["baseline_window"] == {
        "from": "2025-01-01",
        "to": "2025-01-07",
        "days": 7,
        "rolling_mean_volume": 4.0,
        "rolling_std_volume": 1.4142,
        "today_volume": 12,
        "rolling_mean_negative_share": 0.2194,
        "rolling_std_negative_share": 0.1231,
        "today_negative_share": 0.6667,
    }
    assert [(one["volume"], one["negative_share"]) for one in told["daily_series"]] == [
        (3, 0.0), (5, 0.2), (4, 0.25), (6, 0.3333), (2, None), (5, 0.2), (3, 0.3333), (12, 0.6667),
    ]  # fmt: skip


def test_one_mention_of_a_quiet_brand_does_not_breach() -> None:
    """Goal: a minimum deviation applies. Method: seven days without mentions, then one mention, then three."""
    span = DaySpan(date(2025, 1, 1), date(2025, 1, 8))
    one, three = (judge(mentions_of({"2025-01-08": [NONE] * count}), span, 2.0) for count in (1, 3))
    assert (one["z_volume"], one["alert_level"], one["breached"]) == (1.0, "watch", False)
    assert (three["z_volume"], three["alert_level"], three["z_negative_share"]) == (3.0, "alert", None)


@pytest.mark.parametrize(
    ("z_volume", "z_share", "level"),
    [(0.9, None, "calm"), (1.0, None, "watch"), (2.0, 1.9, "alert"), (-1.0, 2.0, "alert"), (2.0, 2.0, "crisis")],
)
def test_alert_level_follows_from_both_scores(z_volume: float, z_share: float | None, level: str) -> None:
    assert alert_level(z_volume, z_share, 2.0) == level


def test_trend_is_the_least_squares_slope() -> None:
    """By hand: the slope of 1 2 4 is ((-1)(1) + 0 + (1)(4)) / 2 = 1.5. A slope of up to 0.05 of the mean is steady."""
    assert trend_of([1, 2, 4]) == {"slope": 1.5, "direction": "rising", "methodology_version": "1.0.0"}
    assert trend_of([4, 4, 4])["direction"] == "steady"
    assert trend_of([9, 3, 1]) == {"slope": -4.0, "direction": "falling", "methodology_version": "1.0.0"}
    assert trend_of([1, 2])["direction"] is None


def test_weeks_start_on_monday_and_shares_are_of_the_total() -> None:
    assert group_of(date(2025, 1, 5), "week") == date(2024, 12, 30)
    assert group_of(date(2025, 1, 31), "month") == date(2025, 1, 1)
    assert shares(["b", "a", "b"]) == [
        {"name": "b", "mentions": 2, "share": 0.6667},
        {"name": "a", "mentions": 1, "share": 0.3333},
    ]


LISTED = hits(
    hit(9, "2025-01-09", "Acme 2 is great", by="ada", points=30, comments=10, link="https://www.acme.example/2"),
    hit(8, "2025-01-09", "Acme crashed again", by="bob", points=5, comments=2, link="https://news.example/8"),
    hit(7, "2025-01-08", "Acmecorp is another company", by="bob"),
    hit(6, "2025-01-08", "Why Acme reads files", by="ada", points=4, link="https://acme.example/6"),
    hit(5, "2025-01-05", "Acme, the parser", by="eve", points=1),
    hit(4, "2024-12-20", "Acme in old times", by="eve", points=90),
)


def test_mentions_are_dated_and_counted_by_day() -> None:
    page = compose("mentions", {"phrase": "Acme", "date_from": "2025-01-05", **ON_HN}, LISTED)
    assert isinstance(page, Page)
    assert [(one["post"]["id"], one["date"], one["tone"]) for one in page.records] == [
        ("9", "2025-01-09", "positive"),
        ("8", "2025-01-09", "negative"),
        ("6", "2025-01-08", "neutral"),
        ("5", "2025-01-05", "neutral"),
    ]
    assert page.beside is not None
    assert page.beside["dropped"] == 2
    assert page.beside["window"] == {"date_from": "2025-01-05", "date_to": "2025-01-10", "days": 6}
    assert [one["mentions"] for one in page.beside["daily_series"]] == [1, 0, 0, 1, 2, 0]
    assert page.beside["sources"] == [
        {
            "platform": "hackernews",
            "mentions": 4,
            "is_complete": True,
            "oldest_seen_at": "2024-12-20T12:00:00Z",
            "dropped": 2,
        }
    ]


def test_brand_mentions_match_hand_counted_values() -> None:
    told = record("brand-mentions", {"keyword": '"Acme"', "date_from": "2025-01-05", **ON_HN}, LISTED)
    assert (told["keyword"], told["mentions"], told["date_group"]) == ("Acme", 4, "day")
    assert [(one["date"][8:], one["mentions"], one["negative_share"]) for one in told["volume_series"]] == [
        ("05", 1, 0.0), ("06", 0, None), ("07", 0, None), ("08", 1, 0.0), ("09", 2, 0.5), ("10", 0, None),
    ]  # fmt: skip
    sentiment = {name: told["sentiment"][name] for name in ("positive", "neutral", "negative", "uncovered")}
    assert sentiment == {"positive": 1, "neutral": 2, "negative": 1, "uncovered": 0}
    assert (told["sentiment"]["positive_share"], told["sentiment"]["negative_share"]) == (0.25, 0.25)
    assert told["top_sources"] == [{"name": "hackernews", "mentions": 4, "share": 1.0}]
    assert told["top_sites"] == [
        {"name": "acme.example", "mentions": 2, "share": 0.6667},
        {"name": "news.example", "mentions": 1, "share": 0.3333},
    ]
    assert [one["post"]["id"] for one in told["recent_mentions"]] == ["9", "8", "6", "5"]
    # 1 0 0 1 2 0: the mean is 4/6, the slope (-2.5 + 0.5 + 3) / 17.5 = 0.057143, more than 0.05 x 4/6
    assert (told["computed"]["slope"], told["computed"]["direction"]) == (0.0571, "rising")
    weekly = record(
        "brand-mentions", {"keyword": "Acme", "date_from": "2025-01-05", "date_group": "week", **ON_HN}, LISTED
    )
    assert [(one["date"], one["mentions"]) for one in weekly["volume_series"]] == [("2024-12-30", 1), ("2025-01-06", 3)]


def test_brand_search_is_limited_by_site_type() -> None:
    """Goal: only message boards are searched, which are the platforms without followers."""
    values = {"keyword": "Acme", "date_from": "2025-01-05"}
    result: Any = compose("brand-mentions", {**values, "page_type": "message-boards"}, LISTED)
    assert {one["platform"] for one in result.record["sources"]} == {
        "discourse",
        "hackernews",
        "lemmy",
        "stackexchange",
    }
    for refused in ({"page_type": "news"}, {"page_type": "message-boards", "platforms": "mastodon"}):
        with pytest.raises(InvalidArgument) as refusal:
            compose("brand-mentions", {**values, **refused}, LISTED)
        assert (refusal.value.param, refusal.value.reason) == ("page_type", "capability_missing")


def test_recorded_mentions_contain_the_phrase() -> None:
    """Goal: every mention contains the phrase. Method: search the recorded titles and bodies separately."""
    answers = {"api.stackexchange.com/2.3/search/advanced": "stackexchange/search__stackapi_merged.json"}
    items = recorded("", answers["api.stackexchange.com/2.3/search/advanced"]).body["items"]
    expected = {
        str(one["question_id"]): datetime.fromtimestamp(one["creation_date"], UTC).date().isoformat()
        for one in items
        if re.search(r"notepad\+\+", unescape(one["title"] + re.sub("<[^>]+>", "", one.get("body", ""))).lower())
    }
    page = compose("mentions", {"phrase": "notepad++", "platforms": "stackexchange"}, answers)
    assert isinstance(page, Page)
    assert {one["post"]["id"]: one["date"] for one in page.records} == expected
    assert len(expected) == 2
    assert [one["date"] for one in page.records] == sorted(expected.values(), reverse=True)


def test_crisis_is_detected_over_complete_legs() -> None:
    usual = [hit(100 + day, f"2025-01-0{day}", "Why Acme reads files") for day in range(3, 10)]
    worse = [hit(200 + place, "2025-01-10", "Acme crashed again") for place in range(6)]
    told = record("crisis-radar", {"brand": "Acme", **ON_HN}, hits(*worse, *reversed(usual)))
    assert (told["z_volume"], told["z_negative_share"]) == (5.0, 20.0)  # (6-1)/1 and (1-0)/0.05
    assert (told["alert_level"], told["breached"], told["is_partial_day"]) == ("crisis", True, True)
    assert [one["volume"] for one in told["daily_series"]] == [1, 1, 1, 1, 1, 1, 1, 6]


BREACH = [
    hit(
        205,
        "2025-01-10",
        "Acme crashed again, and it is a terrible disaster",
        points=9,
        link="https://news.example/205",
    ),
    *(hit(200 + place, "2025-01-10", "Acme crashed again") for place in range(5)),
    *(hit(100 + day, f"2025-01-0{day}", "Why Acme reads files") for day in range(9, 2, -1)),
]
SECOND_LOOK: Json = {
    **hits(*BREACH),
    f"{ALGOLIA}/search": {"hits": [BREACH[0], hit(7, "2024-12-01", "Acme in old times")], "nbPages": 1},
    f"{ALGOLIA}/items/205": {
        "id": 205,
        "type": "story",
        "children": [
            {"id": 301, "type": "comment", "author": "a", "text": "It is a terrible mess and I hate this"},
            {"id": 302, "type": "comment", "author": "b", "text": "I love it, it is great and it works for me"},
            {"id": 303, "type": "comment", "author": "c", "text": "The parser reads a file and then it is done"},
        ],
    },
}


def test_breach_confirmation_matches_hand_counted_values() -> None:
    """z_volume is (6 - 1) / 1 = 5 and z_negative_share (1 - 0) / 0.05 = 20.

    Both exceed 2 x 2. One in three is angry.
    """
    result = compose("crisis-radar", {"brand": "Acme", "confirm": "true", **ON_HN}, SECOND_LOOK)
    assert isinstance(result, Single)
    told, confirmed = result.record, result.record["confirmation"]
    assert (told["alert_level"], told["z_volume"], told["z_negative_share"]) == ("crisis", 5.0, 20.0)
    assert confirmed["parts"] == {"volume": 100, "tone": 100, "spread": 100, "readers": 33}
    assert told["severity"] == confirmed["severity"] == 83  # 333 / 4 = 83.25
    assert result.credits_used == 45
    assert [(one["post"]["id"], one["anger"]) for one in confirmed["by_anger"]][:2] == [("205", 3), ("200", 1)]
    assert [(one["post"]["id"], one["score"]) for one in confirmed["items"]] == [("205", 0.016393), ("7", 0.016129)]
    assert (confirmed["sentiment"]["negative"], confirmed["readers"]["negative_share"]) == (6, 0.3333)
    assert {leg.endpoint for leg in result.legs} == {"hackernews/search", "hackernews/story/comments"}


@pytest.mark.parametrize(
    ("values", "answers"),
    [
        ({"confirm": "false"}, SECOND_LOOK),
        ({"confirm": "true", "sensitivity": "6", "date_to": "2025-01-09"}, SECOND_LOOK),
        ({"confirm": "true"}, hits(*BREACH)),
    ],
    ids=["not requested", "not breached", "no results"],
)
def test_radar_without_confirmation_costs_its_base_price(values: Json, answers: Json) -> None:
    result = compose("crisis-radar", {"brand": "Acme", **ON_HN, **values}, answers)
    assert isinstance(result, Single)
    assert (result.record["severity"], result.record["confirmation"], result.credits_used) == (None, None, 15)


def test_severity_parts_are_shares_of_twice_the_sensitivity() -> None:
    of_day = [Mention(slug, date(2025, 1, 1), {}, tone) for slug, tone in (("x", N), ("x", N), ("y", P), ("z", None))]
    parts = severity_parts(of_day, (3.0, 1.0), 2.0, 4, 0.5)
    assert parts == {"volume": 75, "tone": 25, "spread": 25, "readers": 50}
    assert severity_parts(of_day, (-1.0, None), 2.0, 3, None) == {
        "volume": 0,
        "tone": None,
        "spread": 33,
        "readers": None,
    }


def test_incomplete_source_is_not_counted() -> None:
    """Goal: days that were not read do not count as days without mentions.

    Method: the only page is full but not the last.
    """
    rows = [hit(place, "2025-01-10", "Acme crashed") for place in range(500)]
    body = {"hits": rows, "nbHits": 9_000, "nbPages": 90, "page": 0}
    told = record("crisis-radar", {"brand": "Acme", **ON_HN}, {"hn.algolia.com/api/v1/search_by_date": body})
    assert told["alert_level"] is told["z_volume"] is told["baseline_window"] is told["breached"] is None
    assert told["daily_series"] == []
    assert told["sources"][0]["is_complete"] is False


def test_campaign_is_compared_with_days_before_and_after() -> None:
    rows = [
        hit(1, "2025-01-09", "Acme, still here", by="eve"),
        *(hit(10 + place, "2025-01-06", "Acme launches", by="ada", points=10, comments=1) for place in range(4)),
        *(hit(20 + place, "2025-01-05", "Acme launches", by="bob", points=50) for place in range(2)),
        hit(30, "2025-01-01", "Acme before", by="eve"),
        hit(31, "2024-12-20", "Acme long before", by="eve"),
    ]
    values = {
        "phrase": "Acme",
        "window_start": "2025-01-05",
        "window_end": "2025-01-07",
        "pre_days": 6,
        "post_days": 14,
    }
    told = record("campaign", {**values, **ON_HN}, hits(*rows))
    names = ("date_from", "date_to", "days", "mentions", "per_day")
    assert [tuple(told[period][name] for name in names) for period in ("before", "during", "after")] == [
        ("2024-12-30", "2025-01-04", 6, 1, 0.1667),
        ("2025-01-05", "2025-01-07", 3, 6, 2.0),
        ("2025-01-08", "2025-01-10", 3, 1, 0.3333),
    ]
    assert (told["lift_percent"], told["sustained_percent"], told["sustained_floor"]) == (1100.0, 100.0, 0.0)
    assert told["peak_date"] == "2025-01-06"
    assert [(one["username"], one["mentions"], one["engagement"]) for one in told["amplifiers"]] == [
        ("bob", 2, 100),
        ("ada", 4, 44),
    ]
    assert {one["dates"] for one in told["amplifiers"]} == {None}, "amplifiers have no dates"
    running = record("campaign", {"phrase": "Acme", "window_start": "2025-01-05", **ON_HN}, hits(*rows))
    assert running["after"] is running["sustained_floor"] is None


@pytest.mark.parametrize(
    ("resource", "values", "param"),
    [
        ("crisis-radar", {"brand": "Acme", "sensitivity": "7"}, "sensitivity"),
        ("crisis-radar", {"brand": "Acme", "sensitivity": "high"}, "sensitivity"),
        ("crisis-radar", {"brand": "Acme", "date_to": "2025-02-01"}, "date_to"),
        ("brand-mentions", {"keyword": "Acme", "date_from": "2025-02-31"}, "date_from"),
        ("brand-mentions", {"keyword": "Acme", "date_from": "2025-01-09", "date_to": "2025-01-01"}, "date_from"),
        ("campaign", {"phrase": "Acme", "window_start": "2025-02-01", "window_end": "2025-03-01"}, "window_start"),
    ],
)
def test_invalid_days_and_numbers_are_refused_before_any_call(resource: str, values: Json, param: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        compose(resource, values, {})
    assert refusal.value.param == param


async def test_radar_score_is_accepted_in_an_alert_rule(tmp_path: Path) -> None:
    body = {
        "recipe": "prism/crisis-radar",
        "params": {"brand": "Acme"},
        "cadence": "daily",
        "track": {"metrics": ["z_volume", "coverage"]},
        "alert_rules": [{"metric": "z_volume", "op": "gte", "value": 2}],
    }
    async with open_test_node(tmp_path) as node:
        answer = await node.client.post(f"{node.url}/v1/monitors", json=body, headers={"x-api-key": node.key})
        assert answer.status_code == 201, answer.content
        assert answer.json()["monitor"]["estimated_cost_per_run"] == 16
