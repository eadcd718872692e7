"""The links that a crawl follows: canonical URLs, bounds, and traps."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from fnmatch import translate

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.jobs.crawl.links import (
    MEMBERS_MAX,
    QUERIES_MAX,
    SHAPE_MAX,
    CrawlBounds,
    Frontier,
    LinkRules,
    PathPatterns,
    canonical,
    pages_led_to,
)
from scheduler.jobs.crawl.pages import LINK_CHARS_MAX, LINKS_MAX, followed_links
from scheduler.packing import packed

START = "https://site.test/docs/"


def pages(*links: str, room: int = 10_000, known: Sequence[str] = (START,), **bounds: object) -> list[str]:
    """Return the pages that a crawl follows from these links, as a wave would find them."""
    rules, frontier = LinkRules(CrawlBounds(START, 10_000, **bounds)), Frontier()  # type: ignore[arg-type]
    for page in known:
        frontier.note(page)
    led_to = (rules.page_of(link) for link in links)
    return [page for page in led_to if page is not None and frontier.take(page)][:room]


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
def test_url_spellings_have_the_expected_canonical_form(url: str, page: str | None) -> None:
    assert canonical(url) == page


@given(st.text(max_size=60))
def test_canonical_is_idempotent_for_any_text(text: str) -> None:
    page = canonical(f"https://site.test/{text}")
    assert page is None or canonical(page) == page


def test_equivalent_urls_are_visited_once() -> None:
    assert pages(
        "https://site.test/docs/a", "https://www.site.test/docs/a/", "http://site.test/docs/a", START, f"{START}#top"
    ) == ["https://site.test/docs/a"]
    assert len(pages(f"{START}a?x=1&y=2", f"{START}a?y=2&x=1")) == 1


def test_crawl_stays_in_its_folder_and_host_by_default() -> None:
    links = (f"{START}a", "https://site.test/docs2", "https://site.test/", "https://other.test/docs/")
    assert pages(*links) == [f"{START}a"]
    assert pages(*links, backward=True) == [f"{START}a", "https://site.test/docs2", "https://site.test/"]
    assert pages(*links, external=True) == [f"{START}a", "https://other.test/docs/"]


def test_only_the_star_is_special_in_path_patterns() -> None:
    links = (f"{START}a/1", f"{START}a/print/1", f"{START}b", f"{START}[x]")
    assert pages(*links, include=("/docs/a/*",)) == [f"{START}a/1", f"{START}a/print/1"]
    assert pages(*links, include=("/docs/a/*",), exclude=("*/print/*",)) == [f"{START}a/1"]
    assert pages(f"{START}ab", f"{START}a?", include=("/docs/a?",)) == []


def test_hostile_pattern_matches_in_linear_time() -> None:
    before = time.process_time()
    assert pages(f"{START}{'a' * 1_900}", include=("*a" * 99 + "b",)) == []
    assert time.process_time() - before < 1.0


@pytest.mark.critical
def test_worst_case_page_and_patterns_take_less_than_five_seconds() -> None:
    """50 patterns each to include and exclude, and 2,000 links that no pattern can reject early.

    When each pattern was a regular expression, such a page took 40 s.
    """
    patterns = tuple("*" + "a*" * 8 + f"{n}" for n in range(50))
    bounds = CrawlBounds(START, 10_000, include=(*patterns, "*"), exclude=patterns)
    links, _ = followed_links([f"{START}{'a/b' * 150}{n}x" for n in range(LINKS_MAX)])
    found = packed(orjson.dumps(links))
    before = time.process_time()
    pages_led_to(msgspec.to_builtins(bounds), [found])
    assert time.process_time() - before < 5.0


TEXTS = st.text(alphabet="ab/*.[]?!\\\n", max_size=12)


def matches_before(patterns: Sequence[str], path: str) -> bool:
    """Match patterns as regular expressions, as earlier versions did."""
    return any(re.match(translate(re.sub(r"([\[?])", r"[\1]", text)), path) for text in patterns)


@pytest.mark.critical
@given(st.lists(TEXTS, max_size=5), TEXTS)
def test_patterns_match_like_regular_expressions(patterns: list[str], path: str) -> None:
    assert PathPatterns(patterns).match(path) == matches_before(patterns, path)


@given(st.lists(st.text(alphabet="ab*", max_size=10), max_size=4), st.text(alphabet="ab", max_size=30))
def test_patterns_of_few_letters_match_like_regular_expressions(patterns: list[str], path: str) -> None:
    assert PathPatterns(patterns).match(path) == matches_before(patterns, path)


def test_links_of_a_page_are_limited_by_count_and_length() -> None:
    many = [f"{START}{n}" for n in range(LINKS_MAX + 5)]
    assert followed_links(many) == (tuple(many[:LINKS_MAX]), 5)
    long = ["x" * (LINK_CHARS_MAX // 4)] * 9
    assert followed_links(long) == (tuple(long[:4]), 5)
    assert followed_links([START, None, 7]) == ((START,), 0)
    assert followed_links(None) == ((), 0)
    assert pages(f"{START}?{'&'.join(f'{n}' for n in range(MEMBERS_MAX + 1))}") == []


def test_findings_that_are_too_long_when_decompressed_are_ignored() -> None:
    bounds = msgspec.to_builtins(CrawlBounds(START, 10))
    bomb = packed(orjson.dumps(["x" * 40_000_000]))
    good = packed(orjson.dumps([f"{START}a", f"{START}a", "https://other.test/"]))
    assert pages_led_to(bounds, [bomb, good]) == [[], [f"{START}a"]]


def test_calendars_sort_orders_and_growing_paths_are_limited() -> None:
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


def test_non_page_links_are_skipped_and_do_not_count_toward_the_limit() -> None:
    assert pages(f"{START}a.PNG", f"{START}b.zip", f"{START}c.html", f"{START}d") == [f"{START}c.html", f"{START}d"]
    assert pages(*(f"{START}{chr(97 + n)}" for n in range(20)), room=3) == [f"{START}{one}" for one in "abc"]
    assert pages(f"{START}a", room=0) == []
