"""Podcasts' traps: addresses count as they are written, answers lead to further hosts, and Apple alone is slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.fakes.node import open_test_node
from tests.fakes.scripted_upstream import Told
from tests.fakes.scripted_upstream import told as scripted
from tests.platforms.case import check, drive
from tests.platforms.drive import always, told
from tests.platforms.podcasts.cases import (
    CASES,
    EPISODE_BY_HAND,
    FEED_BY_HAND,
    FOUND,
    SHOW_BY_HAND,
    URL,
)
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamFailed, UpstreamThrottled
from upstreams.model.steps import Answer, Call, Page, Single
from upstreams.platforms.podcasts import PLATFORM
from upstreams.platforms.podcasts.reads import FEED_URL


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_answer_becomes_the_records_of_the_table(case: Any) -> None:
    check(PLATFORM, case)


def places_of(
    resource: str, answers: dict[str, Any], asked: list[str] | None = None, /, **params: Any
) -> tuple[list[str], Any]:
    """The host and target of each call, and the result; an answer is a body, or a status."""
    places: list[str] = [] if asked is None else asked

    def upstream(place: str, call: Call) -> Answer:
        host = place.partition("/")[0]
        places.append(f"{host}{call.target('')}")
        found = answers[host]
        return told({}, found) if isinstance(found, int) else told(found)

    return places, drive(PLATFORM, resource, params, upstream)


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("https://Feeds.example.com/a/?b=c%2Fd&b=e/", "feeds.example.com/a/?b=c%2Fd&b=e/"),
        ("http://feeds.example.com:80/a//b.xml#top", "feeds.example.com/a//b.xml"),
        ("feed://feeds.example.com/%7eada/%e2%82%ac x".replace(" ", "%20"), "feeds.example.com/~ada/%E2%82%AC%20x"),
        ("feeds.example.com/https://other.example/€?100%", "feeds.example.com/https://other.example/%E2%82%AC?100%25"),
        ("https://www.example.com", "www.example.com/"),
    ],
)
def test_a_feeds_address_is_asked_for_as_it_is_written(written: str, asked: str) -> None:
    places, _ = places_of("show", {asked.partition("/")[0]: FEED_BY_HAND.decode()}, url=written)
    assert places == [asked]
    assert FEED_URL.canonical(asked) == asked


@pytest.mark.parametrize(
    "url",
    ["https://a@feeds.example.com/x", "https://feeds.example.com:8080/x", "https://feeds.example.com/a b", "/feed.xml",
     "ftp://feeds.example.com/x", "feed", "https://10.0.0.1/feed", "https://feeds.example.com\\x/y"],
)  # fmt: skip
def test_what_is_no_address_of_a_public_host_is_refused_by_its_name(url: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        drive(PLATFORM, "episodes", {"url": url}, always({}))
    assert refusal.value.param == "url"


@pytest.mark.parametrize("feed", [None, "", "itpc://feeds.example.com/x", "https://localhost/x"])
def test_of_a_show_without_a_feed_the_directory_tells_the_episodes(feed: str | None) -> None:
    show = {**SHOW_BY_HAND, "feedUrl": feed}
    body = {"results": [show, EPISODE_BY_HAND, {**EPISODE_BY_HAND, "trackId": 2}]}
    places, page = places_of("episodes", {"itunes.apple.com": body}, id="4711", limit=1)
    assert [place.partition("entity=")[2] for place in places] == ["podcast", "podcastEpisode&limit=200"]
    assert (page.records, page.next) == ([FOUND(EPISODE_BY_HAND)], {"o": 1})
    _, found = places_of("show", {"itunes.apple.com": body}, id="4711")
    assert found.record["description"] is None


@pytest.mark.parametrize("resource", ["show", "episodes"])
def test_an_address_in_the_directory_says_the_country_too(resource: str) -> None:
    address, answers = "https://podcasts.apple.com/de/podcast/x/id4711", {"itunes.apple.com": {"results": []}}
    for params, country in (({"id": address}, "country=de"), ({"id": "id4711"}, "country=us")):
        with pytest.raises(NotFound):
            places_of(resource, answers, asked := [], **params)
        assert country in asked[0]
    with pytest.raises(InvalidArgument):
        places_of(resource, answers, id=address, country="fr")


def test_a_show_is_told_without_its_feed_where_that_cannot_be_had() -> None:
    places, found = places_of(
        "show", {"itunes.apple.com": {"results": [SHOW_BY_HAND]}, "feeds.npr.org": 500}, id="4711"
    )
    assert len(places) == 2
    assert (found.record["title"], found.record["description"]) == ("Ada talks", None)


def test_a_number_of_something_else_is_no_show() -> None:
    with pytest.raises(NotFound):
        drive(PLATFORM, "show", {"id": "4711"}, always({"results": [{"wrapperType": "track", "kind": "song"}]}))


@pytest.mark.parametrize("body", ["<html><body>Sorry</body></html>", '{"version": 1}', "hello", "\0"])
def test_a_page_that_is_no_feed_is_not_found(body: Any) -> None:
    with pytest.raises(NotFound, match="No feed stands"):
        drive(PLATFORM, "show", {"url": URL}, always(body))


def test_an_owners_address_for_mail_is_told_nowhere() -> None:
    found = drive(PLATFORM, "show", {"url": URL}, always(FEED_BY_HAND.decode()))
    assert isinstance(found, Single)
    assert b"@" in FEED_BY_HAND
    assert "@" not in str(found.record)


def test_a_feed_of_another_form_is_a_show_too() -> None:
    item = {
        "id": "1",
        "title": "One",
        "attachments": [{"url": "https://cdn.example.com/1.mp3", "duration_in_seconds": 60}],
    }
    body = {"version": "https://jsonfeed.org/version/1.1", "title": "Ada", "authors": [{"name": "Bo"}], "items": [item]}
    page = drive(PLATFORM, "episodes", {"url": URL}, always(body))
    assert isinstance(page, Page)
    assert page.records[0]["content"]["media_urls"] == ["https://cdn.example.com/1.mp3"]
    assert (page.records[0]["content"]["duration_seconds"], page.records[0]["author"]["display_name"]) == (60, "Bo")


@pytest.mark.parametrize("status", [403, 503])
def test_apple_asks_to_slow_down_by_what_a_feeds_host_means_otherwise(status: int) -> None:
    with pytest.raises(UpstreamThrottled):
        drive(PLATFORM, "search", {"query": "x"}, always({}, status))
    with pytest.raises(NotFound if status == 403 else UpstreamFailed) as refusal:
        drive(PLATFORM, "show", {"url": URL}, always({}, status))
    assert status == 503 or refusal.value.reason == "account_private"  # type: ignore[union-attr]
    assert PLATFORM.pace is not None
    assert [name for name in PLATFORM.sources if PLATFORM.pace.of(name)] == ["directory"]


async def test_a_feeds_host_goes_through_the_guard_whoever_names_it(tmp_path: Path) -> None:
    """Goal: neither a caller nor an answer nor a redirect leads inside. Method: a whole node, refunded each time."""
    inside = "https://printer.local/latest"

    def script(asked: str) -> Told | None:
        if asked.startswith("itunes.apple.com"):
            return scripted({"results": [{**SHOW_BY_HAND, "feedUrl": inside}]})
        return Told(302, headers={"location": inside}) if asked.startswith("moved.example.com") else None

    async with open_test_node(tmp_path, upstreams={"defaults": {"retries": 0}}) as node:
        node.upstream.script = script
        for params, status, param in (
            ({"url": inside}, 400, "url"),
            ({"url": "https://moved.example.com/feed"}, 502, None),
            ({"id": "4711"}, 502, None),
        ):
            answer = await node.get(f"/v1/podcasts/episodes?{urlencode(params)}")
            told_param = answer.json.get("error", {}).get("details", {}).get("param")
            assert (answer.status, told_param) == (status, param), answer.json
        assert not any("printer" in asked for asked in node.upstream.requests)
        await node.assert_sound()
