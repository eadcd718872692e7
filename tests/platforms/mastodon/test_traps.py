"""Mastodon's peculiarities: lists that need an account's number, posts on other hosts, and suspended accounts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platforms.case import drive, from_sandbox, recorded
from tests.platforms.drive import always, page_of, told, watched
from tests.platforms.mastodon.cases import ROWS
from upstreams.model.errors import InvalidArgument, NotFound
from upstreams.model.steps import Answer, Call
from upstreams.platforms.mastodon import PLATFORM


@pytest.mark.parametrize(("file", "read"), ROWS, ids=[file for file, _ in ROWS])
def test_rows_of_recorded_lists_match_the_table(file: str, read: Any) -> None:
    body = recorded("mastodon", file).body
    resource = "followers" if "account" in file or "directory" in file else "profile/posts"
    page = page_of(PLATFORM, resource, {"user_id": "1"}, always(body))
    assert page.records == [read(row) for row in body]


@pytest.mark.parametrize(
    "spelling",
    [
        "gargron@mastodon.social",
        " @Gargron@Mastodon.social",
        "https://mastodon.social/@Gargron",
        "www.mastodon.social/@gargron/with_replies?x=1",
        "https://fosstodon.org/@Gargron@mastodon.social",
        "https://mastodon.social/users/Gargron",
        "https://mastodon.social/web/@Gargron",
        "https://mastodon.social/deck/@Gargron",
        "https://fosstodon.org/deck/@Gargron@mastodon.social/media",
    ],
)
def test_account_spellings_are_normalized(spelling: str) -> None:
    calls, upstream = watched(always({"id": "1"}))
    drive(PLATFORM, "profile", {"handle": spelling, "instance": "mastodon.online"}, upstream)
    [(place, call)] = calls
    assert (place, call.query["acct"]) == ("mastodon.online/api/v1/accounts/lookup", "gargron@mastodon.social")


def test_account_lists_are_requested_by_number() -> None:
    calls: list[str] = []

    def upstream(place: str, _call: Call) -> Answer:
        calls.append(place.removeprefix("mastodon.social/api/v1/accounts/"))
        return told({"id": "7"} if place.endswith("lookup") else [])

    drive(PLATFORM, "following", {"handle": "ada"}, upstream)
    drive(PLATFORM, "following", {"user_id": "8"}, upstream)
    assert calls == ["lookup", "7/following", "8/following"]


def test_replies_to_a_post_url_come_from_its_own_host() -> None:
    """Posts are numbered separately on each host, so the same number is another post on another host."""

    def upstream(place: str, _call: Call) -> Answer:
        assert place == "fosstodon.org/api/v1/statuses/9/context"
        return told({"descendants": [{"id": "10", "in_reply_to_id": "9"}]})

    page = page_of(PLATFORM, "post/comments", {"url": "https://fosstodon.org/@ada/9"}, upstream)
    assert (page.records[0]["post_id"], page.records[0]["parent_id"]) == ("9", "9")


@pytest.mark.parametrize("path", ["@ada", "web/@ada", "deck/@ada", "users/ada/statuses"])
def test_post_url_is_read_from_its_own_host(path: str) -> None:
    calls, upstream = watched(always({"id": "9"}))
    drive(PLATFORM, "post", {"url": f"https://fosstodon.org/{path}/9"}, upstream)
    assert [place for place, _ in calls] == ["fosstodon.org/api/v1/statuses/9"]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "x.y:8443", "[::1]", "2130706433"])
def test_url_on_a_non_public_host_is_refused_before_any_call(host: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        drive(PLATFORM, "post", {"url": f"https://{host}/@ada/9"}, from_sandbox())
    assert refusal.value.param == "url"


def test_suspended_account_is_gone_even_with_status_200() -> None:
    for status, body in ((200, {"id": "1", "suspended": True}), (410, {"error": "Gone"})):
        with pytest.raises(NotFound) as refusal:
            drive(PLATFORM, "profile", {"handle": "ada"}, always(body, status))
        assert refusal.value.reason == "account_gone"


def test_link_header_without_progress_ends_the_list() -> None:
    back = '<https://mastodon.social/api/v1/statuses/1/favourited_by?since_id=3>; rel="prev"'
    page = page_of(PLATFORM, "post/likes", {"id": "1"}, always([{"id": "3"}], link=back))
    assert page.next is None
