"""Discourse: what is odd about it."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from tests.fakes.scripted_exchange import Said, said
from tests.platforms.case import check, drive, recorded
from tests.platforms.discourse.cases import CASES, HOST, REPLY, replies
from tests.platforms.drive import always, told
from tests.platforms.hosted import Hosted
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamFailed, UpstreamThrottled
from upstreams.model.steps import Answer, Call, Page, Single
from upstreams.platforms.discourse import PLATFORM
from upstreams.platforms.discourse.reads import POST_URL
from upstreams.transport.http import HttpCall


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_answer_becomes_the_records_of_the_table(case: Any) -> None:
    check(PLATFORM, case)


def page_of(resource: str, upstream: Any, *, cursor: Any = None, **params: Any) -> Page:
    result = drive(PLATFORM, resource, {"host": HOST, **params}, upstream, cursor=cursor)
    assert isinstance(result, Page)
    return result


@pytest.mark.parametrize("file", ["topic_posts__2144", "topic_posts__2144_pn21", "topic_posts__2108_pn5"])
def test_recorded_portions_are_read_in_the_order_of_their_topic(file: str) -> None:
    portion = recorded("discourse", f"{file}.json").body
    numbers = sorted(one["id"] for one in portion["post_stream"]["posts"])
    topic: Any = {"post_stream": {"posts": [], "stream": [1, *numbers]}}
    asked: list[Any] = []

    def upstream(place: str, call: Call) -> Answer:
        asked.append(call.query.get("post_ids[]"))
        return told(portion if place.endswith("posts.json") else topic)

    assert page_of("post/comments", upstream, id="9").records == replies(20)(topic, portion)
    assert asked == [None, [str(number) for number in numbers]]


def test_recorded_posts_that_come_with_their_topic_are_read_without_a_second_call() -> None:
    topic = recorded("discourse", "topic__1148.json").body
    topic["post_stream"]["stream"] = [one["id"] for one in topic["post_stream"]["posts"]]
    assert page_of("post/comments", always(topic), id="1148").records == replies(19)(topic)


def test_a_recorded_post_by_itself_is_read_alike() -> None:
    row = recorded("discourse", "post.json").body
    assert page_of("comments", always({"latest_posts": [row]})).records == [REPLY(row)]


def test_a_later_page_of_posts_asks_for_those_alone() -> None:
    stream = list(range(100, 200))
    asked: list[Any] = []

    def upstream(place: str, call: Call) -> Answer:
        asked.append(call.query.get("post_ids[]"))
        ids = call.query.get("post_ids[]") or ["100"]
        return told({"post_stream": {"stream": stream, "posts": [{"id": int(one)} for one in ids]}})

    page = page_of("post/comments", upstream, cursor={"o": 20}, id="9", limit=2)
    assert [record["id"] for record in page.records] == ["121", "122"]
    assert (asked[1], page.next, page.total) == (["121", "122"], {"o": 22}, 99)


def test_a_topic_too_long_to_name_its_posts_gives_those_that_came() -> None:
    body = {"post_stream": {"posts": [{"id": 1}, {"id": 2}]}}
    page = page_of("post/comments", always(body), id="9")
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
def test_a_topic_has_one_name_in_every_spelling_of_its_address(address: str, value: str) -> None:
    assert POST_URL.canonical(address) == value


def test_a_topic_at_an_address_is_read_from_its_own_forum() -> None:
    places: list[str] = []

    def upstream(place: str, _call: Call) -> Answer:
        places.append(place)
        return told({"id": 12, "slug": "how-to"})

    result = drive(PLATFORM, "post", {"url": "https://forum.example.net/t/how-to/12"}, upstream)
    assert isinstance(result, Single)
    assert (places, result.record["url"]) == (["forum.example.net/t/12.json"], "https://forum.example.net/t/how-to/12")


def test_pictures_are_addresses_of_the_forum_or_of_others() -> None:
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
def test_a_forum_says_in_the_body_why_it_refuses(status: int, kind: str, refused: Any, reason: str | None) -> None:
    with pytest.raises(refused) as refusal:
        page_of("posts", always({"errors": ["No."], "error_type": kind}, status))
    assert getattr(refusal.value, "reason", None) == reason


PLACED = [
    ("profile", "handle", "https://Forum.example.net/u/Ada/summary", "/u/ada.json"),
    ("profile/posts", "handle", "forum.example.net/users/ada", "/topics/created-by/ada.json"),
    ("profile/comments", "handle", "https://forum.example.net/u/ada", "/user_actions.json"),
    ("category/posts", "category", "https://forum.example.net/c/general/parsers/4", "/c/-/4.json"),
    ("group/members", "group", "https://forum.example.net/g/team", "/groups/team/members.json"),
]
OTHER = "forum.example.net"


@pytest.mark.parametrize(("resource", "param", "address", "path"), PLACED)
def test_what_an_address_names_is_read_from_its_own_forum(resource: str, param: str, address: str, path: str) -> None:
    """Goal: never another forum's account of the same name."""
    for beside in ({}, {"host": OTHER}):
        places: list[str] = []

        def upstream(place: str, _call: Call, places: list[str] = places) -> Answer:
            places.append(place)
            return told({"user": {"id": 1}, "topic_list": {"topics": []}, "user_actions": [], "members": []})

        drive(PLATFORM, resource, {param: address, **beside}, upstream)
        assert places == [f"{OTHER}{path}"]
    with pytest.raises(InvalidArgument) as refusal:
        drive(PLATFORM, resource, {param: address, "host": HOST}, always({}))
    assert refusal.value.param == "host"


def test_a_topic_search_that_finds_nothing_is_an_empty_page() -> None:
    page = page_of(
        "search", always({"posts": [], "grouped_search_result": {"more_full_page_results": None}}), query="x"
    )
    assert (page.records, page.next) == ([], None)
    with pytest.raises(UpstreamFailed):
        page_of("search", always({}), query="x")


@pytest.mark.parametrize("resource", ["search", "search/comments"])
def test_a_search_ends_at_the_last_page_that_forums_serve(resource: str) -> None:
    body = {"topics": [], "posts": [], "grouped_search_result": {"more_full_page_results": True}}
    pages = [page_of(resource, always(body), cursor={"p": number}, query="parsers").next for number in (9, 10)]
    assert pages == [{"p": 10}, None]


async def test_queries_that_are_too_short_do_not_keep_others_from_a_forum(autojump_clock: MockClock) -> None:
    def script(call: HttpCall) -> Said:
        told_of = {"errors": ["Invalid parameters: q"], "error_type": "invalid_parameters"}
        return said(told_of, 400) if "search" in call.target else said({"topic_list": {"topics": []}})

    hosted = Hosted(PLATFORM, script)
    for _ in range(12):
        with pytest.raises(InvalidArgument) as refusal:
            await hosted.get("search", query="ab", host=HOST)
        assert refusal.value.param == "query"
    assert isinstance(await hosted.get("posts", host=HOST), Page)


@pytest.mark.parametrize("is_older", [True, False])
def test_the_latest_posts_come_once_whether_a_forum_counts_the_last_one_in_or_not(is_older: bool) -> None:
    def upstream(_place: str, call: Call) -> Answer:
        end = int(str(call.query.get("before") or 100)) + is_older
        return told({"latest_posts": [{"id": number} for number in range(10, 0, -1) if number < end][:4]})

    found: list[str] = []
    cursor: Any = None
    for _ in range(9):
        page = page_of("comments", upstream, cursor=cursor)
        found += [str(one["id"]) for one in page.records]
        cursor = page.next
        if cursor is None:
            break
    assert cursor is None
    assert found == [str(number) for number in range(10, 0, -1)]


async def test_a_page_of_a_category_is_asked_for_by_a_path_that_its_redirect_keeps(autojump_clock: MockClock) -> None:
    """Goal: page 4 of category 4. Method: the forum replaces what it was asked for wherever the address has it."""

    def script(call: HttpCall) -> Said:
        if "/general/4.json" not in call.target:
            asked = call.target.partition(".json")[0].removeprefix("/c/")
            return said({}, 301, location=call.target.replace(asked, "general/4"))
        assert call.target.endswith("?page=4")
        return said({"topic_list": {"topics": [{"id": 7}]}})

    page = await Hosted(PLATFORM, script).get("category/posts", {"p": 4}, category="4", host=HOST)
    assert isinstance(page, Page)
    assert [one["id"] for one in page.records] == ["7"]
