"""The links that a crawl follows: one spelling a page, its bounds, and traps."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.jobs.crawl.links import QUERIES_MAX, SHAPE_MAX, CrawlBounds, canonical, next_pages

START = "https://site.test/docs/"


def pages(*links: str, room: int = 10_000, known: Sequence[str] = (START,), **bounds: object) -> list[str]:
    return next_pages(CrawlBounds(START, 10_000, **bounds), known, [links], room=room)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("HTTPS://Site.TEST:443/Docs/#part", "https://site.test/Docs/"),
        ("http://site.test:80", "http://site.test/"),
        ("http://site.test:8080/a", "http://site.test:8080/a"),
        ("https://site.test./a b", "https://site.test/a%20b"),
        ("https://site.test/a%2Fb", "https://site.test/a%2Fb"),
        ("https://bücher.test/ü", "https://xn--bcher-kva.test/%C3%BC"),
        ("https://site.test/a?utm_source=x&b=2&fbclid=9&a", "https://site.test/a?b=2&a"),
        ("https://site.test/a;jsessionid=0A1B?PHPSESSID=9", "https://site.test/a"),
        ("mailto:a@b.test", None),
        ("javascript:void(0)", None),
        ("https://", None),
        ("https://user:word@site.test/", None),
        ("https://site.test:99999/", None),
        ("https://site.test/" + "a" * 2_100, None),
    ],
)
def test_a_page_has_one_spelling(url: str, page: str | None) -> None:
    assert canonical(url) == page


@given(st.text(max_size=60))
def test_a_spelling_is_its_own_spelling_whatever_was_sent(text: str) -> None:
    page = canonical(f"https://site.test/{text}")
    assert page is None or canonical(page) == page


def test_pages_that_differ_by_nothing_that_matters_are_one() -> None:
    assert pages(
        "https://site.test/docs/a", "https://www.site.test/docs/a/", "http://site.test/docs/a", START, f"{START}#top"
    ) == ["https://site.test/docs/a"]
    assert len(pages(f"{START}a?x=1&y=2", f"{START}a?y=2&x=1")) == 1


def test_a_crawl_stays_in_its_folder_and_at_its_host_unless_it_may_leave() -> None:
    links = (f"{START}a", "https://site.test/docs2", "https://site.test/", "https://other.test/docs/")
    assert pages(*links) == [f"{START}a"]
    assert pages(*links, backward=True) == [f"{START}a", "https://site.test/docs2", "https://site.test/"]
    assert pages(*links, external=True) == [f"{START}a", "https://other.test/docs/"]


def test_patterns_choose_paths_and_only_the_star_means_anything() -> None:
    links = (f"{START}a/1", f"{START}a/print/1", f"{START}b", f"{START}[x]")
    assert pages(*links, include=("/docs/a/*",)) == [f"{START}a/1", f"{START}a/print/1"]
    assert pages(*links, include=("/docs/a/*",), exclude=("*/print/*",)) == [f"{START}a/1"]
    assert pages(f"{START}ab", f"{START}a?", include=("/docs/a?",)) == []


def test_a_hostile_pattern_takes_no_longer_than_another() -> None:
    before = time.process_time()
    assert pages(f"{START}{'a' * 1_900}", include=("*a" * 99 + "b",)) == []
    assert time.process_time() - before < 1.0


def test_calendars_orders_of_lists_and_paths_that_grow_are_bounded() -> None:
    for days in (
        [f"{START}cal/{year}/{month}" for year in range(1_990, 2_060) for month in range(1, 13)],
        [
            f"{START}cal/{year}-{month:02}-{day:02}"
            for year in (2025, 2026)
            for month in range(1, 13)
            for day in range(1, 29)
        ],
        [f"{START}cal{week}?date=2026{week:04}" for week in range(1_000)],
    ):
        assert len(pages(*days)) == SHAPE_MAX
    assert len(pages(*(f"{START}article/{number}" for number in range(5_000)))) == 5_000
    assert len(pages(*(f"{START}2026/05/a-story-{chr(97 + n % 26)}{'x' * n}" for n in range(1_000)))) == 1_000
    orders = [f"{START}list?order={chr(97 + n % 26)}{'b' * n}" for n in range(200)]
    assert len(pages(*orders)) == QUERIES_MAX
    grows = [START + "a/b/" * n for n in range(1, 30)]
    assert pages(*grows) == grows[:3]


def test_files_that_are_no_pages_are_passed_over_and_the_room_is_kept() -> None:
    assert pages(f"{START}a.PNG", f"{START}b.zip", f"{START}c.html", f"{START}d") == [f"{START}c.html", f"{START}d"]
    assert pages(*(f"{START}{chr(97 + n)}" for n in range(20)), room=3) == [f"{START}{one}" for one in "abc"]
    assert pages(f"{START}a", room=0) == []
