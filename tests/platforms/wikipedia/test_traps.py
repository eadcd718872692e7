"""Wikipedia's peculiarities: errors with status 200, missing pages, spellings of titles, days, and contact details."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from gateway.config.settings import Config, PlatformSettings, UpstreamSettings
from gateway.node.sites import open_sites
from tests.platforms.case import drive, from_sandbox
from tests.platforms.drive import always, single_of, watched
from tests.platforms.wikipedia.cases import DAYS, SUMMARY
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamThrottled
from upstreams.model.steps import Page
from upstreams.platforms.wikipedia import CATEGORY, PLATFORM
from upstreams.platforms.wikipedia.reads import TITLE

VIEWS = ("page/pageviews", {"title": "Ada"})


single = partial(single_of, PLATFORM)


def asked(resource: str, params: dict[str, Any], body: Any) -> str:
    """Return the URL of the call that a request makes."""
    calls, upstream = watched(always(body))
    drive(PLATFORM, resource, params, upstream)
    host_and_path, call = calls[0]
    return f"{host_and_path}{call.target('').removeprefix(call.path)}"


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        ("invalid-coord", InvalidArgument),
        ("cirrussearch-query-too-long", InvalidArgument),
        ("ratelimited", UpstreamThrottled),
        ("maxlag", UpstreamThrottled),
        ("cirrussearch-too-busy-error", UpstreamThrottled),
    ],
)
def test_error_with_a_success_status_is_detected(code: str, refusal: type[Exception]) -> None:
    near = {"latitude": "91", "longitude": "0"}
    with pytest.raises(refusal):
        drive(PLATFORM, "search/nearby", near, always({"error": {"code": code, "info": "No."}}))


def test_page_marked_missing_is_not_found() -> None:
    body = {"query": {"pages": {"-1": {"ns": 0, "title": "Ada", "missing": ""}}}}
    with pytest.raises(NotFound):
        drive(PLATFORM, "page/links", {"title": "Ada"}, always(body))
    lone = drive(PLATFORM, "page/links", {"title": "Ada"}, always({"query": {"pages": {"7": {"pageid": 7}}}}))
    assert lone == Page([]), "a page without links"


@pytest.mark.parametrize("resource", ["page/links", "page/languages"])
def test_title_in_another_language_is_not_found(resource: str) -> None:
    body = {"batchcomplete": "", "query": {"interwiki": [{"title": "de:Berlin", "iw": "de"}]}}
    with pytest.raises(NotFound, match="lang"):
        drive(PLATFORM, resource, {"title": "de:Berlin"}, always(body))


def test_disambiguation_page_has_a_warning() -> None:
    assert "ambiguous" in single("page", {"title": "Ada"}, always(SUMMARY)).warnings[0]
    assert single("page", {"title": "Ada"}, always({**SUMMARY, "type": "standard"})).warnings == ()


def test_day_without_data_is_omitted_and_zero_is_kept() -> None:
    points = single(*VIEWS, always(DAYS)).record["points"]
    assert [(one["t"][:10], one["value"]) for one in points] == [("2025-01-01", 12), ("2025-01-03", 0)]


@pytest.mark.parametrize(
    ("params", "days"),
    [
        ({}, "daily/2024120100/2024123000"),
        ({"to": "2024-03-01"}, "daily/2024020100/2024030100"),
        ({"from": "2024-01-01", "to": "2024-03-31", "granularity": "monthly"}, "monthly/2024010100/2024033100"),
        ({"granularity": "monthly"}, "monthly/2023120100/2024123000"),
        ({"to": "2024-02-29", "granularity": "monthly"}, "monthly/2023020100/2024022900"),
    ],
)
def test_views_cover_the_requested_days_or_the_last_30(params: Any, days: str) -> None:
    """The test clock is at the start of 2025."""
    assert asked(VIEWS[0], {**VIEWS[1], **params}, DAYS).endswith(f"/en.wikipedia/all-access/user/Ada/{days}")


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"from": "2025-02-30"}, "from"),
        ({"from": "2024-02-01", "to": "2024-01-01"}, "from"),
        ({"to": "2024-1-1"}, "to"),
    ],
)
def test_invalid_days_are_refused_for_free(params: Any, param: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        drive(PLATFORM, VIEWS[0], {**VIEWS[1], **params}, from_sandbox())
    assert refusal.value.param == param


@pytest.mark.parametrize(
    ("detail", "said"), [("Bad day.", "Bad day."), (["Bad day.", 7, "No month."], "Bad day. No month.")]
)
def test_refusal_of_a_span_names_all_problems(detail: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        drive(PLATFORM, *VIEWS, always({"detail": detail}, 400))
    assert (refusal.value.param, refusal.value.problem) == ("from", f"is refused: {said}")


@pytest.mark.parametrize(
    ("date", "path"), [(None, "2024/12/30"), ("2024-07", "2024/07/all-days"), ("2024-07-09", "2024/07/09")]
)
def test_most_viewed_pages_cover_a_day_or_a_month(date: str | None, path: str) -> None:
    assert asked("top", {"date": date} if date else {}, {"items": []}).endswith(f"/top/en.wikipedia/all-access/{path}")


@pytest.mark.parametrize("rank", [None, "first", 0])
def test_unreadable_rank_is_the_position(rank: Any) -> None:
    articles = [{"article": "Ada", "rank": 1}, {"article": "Grace", "rank": rank}]
    found = single("top", {}, always({"items": [{"articles": articles}]}))
    assert [one["rank"] for one in found.record["items"]] == [1, 2]


@pytest.mark.parametrize("spelled", ["Ada Lovelace", " Ada_Lovelace", "Ada  _Lovelace "])
def test_title_spellings_are_normalized(spelled: str) -> None:
    assert (TITLE.canonical(spelled), CATEGORY.canonical(f"Category:{spelled}")) == ("Ada_Lovelace", "Ada_Lovelace")


@pytest.mark.parametrize("spelled", ["https://de.wikipedia.org/wiki/Ada", "a[b]", "a|b", ".."])
def test_invalid_title_is_refused(spelled: str) -> None:
    with pytest.raises(InvalidArgument, match="title"):
        TITLE.canonical(spelled)


def test_title_with_a_slash_is_one_segment() -> None:
    place = asked("page", {"title": "TCP/IP", "lang": "DE"}, SUMMARY)
    assert place == "de.wikipedia.org/api/rest_v1/page/summary/TCP%2FIP"


@pytest.mark.parametrize("contact", ["", "ops@example.org"])
async def test_calls_need_the_operators_contact(contact: str) -> None:
    settings = UpstreamSettings(operator_contact=contact, platforms={"wikipedia": PlatformSettings()})
    async with open_sites(Config(upstreams=settings), [PLATFORM], environ={}, rng=Random(0)) as (site,):
        assert {site.offers(one) for one in PLATFORM.endpoints} == {bool(contact)}
