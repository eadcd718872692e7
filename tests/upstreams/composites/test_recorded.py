"""Responses of composites with recorded legs. The expected values are calculated from the recordings' own JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from html import unescape
from math import log10
from statistics import fmean
from typing import Any

import pytest

from tests.platforms.case import recorded
from tests.platforms.drive import drive
from tests.upstreams.composites.prism.insight.legs import Json, compose, record
from upstreams.composites import with_composites
from upstreams.model.endpoint import Platform
from upstreams.model.steps import Answer, Call, Page, Single
from upstreams.platforms import load_platforms

ALGOLIA, LEMMY, OVERFLOW = "hn.algolia.com/api/v1", "lemmy.world/api/v3", "api.stackexchange.com/2.3/search/advanced"
MASTODON = "mastodon.social/api/v1"
QUESTIONS = "stackexchange/search__stackapi_merged.json"
ACCOUNT, STATUSES = "mastodon/account_lookup__mastodonpy_test.json", "mastodon/account_statuses__limit5.json"
ALL: Mapping[str, Platform] = {one.slug: one for one in with_composites(load_platforms())}
ON_OVERFLOW = {"platforms": "stackexchange"}
NOON_2026_AT = datetime(2026, 8, 2, 12, tzinfo=UTC).timestamp()


def body(file: str) -> Any:
    return recorded("", file).body


def call(path: str, values: Json, answers: Mapping[str, Any], now_at: float = NOON_2026_AT) -> Page | Single:
    """Return the result of a composite of any platform.

    `answers` maps `host/path` to a recording; other paths return 404.
    """
    slug, _, resource = path.partition("/")
    platform = ALL[slug]
    endpoint = next(one for one in platform.endpoints if one.resource == resource)

    def upstream(place: str, _call: Call) -> Answer:
        file = answers.get(place)
        return Answer(404, {}, {}) if file is None else recorded("", file)

    return drive(platform, resource, endpoint.canonical(values), upstream, now_at=now_at)


def dated(word: str) -> list[date]:
    """Return the days of the recorded questions whose titles contain a word."""
    pattern = re.compile(rf"\b{word}\b", re.IGNORECASE)
    return sorted(
        datetime.fromtimestamp(one["creation_date"], UTC).date()
        for one in body(QUESTIONS)["items"]
        if pattern.search(unescape(one["title"]))
    )


DAYS = dated("indentation")
"""About twenty questions, from 2010 to 2019."""


def test_recorded_brand_mentions_are_counted_by_month() -> None:
    told = record(
        "brand-mentions",
        {"keyword": "indentation", "date_from": "2010-01-01", "date_to": "2014-12-31", "date_group": "month"}
        | ON_OVERFLOW,
        {OVERFLOW: QUESTIONS},
    )
    months = [(year, month) for year in range(2010, 2015) for month in range(1, 13)]
    counts = [sum((one.year, one.month) == month for one in DAYS) for month in months]
    assert [one["mentions"] for one in told["volume_series"]] == counts
    assert told["mentions"] == sum(counts) > 10
    size, mean = len(counts), fmean(counts)
    over = sum((place - (size - 1) / 2) * (count - mean) for place, count in enumerate(counts))
    slope = over / sum((place - (size - 1) / 2) ** 2 for place in range(size))
    assert told["computed"]["slope"] == round(slope, 4)
    assert told["computed"]["direction"] == (
        "steady" if abs(slope) <= mean / 20 else "rising" if slope > 0 else "falling"
    )
    ids = {str(one["question_id"]) for one in body(QUESTIONS)["items"]}
    assert {one["post"]["id"] for one in told["recent_mentions"]} <= ids
    assert told["recent_mentions"][0]["date"] == max(one for one in DAYS if one.year < 2015).isoformat()


def test_recorded_search_everywhere_is_ranked_by_fusion() -> None:
    answers = {
        f"{ALGOLIA}/search": "hackernews/algolia_search__tags_story__query_apple.json",
        f"{LEMMY}/search": "lemmy/v3_post_list.json",
        OVERFLOW: QUESTIONS,
    }
    result = call("search/everywhere", {"query": "x", "platforms": "hackernews,lemmy,stackexchange"}, answers)
    assert isinstance(result, Page)
    listed: dict[str, list[tuple[str, str]]] = {  # for each platform, the ids and the URLs that they link to
        "hackernews": [(one["objectID"], one["url"]) for one in body(answers[f"{ALGOLIA}/search"])["hits"]],
        "lemmy": [
            (str(one["post"]["id"]), one["post"].get("url") or one["post"]["ap_id"])
            for one in body("lemmy/v3_post_list.json")["posts"]
        ],
        "stackexchange": [(str(one["question_id"]), one["link"]) for one in body(QUESTIONS)["items"]],
    }
    scores, best = dict[str, float](), dict[str, tuple[str, str]]()
    for slug, rows in listed.items():
        places: dict[str, int] = {}
        for place, (id_, link) in enumerate(rows):
            best.setdefault(link, (slug, id_))
            places.setdefault(link, place)  # a page that a platform lists twice counts once, at its first position
        for link, place in places.items():
            scores[link] = scores.get(link, 0) + 1 / (61 + place)
    expected = sorted((-round(score, 6), *best[link]) for link, score in scores.items())
    assert sorted((-one["score"], one["platform"], one["post"]["id"]) for one in result.records) == expected
    assert [(-one["score"], one["platform"]) for one in result.records] == [one[:2] for one in expected]
    assert result.beside is not None
    assert {slug: len(rows) for slug, rows in result.beside["items_by_source"].items()} == {
        slug: len(ids) for slug, ids in listed.items()
    }


def test_recorded_account_audit_has_the_score_computed_by_hand() -> None:
    """By hand: no followers; five posts of 18 letters within one second, 22 hours ago; no media, likes or comments."""
    answers = {f"{MASTODON}/accounts/lookup": ACCOUNT, f"{MASTODON}/accounts/117020565966271181/statuses": STATUSES}
    result = call("prism/handle-audit", {"handle": "ada", "platforms": "mastodon"}, answers)
    assert isinstance(result, Single)
    block = result.record["platforms"]["mastodon"]
    statuses = body(STATUSES)
    newest = max(datetime.fromisoformat(one["created_at"]).timestamp() for one in statuses)
    letters = fmean(len(re.sub("<[^>]+>", "", one["content"])) for one in statuses)
    signals = block["signals"]
    assert signals["sampled_posts"] == len(statuses)
    assert signals["avg_text_length"] == round(letters, 1)
    assert signals["days_since_last_post"] == pytest.approx((NOON_2026_AT - newest) / 86_400, abs=0.01)
    assert (signals["followers"], signals["media_fraction"], signals["median_engagement_rate"]) == (0, 0.0, None)
    presence, audience = 60 + 40 * 3 / 3, 100 * log10(1) / 6  # a name, a picture and a bio; no address field
    activity, richness = 0.6 * 100 + 0.4 * 100, 50 * letters / 200
    told = block["score_components"]
    assert (told["presence"], told["audience"], told["engagement"]) == (presence, audience, None)
    assert (told["activity"], told["content_richness"]) == (activity, round(richness, 1))
    weighted = 0.10 * presence + 0.25 * audience + 0.25 * activity + 0.15 * richness
    assert block["score"] == result.record["score"] == round(weighted / 0.75)
    assert block["verdict"] == ("pull" if block["score"] >= 60 else "pull_partial" if block["score"] >= 35 else "skip")


def test_recorded_full_profile_and_voice_have_the_same_posts() -> None:
    answers = {f"{MASTODON}/accounts/lookup": ACCOUNT, f"{MASTODON}/accounts/117020565966271181/statuses": STATUSES}
    ids = [one["id"] for one in body(STATUSES)]
    full = call("mastodon/profile/full", {"handle": "ada", "posts": 5}, answers)
    assert isinstance(full, Single)
    assert [row["post"]["id"].rpartition("/")[2] for row in full.record["posts"]] == ids
    assert full.record["computed"]["format_mix"] == {"text": 1.0}
    said = call("prism/voice", {"handle": "ada", "platforms": "mastodon,lemmy"}, answers)
    assert isinstance(said, Single)
    assert [row["post"]["id"].rpartition("/")[2] for row in said.record["merged_timeline"]] == ids
    assert said.record["platform_presence"] == {"lemmy": False, "mastodon": True}


TALK = {
    f"{LEMMY}/search": "lemmy/v3_post_list.json",
    f"{LEMMY}/comment/list": "lemmy/v3_comment_list.json",
    "test1.lemmy.ddenis.info/api/v3/comment/list": "lemmy/v3_comment_list.json",
}
"""These threads come from a server whose recordings contain its address."""


def test_recorded_thread_comments_are_returned_in_order() -> None:
    result = compose("comments", {"url": "https://lemmy.world/post/180"}, TALK)
    assert isinstance(result, Page)
    rows = body(TALK[f"{LEMMY}/comment/list"])["comments"]
    assert [one["id"] for one in result.records] == [str(one["comment"]["id"]) for one in rows]
    assert [one["engagement"]["likes"] for one in result.records] == [one["counts"]["score"] for one in rows]
    assert result.credits_used == 2
