"""PeerTube: what is odd about it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platforms.case import check, drive
from tests.platforms.drive import always, told
from tests.platforms.peertube.cases import CASES
from upstreams.model.errors import NotFound
from upstreams.model.steps import Answer, Call, Page, Single
from upstreams.platforms.peertube import PLATFORM

_NAMED = {"handle": "ada"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_answer_becomes_the_records_of_the_table(case: Any) -> None:
    check(PLATFORM, case)


def record_of(body: Any, resource: str = "video", **params: Any) -> Any:
    result = drive(PLATFORM, resource, params or {"id": "x"}, always(body))
    assert isinstance(result, Single)
    return result.record


def place_of(resource: str, **params: Any) -> str:
    """The place that a request is read from."""
    places: list[str] = []

    def upstream(place: str, _call: Call) -> Answer:
        places.append(place)
        return told({"uuid": "1", "data": [], "total": 0})

    drive(PLATFORM, resource, params, upstream)
    return places[0]


@pytest.mark.parametrize(
    "address",
    [
        "https://tube.Example.org/w/kkGM",
        "tube.example.org/videos/watch/kkGM?start=1m",
        "https://tube.example.org/w/kkGM;threadId=3",
        "https://tube.example.org/videos/embed/kkGM/",
    ],
)
def test_a_video_at_an_address_is_read_from_its_own_host(address: str) -> None:
    assert place_of("video", url=address) == "tube.example.org/api/v1/videos/kkGM"


@pytest.mark.parametrize(
    ("resource", "spelling"),
    [
        ("profile", "ada@Tube.example.org"),
        ("profile", "https://tube.example.org/a/Ada/videos"),
        ("profile", "https://tube.example.org/accounts/ada"),
        ("channel", "https://tube.example.org/c/ada"),
        ("channel", "framatube.org/c/ada@tube.example.org/videos"),
    ],
)
def test_accounts_and_channels_have_one_name_in_every_spelling(resource: str, spelling: str) -> None:
    kind = "accounts" if resource == "profile" else "video-channels"
    assert place_of(resource, handle=spelling) == f"framatube.org/api/v1/{kind}/ada%40tube.example.org"


def test_a_search_without_an_instance_is_one_over_many() -> None:
    assert place_of("search", query="x") == "sepiasearch.org/api/v1/search/videos"
    assert place_of("search", query="x", instance="tube.example.org") == "tube.example.org/api/v1/search/videos"


def test_newer_videos_have_no_files_but_playlists() -> None:
    playlists = [{"playlistUrl": "https://tube.example.org/1.m3u8"}]
    assert record_of({"files": [], "streamingPlaylists": playlists})["content"]["media_urls"] == [
        "https://tube.example.org/1.m3u8"
    ]


def test_pictures_are_paths_of_the_instance_that_was_asked() -> None:
    told_of = record_of({"previewPath": "/p/1.jpg"}, url="https://tube.example.org/w/x")
    assert told_of["content"]["thumbnail_url"] == "https://tube.example.org/p/1.jpg"
    assert (
        record_of({"avatars": [{"path": "/a/1.png"}]}, "profile", **_NAMED)["avatar_url"]
        == "https://framatube.org/a/1.png"
    )


def test_a_list_ends_where_the_total_is_reached() -> None:
    page = drive(PLATFORM, "trending", {"limit": 2}, always({"total": 4, "data": [{}, {}]}), cursor={"o": 2})
    assert isinstance(page, Page)
    assert (page.next, page.total) == (None, 4)


@pytest.mark.parametrize("status", [401, 403])
def test_a_video_for_some_alone_is_private(status: int) -> None:
    with pytest.raises(NotFound) as refusal:
        drive(
            PLATFORM,
            "video",
            {"id": "x"},
            always({"status": status, "detail": "Cannot get this private video"}, status),
        )
    assert refusal.value.reason == "account_private"


TRACKS = [
    {"language": {"id": "en"}, "automaticallyGenerated": True, "fileUrl": "https://files.example.net/en.vtt?a=b/"},
    {"language": {"id": "pt-BR"}, "automaticallyGenerated": False, "captionPath": "/lazy-static/pt.vtt"},
]


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"id": "x"}, "framatube.org/lazy-static/pt.vtt"),  # a person wrote these
        ({"id": "x", "language": "EN"}, "files.example.net/en.vtt?a=b/"),
        ({"url": "https://tube.example.org/w/x", "language": "pt"}, "tube.example.org/lazy-static/pt.vtt"),
    ],
)
def test_captions_are_read_where_their_file_is(params: dict[str, str], place: str) -> None:
    places: list[str] = []

    def upstream(asked: str, call: Call) -> Answer:
        places.append(f"{asked.partition('/')[0]}{call.target('')}")
        return told("WEBVTT\n\n00:01.000 --> 00:02.000\nYes.") if "vtt" in asked else told({"data": TRACKS})

    result = drive(PLATFORM, "video/transcript", params, upstream)
    assert isinstance(result, Single)
    assert (places[1], result.record["transcript"]) == (place, "Yes.")
    assert result.record["ext"]["languages"] == ["en", "pt-BR"]


def test_a_language_that_no_track_has_is_not_found() -> None:
    with pytest.raises(NotFound) as refusal:
        drive(PLATFORM, "video/transcript", {"id": "x", "language": "de"}, always({"data": TRACKS}))
    assert refusal.value.reason == "no_captions"
