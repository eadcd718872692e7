"""Lemmy's two API versions on hosts that callers name: which version is called, and what is cached about a server."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from trio.testing import MockClock

from tests.fakes.scripted_exchange import Scripted, http_answer
from tests.platforms.hosted import Hosted
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamThrottled
from upstreams.model.steps import Page, Single
from upstreams.platforms.lemmy import PLATFORM
from upstreams.transport.http import HttpCall

NO_PATH = http_answer(b"", 404)
"""The answer of any server to an unknown path."""
HOST = "lemmy.example.org"
PERSON = {"person_view": {"person": {"id": 1, "name": "ada"}}}


def rows_of(call: HttpCall, *, begin: int = 0) -> list[Any]:
    size = int(parse_qs(urlsplit(call.target).query)["limit"][0])
    return [{"post": {"id": begin + at}, "comment": {"id": begin + at}} for at in range(1, size + 1)]


def older(call: HttpCall) -> Scripted:
    """A server with Lemmy 0.19."""
    path = urlsplit(call.target).path
    page = int(parse_qs(urlsplit(call.target).query).get("page", ["1"])[0])
    rows = {"/api/v3/post/list": "posts", "/api/v3/comment/list": "comments"}.get(path)
    if rows is not None:
        return http_answer({rows: rows_of(call, begin=100 * page), "next_page": "Pa1"})
    return http_answer(PERSON) if path == "/api/v3/user" else NO_PATH


def newer(call: HttpCall) -> Scripted:
    """A server with Lemmy 1.0. For every page number, its version 3 returns the first page."""
    path = urlsplit(call.target).path
    rows = {"/api/v3/post/list": "posts", "/api/v3/comment/list": "comments"}.get(path)
    if rows is not None:
        return http_answer({rows: rows_of(call), "next_page": None})
    if path.startswith("/api/v4/") and path.endswith("/list"):
        return http_answer({"items": rows_of(call, begin=500), "next_page": "P2"})
    return http_answer(PERSON) if path == "/api/v4/person" else NO_PATH


async def page_of(hosted: Hosted, resource: str, **more: Any) -> Page:
    params = {"limit": 2, **({"id": "7"} if resource == "post/comments" else {})}
    page = await hosted.get(resource, instance=HOST, **params, **more)
    assert isinstance(page, Page)
    return page


@pytest.mark.parametrize("resource", ["posts", "post/comments"])
async def test_full_list_of_a_newer_server_continues_in_version_4(autojump_clock: MockClock, resource: str) -> None:
    hosted = Hosted(PLATFORM, newer)
    page = await page_of(hosted, resource)
    assert [one["id"] for one in page.records] == ["501", "502"]
    assert [place.split("/")[2] for place in hosted.asked()] == ["v3", "v4"]
    assert page.next is not None
    await page_of(hosted, resource, cursor=page.next)
    assert [place.split("/")[2] for place in hosted.asked()] == ["v4"]


@pytest.mark.parametrize("resource", ["posts", "post/comments"])
async def test_older_server_is_tried_for_version_4_every_ten_minutes(autojump_clock: MockClock, resource: str) -> None:
    hosted = Hosted(PLATFORM, older)
    for calls in (2, 1):
        page = await page_of(hosted, resource)
        assert [one["id"] for one in page.records] == ["101", "102"]
        assert len(hosted.asked()) == calls
    assert page.next is not None
    assert "v" not in page.next
    assert len((await page_of(hosted, resource, cursor=page.next)).records) == 2
    assert len(hosted.asked()) == 1


async def test_short_list_does_not_try_version_4(autojump_clock: MockClock) -> None:
    hosted = Hosted(PLATFORM, lambda _call: http_answer({"posts": [{"post": {"id": 1}}]}))
    await page_of(hosted, "posts")
    assert len(hosted.asked()) == 1


@pytest.mark.parametrize(
    "answer",
    [
        http_answer({"rows": []}),
        http_answer({"items": 7}),
        http_answer(b"<p>busy", 503),
        http_answer({"error": "too_many_requests"}, 429),
    ],
)
async def test_page_comes_from_version_3_if_version_4_fails(autojump_clock: MockClock, answer: Scripted) -> None:
    """Without version 4, a newer server's list ends where its first page would be repeated."""
    hosted = Hosted(PLATFORM, lambda call: answer if "/v4/" in call.target else newer(call))
    page = await page_of(hosted, "post/comments")
    assert [one["id"] for one in page.records] == ["1", "2"]
    assert page.next is not None
    again = await page_of(hosted, "post/comments", cursor=page.next)
    assert (again.records, again.next) == ([], None)


async def test_new_account_on_a_newer_server_is_read(autojump_clock: MockClock) -> None:
    """Goal: once version 3 has turned out to lack accounts, later calls go to version 4 directly."""
    hosted = Hosted(PLATFORM, newer)
    for versions in (["v3", "v4"], ["v4"]):
        result = await hosted.get("profile", handle="ada", instance=HOST)
        assert isinstance(result, Single)
        assert [place.split("/")[2] for place in hosted.asked()] == versions
    assert [one["id"] for one in (await page_of(hosted, "posts")).records] == ["501", "502"]


async def test_server_without_version_4_still_serves_version_3(autojump_clock: MockClock) -> None:
    hosted = Hosted(PLATFORM, older)
    await page_of(hosted, "posts")
    assert isinstance(await hosted.get("profile", handle="ada", instance=HOST), Single)


async def test_item_missing_on_an_older_server_is_not_found(autojump_clock: MockClock) -> None:
    def script(call: HttpCall) -> Scripted:
        return http_answer({"error": "not_found"}, 404) if "/v3/post?" in call.target else older(call)

    hosted = Hosted(PLATFORM, script)
    for calls in (2, 1):
        with pytest.raises(NotFound):
            await hosted.get("post", id="7", instance=HOST)
        assert len(hosted.asked()) == calls


async def test_host_with_neither_version_is_refused_and_cached(autojump_clock: MockClock) -> None:
    hosted = Hosted(PLATFORM, lambda _call: NO_PATH)
    for calls in (2, 0):
        with pytest.raises(InvalidArgument, match=f"must be a Lemmy server; {HOST} is not") as refusal:
            await hosted.get("profile", handle="ada", instance=HOST)
        assert refusal.value.param == "instance"
        assert len(hosted.asked()) == calls
    with pytest.raises(InvalidArgument, match="public host"):
        await hosted.get("profile", handle="ada", instance="printer.local")


async def test_version_4_failure_is_reported_without_version_3(autojump_clock: MockClock) -> None:
    hosted = Hosted(PLATFORM, lambda call: http_answer(status=429) if "/v4/" in call.target else NO_PATH)
    with pytest.raises(UpstreamThrottled):
        await hosted.get("profile", handle="ada", instance=HOST)
