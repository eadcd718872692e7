"""TikTok's peculiarities: rounded ids, members of other videos, numbers for flags, and names that pages need."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.platforms.case import drive
from tests.platforms.drive import always, page_of, single_of, told
from tests.platforms.tiktok.cases import account, video, videos
from upstreams.model.errors import InvalidArgument, NotFound
from upstreams.model.params import State
from upstreams.model.steps import Answer, Call, Page
from upstreams.platforms.tiktok import HANDLE, PLATFORM


def read(*answers: Any, cursor: State | None = None, **params: Any) -> tuple[Page, list[tuple[str, dict[str, str]]]]:
    """Return a page of videos, and the path and query of each call."""
    calls: list[tuple[str, dict[str, str]]] = []
    waiting = iter(answers)

    def upstream(place: str, call: Call) -> Answer:
        calls.append((place.partition("/")[2], dict(parse_qsl(call.target("").partition("?")[2]))))
        return told(next(waiting))

    page = drive(PLATFORM, "profile/videos", params, upstream, cursor=cursor)
    assert isinstance(page, Page)
    return page, calls


def test_ids_are_read_only_from_texts() -> None:
    rounded = {"author_user_id": 6_659_752_019_493_208_000, "music": {"id": 7_470_969_632_736_710_000, "id_str": "748"}}
    (record,) = page_of(PLATFORM, "profile/videos", {"handle": "ada"}, always(videos(video(**rounded)))).records
    assert record["author"]["id"] == "70"
    assert record["ext"]["music_id"] == "748"


def test_url_and_time_of_another_video_are_not_read() -> None:
    other = {"url": "https://www.tiktok.com/@bob/video/1", "create_time_utc": "2001-01-01T00:00:00.000Z"}
    (record,) = page_of(PLATFORM, "profile/videos", {"handle": "ada"}, always(videos(video(**other)))).records
    assert record["url"] == "https://www.tiktok.com/@ada/video/747"
    assert record["published_at"] == "2025-02-13T18:18:03Z"


@pytest.mark.parametrize(("number", "pinned"), [(1, True), (0, False), (None, None)])
def test_pinned_video_is_marked_by_a_number(number: int | None, pinned: bool | None) -> None:
    (record,) = page_of(PLATFORM, "profile/videos", {"handle": "ada"}, always(videos(video(is_top=number)))).records
    assert record["flags"]["pinned"] is pinned


@pytest.mark.parametrize(("words", "verified"), [("Verified account", True), ("", False), (None, None)])
def test_account_in_a_row_is_verified_by_a_text(words: str | None, verified: bool | None) -> None:
    row = video()
    row["author"]["custom_verify"] = words
    (record,) = page_of(PLATFORM, "profile/videos", {"handle": "ada"}, always(videos(row))).records
    assert record["author"]["verified"] is verified


def test_account_without_an_id_does_not_exist() -> None:
    assert single_of(PLATFORM, "profile", {"handle": "ada"}, always(account(id="", uniqueId=""))).record["id"] is None


@pytest.mark.parametrize("changed", [{"has_more": 0}, {"has_more": False}, {"max_cursor": None}, {"aweme_list": []}])
def test_last_page(changed: dict[str, Any]) -> None:
    page, _ = read(videos(video(), **changed), handle="ada")
    assert page.next is None


def test_repeated_position_ends_the_list() -> None:
    page, _ = read(videos(video()), handle="ada", cursor={"c": "1738435195000", "h": "ada"})
    assert page.next is None


def test_number_is_looked_up_once_for_all_pages() -> None:
    first, calls = read(account(), videos(video()), user_id="70000")
    assert [path for path, _ in calls] == ["v1/tiktok/profile", "v3/tiktok/profile/videos"]
    assert calls[0][1] == {"user_id": "70000"}
    assert calls[1][1] == {"user_id": "70000", "handle": "ada", "sort_by": "latest"}
    _, calls = read(videos(video()), user_id="70000", cursor=first.next)
    assert [(path, query["handle"], query["max_cursor"]) for path, query in calls] == [
        ("v3/tiktok/profile/videos", "ada", "1738435195000")
    ]


def test_unknown_number_has_no_videos() -> None:
    with pytest.raises(NotFound):
        read(account(uniqueId=""), user_id="70000")


def test_url_of_an_account_names_it() -> None:
    assert HANDLE.canonical("https://www.tiktok.com/@Ada.1?lang=en") == "ada.1"
    with pytest.raises(InvalidArgument):
        HANDLE.canonical("https://www.tiktok.com/@ada/video/7470969622276164906")
