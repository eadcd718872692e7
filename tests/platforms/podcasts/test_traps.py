"""Podcasts' peculiarities: feed URLs are used as given, answers lead to other hosts, and only Apple throttles."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.fakes.node import open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.fakes.scripted_upstream import json_answer as scripted
from tests.platforms.case import drive
from tests.platforms.drive import always, page_of, single_of, told
from tests.platforms.podcasts.cases import EPISODE_BY_HAND, FEED_BY_HAND, FOUND, SHOW_BY_HAND, URL
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamFailed, UpstreamThrottled
from upstreams.model.steps import Answer, Call
from upstreams.platforms.podcasts import PLATFORM
from upstreams.platforms.podcasts.reads import FEED_URL


def places_of(
    resource: str, answers: dict[str, Any], asked: list[str] | None = None, /, cursor: Any = None, **params: Any
) -> tuple[list[str], Any]:
    """Return the host and target of each call, and the result. Each answer is given as a body or as a status."""
    places: list[str] = [] if asked is None else asked

    def upstream(place: str, call: Call) -> Answer:
        host = place.partition("/")[0]
        places.append(f"{host}{call.target('')}")
        found = answers[host]
        return told({}, found) if isinstance(found, int) else told(found)

    return places, drive(PLATFORM, resource, params, upstream, cursor=cursor)


def fed(*items: str, head: str = "") -> str:
    """Return a feed that contains these items."""
    rows = "".join(f"<item><title>E</title>{item}</item>" for item in items)
    atom = 'xmlns:atom="http://www.w3.org/2005/Atom"'
    return f'<rss version="2.0" {atom}><channel><title>Ada</title>{head}{rows}</channel></rss>'


def link(rel: str, address: str) -> str:
    return f'<atom:link rel="{rel}" href="{address}"/>'


OLDER = "https://older.example.com/feed?page=2"
LARGE = fed(*("<guid>g</guid>",) * 10_001)


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
def test_feed_url_is_called_in_its_normalized_form(written: str, asked: str) -> None:
    places, _ = places_of("show", {asked.partition("/")[0]: FEED_BY_HAND.decode()}, url=written)
    assert places == [asked]
    assert FEED_URL.canonical(asked) == asked


@pytest.mark.parametrize(
    "url",
    ["https://a@feeds.example.com/x", "https://feeds.example.com:8080/x", "https://feeds.example.com/a b", "/feed.xml",
     "ftp://feeds.example.com/x", "feed", "https://10.0.0.1/feed", "https://feeds.example.com\\x/y"],
)  # fmt: skip
def test_non_public_url_is_refused_with_its_parameter(url: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        drive(PLATFORM, "episodes", {"url": url}, always({}))
    assert refusal.value.param == "url"


@pytest.mark.parametrize("feed", [None, "", "itpc://feeds.example.com/x", "https://localhost/x"])
def test_show_without_a_feed_has_episodes_from_the_directory(feed: str | None) -> None:
    show = {**SHOW_BY_HAND, "feedUrl": feed}
    body = {"results": [show, EPISODE_BY_HAND, {**EPISODE_BY_HAND, "trackId": 2}]}
    places, page = places_of("episodes", {"itunes.apple.com": body}, id="4711", limit=1)
    assert [place.partition("entity=")[2] for place in places] == ["podcast", "podcastEpisode&limit=200"]
    assert (page.records, page.next, page.warnings) == ([FOUND(EPISODE_BY_HAND)], {"o": 1, "d": "directory"}, ())
    places, later = places_of("episodes", {"itunes.apple.com": body}, id="4711", limit=1, cursor=page.next)
    assert ([one["id"] for one in later.records], later.next, len(places)) == (["2"], None, 1)
    _, found = places_of("show", {"itunes.apple.com": body}, id="4711")
    assert found.record["description"] is None


@pytest.mark.parametrize("resource", ["show", "episodes"])
def test_directory_url_includes_the_country(resource: str) -> None:
    address, answers = "https://podcasts.apple.com/de/podcast/x/id4711", {"itunes.apple.com": {"results": []}}
    for params, country in (({"id": address}, "country=de"), ({"id": "id4711"}, "country=us")):
        with pytest.raises(NotFound):
            places_of(resource, answers, asked := [], **params)
        assert country in asked[0]
    with pytest.raises(InvalidArgument):
        places_of(resource, answers, id=address, country="fr")


def test_show_without_a_readable_feed_is_returned() -> None:
    places, found = places_of(
        "show", {"itunes.apple.com": {"results": [SHOW_BY_HAND]}, "feeds.npr.org": 500}, id="4711"
    )
    assert len(places) == 2
    assert (found.record["title"], found.record["description"]) == ("Ada talks", None)


@pytest.mark.parametrize("feed", [404, 500, 429, "<html>Sorry</html>", LARGE])
def test_unreadable_feed_has_episodes_from_the_directory(feed: Any) -> None:
    """A later page must come from the same list as the first one, even if the feed has become unreadable."""
    body = {"results": [SHOW_BY_HAND, EPISODE_BY_HAND]}
    answers = {"itunes.apple.com": body, "feeds.npr.org": feed}
    places, page = places_of("episodes", answers, id="4711")
    assert (page.records, len(places)) == ([FOUND(EPISODE_BY_HAND)], 3)
    assert "feed is unavailable" in page.warnings[0]
    with pytest.raises((NotFound, UpstreamFailed, UpstreamThrottled)):
        places_of("episodes", answers, id="4711", cursor={"o": 20})
    with pytest.raises((NotFound, UpstreamFailed, UpstreamThrottled)):
        places_of("episodes", {**answers, "itunes.apple.com": {"results": [SHOW_BY_HAND]}}, id="4711")


def test_oversized_feed_is_not_reported_as_missing() -> None:
    for resource in ("show", "episodes"):
        with pytest.raises(UpstreamFailed, match="too large: expected a feed of at most 10000 items"):
            drive(PLATFORM, resource, {"url": URL}, always(LARGE))
    answers = {"itunes.apple.com": {"results": [SHOW_BY_HAND]}, "feeds.npr.org": LARGE}
    assert places_of("show", answers, id="4711")[1].record["description"] is None


async def test_oversized_feed_does_not_count_against_its_host(tmp_path: Path) -> None:
    """Goal: no circuit opens. Method: a whole node, and as many failures as open a host's circuit."""

    def script(asked: str) -> ScriptedAnswer:
        body = LARGE if "large" in asked else fed("<guid>1</guid>")
        return ScriptedAnswer(200, body.encode(), {"content-type": "application/rss+xml"})

    async with open_test_node(tmp_path, upstreams={"defaults": {"retries": 0}}) as node:
        node.upstream.script = script
        for number in range(6):
            answer = await node.get(f"/v1/podcasts/episodes?url=feeds.example.com/large/{number}")
            assert (answer.status, answer.json["credits_used"]) == (502, 0), answer.json
        assert (await node.get("/v1/podcasts/episodes?url=feeds.example.com/other")).status == 200


@pytest.mark.parametrize("params", [{"url": URL}, {"id": "4711"}])
def test_feed_continues_at_its_next_document(params: dict[str, str]) -> None:
    first = fed("<guid>1</guid>", "<guid>2</guid>", head=link("next", OLDER))
    answers = {"itunes.apple.com": {"results": [SHOW_BY_HAND]}, "feeds.npr.org": first,
               "older.example.com": fed("<guid>3</guid>", "<guid>4</guid>")}  # fmt: skip
    seen, cursor, states = [], None, []
    for _ in range(4):
        places, page = places_of("episodes", answers, cursor=cursor, limit=1, **params)
        seen += [one["id"] for one in page.records]
        states.append(cursor := page.next)
    assert (seen, places) == (["1", "2", "3", "4"], [OLDER.removeprefix("https://")])
    assert states == [{"o": 1}, {"n": OLDER}, {"n": OLDER, "o": 1}, None]


@pytest.mark.parametrize(
    ("items", "next_url", "self_url"),
    [
        (("<guid>1</guid>",), URL, ""),
        (("<guid>1</guid>",), "https://feeds.example.com/a", "http://feeds.example.com/a"),
        (("<guid>1</guid>",), "https://10.0.0.1/feed", ""),
        (("<guid>1</guid>",), f"{OLDER}&amp;x={'x' * 2_000}", ""),
        ((), OLDER, ""),
    ],
)
def test_next_document_without_progress_ends_the_list(items: tuple[str, ...], next_url: str, self_url: str) -> None:
    body = fed(*items, head=link("next", next_url) + (link("self", self_url) if self_url else ""))
    page = page_of(PLATFORM, "episodes", {"url": URL}, always(body))
    assert page.next is None


def test_episode_without_an_id_is_identified_by_its_audio() -> None:
    page = page_of(PLATFORM, "episodes", {"url": URL}, always(fed('<enclosure url="https://cdn.example.com/1.mp3"/>')))
    assert page.records[0]["id"] == "https://cdn.example.com/1.mp3"


async def test_cursor_from_a_feed_cannot_reach_private_hosts(tmp_path: Path) -> None:
    """Goal: the URL in a cursor passes the guard, and nobody can forge it. Method: a whole node."""

    def script(_asked: str) -> ScriptedAnswer:
        body = fed("<guid>1</guid>", head=link("next", "https://printer.local/feed"))
        return ScriptedAnswer(200, body.encode(), {"content-type": "application/rss+xml"})

    async with open_test_node(tmp_path, upstreams={"defaults": {"retries": 0}}) as node:
        node.upstream.script = script
        path = f"/v1/podcasts/episodes?{urlencode({'url': URL})}"
        cursor = (await node.get(path)).json["pagination"]["next_cursor"]
        for token in (cursor, f"{cursor[:-2]}AA"):
            answer = await node.get(f"{path}&{urlencode({'cursor': token})}")
            assert (answer.status, answer.json["error"]["details"]["param"]) == (400, "cursor"), answer.json
        assert len(node.upstream.requests) == 1
        await node.assert_sound()


def test_number_of_another_item_is_not_a_show() -> None:
    with pytest.raises(NotFound):
        drive(PLATFORM, "show", {"id": "4711"}, always({"results": [{"wrapperType": "track", "kind": "song"}]}))


@pytest.mark.parametrize("body", ["<html><body>Sorry</body></html>", '{"version": 1}', "hello", "\0"])
def test_page_that_is_not_a_feed_is_not_found(body: Any) -> None:
    with pytest.raises(NotFound, match="no feed at this URL"):
        drive(PLATFORM, "show", {"url": URL}, always(body))


def test_owner_email_is_never_returned() -> None:
    found = single_of(PLATFORM, "show", {"url": URL}, always(FEED_BY_HAND.decode()))
    assert b"@" in FEED_BY_HAND
    assert "@" not in str(found.record)


def test_json_feed_is_read_as_a_show() -> None:
    item = {
        "id": "1",
        "title": "One",
        "attachments": [{"url": "https://cdn.example.com/1.mp3", "duration_in_seconds": 60}],
    }
    body = {"version": "https://jsonfeed.org/version/1.1", "title": "Ada", "authors": [{"name": "Bo"}], "items": [item]}
    page = page_of(PLATFORM, "episodes", {"url": URL}, always(body))
    assert page.records[0]["content"]["media_urls"] == ["https://cdn.example.com/1.mp3"]
    assert (page.records[0]["content"]["duration_seconds"], page.records[0]["author"]["display_name"]) == (60, "Bo")


@pytest.mark.parametrize("status", [403, 503])
def test_apple_403_is_throttling_but_not_for_feed_hosts(status: int) -> None:
    with pytest.raises(UpstreamThrottled):
        drive(PLATFORM, "search", {"query": "x"}, always({}, status))
    with pytest.raises(NotFound if status == 403 else UpstreamFailed) as refusal:
        drive(PLATFORM, "show", {"url": URL}, always({}, status))
    assert status == 503 or refusal.value.reason == "account_private"  # type: ignore[union-attr]
    assert PLATFORM.pace is not None
    assert [name for name in PLATFORM.sources if PLATFORM.pace.of(name)] == ["directory"]


async def test_feed_url_always_passes_the_guard(tmp_path: Path) -> None:
    """Goal: no caller, answer or redirect leads to a private address.

    Method: a whole node, which refunds every call.
    """
    inside = "https://printer.local/latest"

    def script(asked: str) -> ScriptedAnswer | None:
        if asked.startswith("itunes.apple.com"):
            return scripted({"results": [{**SHOW_BY_HAND, "feedUrl": inside}]})
        return ScriptedAnswer(302, headers={"location": inside}) if asked.startswith("moved.example.com") else None

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
