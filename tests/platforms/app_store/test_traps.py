"""The App Store's peculiarities: feeds without lists, empty pages, depth limits, lookups that begin with developers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platforms.app_store.cases import DEVELOPER, LAST, REVIEW, SOLD, feed
from tests.platforms.case import drive
from tests.platforms.drive import Upstream, always, endpoint, page_of, watched
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamThrottled
from upstreams.model.steps import Page
from upstreams.platforms.app_store import PLATFORM

REVIEWS = ("app-reviews", {"app_id": "4711"})


def reviews(upstream: Upstream, **more: Any) -> Page:
    return page_of(PLATFORM, *REVIEWS, upstream, **more)


def test_single_review_outside_a_list_is_read() -> None:
    page = reviews(always({"feed": {"entry": REVIEW}}))
    assert ([one["id"] for one in page.records], page.next) == (["9001"], None)


NO_LAST = {"attributes": {"rel": "last", "href": ""}}


@pytest.mark.parametrize(
    ("body", "cursor", "following"),
    [
        ({"feed": {}}, {"p": 2}, None),
        ({"feed": {"link": [NO_LAST]}}, {"p": 2, "l": 3}, {"p": 3, "l": 3}),
        ({"feed": {"entry": [], "link": [LAST]}}, {"p": 2}, {"p": 3, "l": 3}),
        ({"feed": {"link": [NO_LAST]}}, {"p": 3, "l": 3}, None),
    ],
)
def test_empty_review_page_has_a_warning_and_may_not_be_the_last(
    body: Any, cursor: dict[str, int], following: Any
) -> None:
    page = reviews(always(body), cursor=cursor)
    assert (page.records, page.next) == ([], following)
    assert "Try again" in page.warnings[0]


def test_app_row_is_not_a_review() -> None:
    assert [one["id"] for one in reviews(always(feed({"im:name": {"label": "Parsers"}}, REVIEW))).records] == ["9001"]


@pytest.mark.parametrize(("page", "last", "following"), [(1, 3, 2), (3, 3, None), (9, 40, 10), (10, 40, None)])
def test_reviews_end_at_the_last_page_or_the_tenth(page: int, last: int, following: int | None) -> None:
    link = {"attributes": {"rel": "last", "href": f"https://itunes.apple.com/us/rss/page={last}/id=4711/xml"}}
    found = reviews(always({"feed": {"entry": [REVIEW], "link": [link]}}), cursor={"p": page})
    assert found.next == (following and {"p": following, "l": min(last, 10)})


def test_page_number_is_sent_only_for_later_pages() -> None:
    calls, upstream = watched(always(feed(REVIEW)))
    reviews(upstream)
    reviews(upstream, cursor={"p": 2})
    assert ["page=" in place for place, _ in calls] == [False, True]


def test_developer_number_is_not_an_app_and_may_have_no_apps() -> None:
    lookup = always({"resultCount": 1, "results": [DEVELOPER]})
    with pytest.raises(NotFound):
        drive(PLATFORM, "app-info", {"app_id": "815"}, lookup)
    assert drive(PLATFORM, "developer-apps", {"developer_id": "815"}, lookup) == Page([])
    with pytest.raises(NotFound):
        drive(PLATFORM, "developer-apps", {"developer_id": "815"}, always({"resultCount": 0, "results": []}))


@pytest.mark.parametrize("status", [200, 400])
def test_refusal_names_the_parameter_for_any_status(status: int) -> None:
    body = {"errorMessage": "Invalid value(s) for key(s): [country]", "queryParameters": {}}
    with pytest.raises(InvalidArgument) as refusal:
        drive(PLATFORM, "app-search", {"query": "parsers", "country": "zz"}, always(body, status))
    assert refusal.value.param == "country"


@pytest.mark.parametrize("status", [403, 429, 503])
def test_statuses_403_429_and_503_mean_throttling(status: int) -> None:
    with pytest.raises(UpstreamThrottled):
        drive(PLATFORM, "app-search", {"query": "parsers"}, always("Forbidden", status))


@pytest.mark.parametrize(("price", "told_as"), [(-1, (None, None)), (0, (0, True)), (2.99, (2.99, False))])
def test_negative_price_is_null(price: float, told_as: tuple[float | None, bool | None]) -> None:
    page = page_of(PLATFORM, "app-search", {"query": "x"}, always({"results": [{**SOLD, "price": price}]}))
    found = page.records[0]["price"]
    assert (found["current"], found["is_free"]) == told_as


@pytest.mark.parametrize(
    ("resource", "spelled", "canonical"),
    [
        ("app-info", "https://apps.apple.com/us/app/parsers/id4711?uo=4", "us/4711"),
        ("app-info", "itunes.apple.com/app/id4711", "4711"),
        ("app-info", " com.example.Parsers ", "com.example.Parsers"),
        ("app-info", "id.co.bankbkemobile.digitalbank", "id.co.bankbkemobile.digitalbank"),
        ("app-reviews", "id4711", "4711"),
        ("developer-apps", "https://apps.apple.com/de/developer/ada/id815", "de/815"),
    ],
)
def test_app_id_spellings_are_normalized(resource: str, spelled: str, canonical: str) -> None:
    assert endpoint(PLATFORM, resource).params[0].canonical(spelled) == canonical


@pytest.mark.parametrize(
    ("resource", "params", "target"),
    [
        ("app-info", {"app_id": "id4711"}, "/lookup?id=4711&country=us&"),
        ("app-info", {"app_id": "id.example.app"}, "/lookup?bundleId=id.example.app&country=us&"),
        ("app-info", {"app_id": "https://apps.apple.com/de/app/x/id4711"}, "/lookup?id=4711&country=de&"),
        ("app-reviews", {"app_id": "https://apps.apple.com/de/app/x/id4711"}, "/de/rss/customerreviews/id=4711/"),
        ("developer-apps", {"developer_id": "https://apps.apple.com/de/developer/id815"}, "/lookup?id=815&country=de&"),
    ],
)
def test_url_includes_the_country(resource: str, params: dict[str, str], target: str) -> None:
    calls, upstream = watched(always({**feed(REVIEW), "results": [SOLD]}))
    drive(PLATFORM, resource, params, upstream)
    assert f"{calls[0][1].target('')}&".startswith(target)
    if "https" in str(params):
        with pytest.raises(InvalidArgument):
            drive(PLATFORM, resource, {**params, "country": "fr"}, upstream)
