"""Discourse's peculiarities: portions of posts, URLs on any forum, and refusals in the body."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platforms.case import drive, recorded
from tests.platforms.discourse.cases import HOST, REPLY, replies
from tests.platforms.drive import always, page_of, single_of, told, watched
from upstreams.model.errors import NotFound, UpstreamFailed, UpstreamThrottled
from upstreams.model.steps import Answer, Call, Page, Single
from upstreams.platforms.discourse import PLATFORM
from upstreams.platforms.discourse.reads import POST_URL


def posts_of(resource: str, upstream: Any, *, cursor: Any = None, **params: Any) -> Page:
    return page_of(PLATFORM, resource, {"host": HOST, **params}, upstream, cursor=cursor)


@pytest.mark.parametrize("file", ["topic_posts__2144", "topic_posts__2144_pn21", "topic_posts__2108_pn5"])
def test_recorded_portions_are_in_topic_order(file: str) -> None:
    portion = recorded("discourse", f"{file}.json").body
    numbers = sorted(one["id"] for one in portion["post_stream"]["posts"])
    topic: Any = {"post_stream": {"posts": [], "stream": [1, *numbers]}}
    asked: list[Any] = []

    def upstream(place: str, call: Call) -> Answer:
        asked.append(call.query.get("post_ids[]"))
        return told(portion if place.endswith("posts.json") else topic)

    assert posts_of("post/comments", upstream, id="9").records == replies(20)(topic, portion)
    assert asked == [None, [str(number) for number in numbers]]


def test_posts_sent_with_their_topic_need_no_second_call() -> None:
    topic = recorded("discourse", "topic__1148.json").body
    topic["post_stream"]["stream"] = [one["id"] for one in topic["post_stream"]["posts"]]
    assert posts_of("post/comments", always(topic), id="1148").records == replies(19)(topic)


def test_recorded_single_post_matches_the_table() -> None:
    row = recorded("discourse", "post.json").body
    assert posts_of("comments", always({"latest_posts": [row]})).records == [REPLY(row)]


def test_later_page_requests_only_its_posts() -> None:
    stream = list(range(100, 200))
    asked: list[Any] = []

    def upstream(place: str, call: Call) -> Answer:
        asked.append(call.query.get("post_ids[]"))
        ids = call.query.get("post_ids[]") or ["100"]
        return told({"post_stream": {"stream": stream, "posts": [{"id": int(one)} for one in ids]}})

    page = posts_of("post/comments", upstream, cursor={"o": 20}, id="9", limit=2)
    assert [record["id"] for record in page.records] == ["121", "122"]
    assert (asked[1], page.next, page.total) == (["121", "122"], {"o": 22}, 99)


def test_topic_too_long_to_list_its_posts_returns_the_sent_ones() -> None:
    body = {"post_stream": {"posts": [{"id": 1}, {"id": 2}]}}
    page = posts_of("post/comments", always(body), id="9")
    assert [record["id"] for record in page.records] == ["2"]
    assert page.next is None


@pytest.mark.parametrize(
    ("address", "value"),
    [
        ("https://Forum.Example.org/t/how-to/12", "forum.example.org/12"),
        ("forum.example.org/t/12", "forum.example.org/12"),
        ("https://forum.example.org/t/12/3", "forum.example.org/12"),
        ("https://forum.example.org/t/7-ways/12/3?u=ada", "forum.example.org/12"),
    ],
)
def test_topic_url_spellings_are_normalized(address: str, value: str) -> None:
    assert POST_URL.canonical(address) == value


def test_topic_url_is_read_from_its_own_forum() -> None:
    calls, upstream = watched(always({"id": 12, "slug": "how-to"}))
    result = single_of(PLATFORM, "post", {"url": "https://forum.example.net/t/how-to/12"}, upstream)
    places = [place for place, _ in calls]
    assert (places, result.record["url"]) == (["forum.example.net/t/12.json"], "https://forum.example.net/t/how-to/12")


def test_image_urls_are_resolved_against_the_forum() -> None:
    templates = {
        "/user_avatar/x/{size}/1.png": f"https://{HOST}/user_avatar/x/240/1.png",
        "//cdn.example.com/x/{size}.png": "https://cdn.example.com/x/240.png",
        "https://cdn.example.com/{size}.png": "https://cdn.example.com/240.png",
    }
    for template, address in templates.items():
        result = drive(
            PLATFORM, "profile", {"host": HOST, "handle": "x"}, always({"user": {"avatar_template": template}})
        )
        assert isinstance(result, Single)
        assert result.record["avatar_url"] == address


@pytest.mark.parametrize(
    ("status", "kind", "refused", "reason"),
    [
        (404, "not_found", NotFound, None),
        (403, "invalid_access", NotFound, "account_private"),
        (403, "not_logged_in", NotFound, "account_private"),
        (429, "rate_limit", UpstreamThrottled, None),
    ],
)
def test_refusal_reason_is_read_from_the_body(status: int, kind: str, refused: Any, reason: str | None) -> None:
    with pytest.raises(refused) as refusal:
        posts_of("posts", always({"errors": ["No."], "error_type": kind}, status))
    assert getattr(refusal.value, "reason", None) == reason


def test_topic_search_without_results_is_an_empty_page() -> None:
    page = posts_of("search", always({"posts": [], "grouped_search_result": {}}), query="x")
    assert (page.records, page.next) == ([], None)
    with pytest.raises(UpstreamFailed):
        posts_of("search", always({}), query="x")


@pytest.mark.parametrize("resource", ["search", "search/comments"])
def test_search_ends_at_the_last_served_page(resource: str) -> None:
    body = {"topics": [], "posts": [], "grouped_search_result": {"more_full_page_results": True}}
    pages = [posts_of(resource, always(body), cursor={"p": number}, query="parsers").next for number in (9, 10)]
    assert pages == [{"p": 10}, None]
