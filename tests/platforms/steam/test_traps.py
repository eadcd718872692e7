"""Steam's peculiarities: empty answers that mean throttling, cursors that never end, prices in cents, dates as text."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platforms.case import drive
from tests.platforms.drive import always, page_of, single_of, told
from tests.platforms.steam.cases import DETAILS, REVIEW, UNPRICED
from upstreams.model.errors import UpstreamFailed, UpstreamThrottled
from upstreams.model.steps import Answer, Call, Page
from upstreams.platforms.steam import APP_ID, PLATFORM

REVIEWS = ("app/reviews", {"app_id": "892970"})


def app(body: Any) -> dict[str, Any]:
    result = single_of(PLATFORM, "app", {"app_id": "4713"}, always({"4713": {"success": True, "data": body}}))
    return result.record


@pytest.mark.parametrize("answer", [told(None), told(None, 429), told("", 403)])
def test_empty_answer_or_refusal_means_throttling(answer: Answer) -> None:
    with pytest.raises(UpstreamThrottled):
        drive(PLATFORM, "app", {"app_id": "892970"}, lambda _place, _call: answer)


def test_details_of_another_app_are_an_upstream_failure() -> None:
    with pytest.raises(UpstreamFailed):
        drive(PLATFORM, "app", {"app_id": "4713"}, always({"4714": {"success": True, "data": DETAILS}}))


def test_reviews_continue_with_an_encoded_cursor() -> None:
    asked: list[str] = []

    def upstream(_place: str, call: Call) -> Answer:
        asked.append(call.target(""))
        return told({"reviews": [REVIEW], "cursor": "AoJ4s+b="})

    first = page_of(PLATFORM, *REVIEWS, upstream)
    assert first.next == {"c": "AoJ4s+b="}
    again = page_of(PLATFORM, *REVIEWS, upstream, cursor=first.next)
    assert again.next is None, "a repeated cursor ends the list"
    assert ["cursor=%2A" in asked[0], "cursor=AoJ4s%2Bb%3D" in asked[1]] == [True, True]


@pytest.mark.parametrize("cursor", [None, {"c": "AoJ4s"}])
def test_empty_page_ends_the_list_but_a_short_page_does_not(cursor: Any) -> None:
    short = page_of(PLATFORM, *REVIEWS, always({"reviews": [REVIEW], "cursor": "other"}), cursor=cursor)
    empty = drive(PLATFORM, *REVIEWS, always({"reviews": [], "cursor": "other"}), cursor=cursor)
    assert isinstance(empty, Page)
    assert (short.next, empty.next) == ({"c": "other"}, None)


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("24 Sep, 2024", "2024-09-24T00:00:00Z"), ("Sep 4, 2024", "2024-09-04T00:00:00Z"),
        ("1 January, 2025", "2025-01-01T00:00:00Z"), ("Q4 2025", None), ("2025", None), ("Coming soon", None),
        ("31 Feb, 2024", None), ("4 Anf, 2024", None), ("24. Sep. 2024", None), ("", None), (7, None),
    ],
)  # fmt: skip
def test_date_without_a_day_is_null(written: Any, day: str | None) -> None:
    found = app({**DETAILS, "release_date": {"date": written, "coming_soon": True}})
    assert (found["released_at"], found["ext"]["release_date"]) == (day, written if written and written != 7 else None)


def test_free_app_has_no_price_and_unpriced_app_may_be_free() -> None:
    assert app(DETAILS)["price"] == {"current": None, "currency": None, "displayed": None, "is_free": True}
    page = page_of(PLATFORM, "search", {"query": "x"}, always({"total": 1, "items": [UNPRICED]}))
    (row,) = page.records
    assert (row["price"]["is_free"], row["url"]) == (None, "https://store.steampowered.com/sub/4712")


@pytest.mark.parametrize("spelled", ["892970", "https://store.steampowered.com/app/892970/Valheim/?l=german"])
def test_app_is_identified_by_number_or_url(spelled: str) -> None:
    assert APP_ID.canonical(spelled) == "892970"


@pytest.mark.parametrize(("votes", "count"), [(4_294_967_295, None), (2_147_483_648, None), (0, 0), (12_345, 12_345)])
def test_negative_votes_are_null(votes: int, count: int | None) -> None:
    page = page_of(PLATFORM, *REVIEWS, always({"reviews": [{**REVIEW, "votes_up": votes, "votes_funny": votes}]}))
    assert (page.records[0]["helpful_votes"], page.records[0]["ext"]["votes_funny"]) == (count, count)
