"""PeerTube's peculiarities: videos on other hosts, paths of pictures, captions, and restricted videos."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platforms.case import drive
from tests.platforms.drive import always, page_of, single_of, told, watched
from upstreams.model.errors import InvalidArgument, NotFound
from upstreams.model.steps import Answer, Call
from upstreams.platforms.peertube import PLATFORM

_NAMED = {"handle": "ada"}


def record_of(body: Any, resource: str = "video", **params: Any) -> Any:
    result = single_of(PLATFORM, resource, params or {"id": "7"}, always(body))
    return result.record


def place_of(resource: str, **params: Any) -> str:
    """Return the host to which a request is sent."""
    calls, upstream = watched(always({"uuid": "1", "data": [], "total": 0}))
    drive(PLATFORM, resource, params, upstream)
    return calls[0][0]


@pytest.mark.parametrize(
    "address",
    [
        "https://tube.Example.org/w/kkGMgK9ZtnKfYAgnEtQxbv",
        "tube.example.org/videos/watch/kkGMgK9ZtnKfYAgnEtQxbv?start=1m",
        "https://tube.example.org/w/kkGMgK9ZtnKfYAgnEtQxbv;threadId=3",
        "https://tube.example.org/videos/embed/kkGMgK9ZtnKfYAgnEtQxbv/",
    ],
)
def test_video_url_is_read_from_its_own_host(address: str) -> None:
    assert place_of("video", url=address) == "tube.example.org/api/v1/videos/kkGMgK9ZtnKfYAgnEtQxbv"


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
def test_account_and_channel_spellings_are_normalized(resource: str, spelling: str) -> None:
    kind = "accounts" if resource == "profile" else "video-channels"
    assert place_of(resource, handle=spelling) == f"framatube.org/api/v1/{kind}/ada%40tube.example.org"


def test_search_without_an_instance_covers_many_instances() -> None:
    assert place_of("search", query="x") == "sepiasearch.org/api/v1/search/videos"
    assert place_of("search", query="x", instance="tube.example.org") == "tube.example.org/api/v1/search/videos"


def test_newer_videos_have_playlists_instead_of_files() -> None:
    playlists = [{"playlistUrl": "https://tube.example.org/1.m3u8"}]
    assert record_of({"files": [], "streamingPlaylists": playlists})["content"]["media_urls"] == [
        "https://tube.example.org/1.m3u8"
    ]


def test_image_paths_are_resolved_against_the_instance() -> None:
    told_of = record_of({"previewPath": "/p/1.jpg"}, url="https://tube.example.org/w/7")
    assert told_of["content"]["thumbnail_url"] == "https://tube.example.org/p/1.jpg"
    assert (
        record_of({"avatars": [{"path": "/a/1.png"}]}, "profile", **_NAMED)["avatar_url"]
        == "https://framatube.org/a/1.png"
    )


def test_account_image_on_another_instance_is_resolved() -> None:
    """Search results come from many hosts. Older servers send a single image, and only its path."""
    told_of = {"path": "/a/1.png", "url": "https://tube.example.org/a/1.png"}
    body = {"total": 1, "data": [{"uuid": "u", "account": {"name": "ada", "avatars": [told_of]}}]}
    page = page_of(PLATFORM, "search", {"query": "x"}, always(body))
    assert page.records[0]["author"]["avatar_url"] == "https://tube.example.org/a/1.png"
    older = record_of({"name": "ada", "avatar": {"path": "/a/1.png"}}, "profile", **_NAMED)
    assert older["avatar_url"] == "https://framatube.org/a/1.png"


def test_embedded_playlist_is_read_by_its_own_id() -> None:
    number = "96b0ee2b-a5a7-4794-8769-58d8ccb79ab7"
    address = f"https://tube.example.org/video-playlists/embed/{number}"
    assert place_of("playlist", url=address) == f"tube.example.org/api/v1/video-playlists/{number}"


def test_list_ends_at_its_total() -> None:
    page = page_of(PLATFORM, "trending", {"limit": 2}, always({"total": 4, "data": [{}, {}]}), cursor={"o": 2})
    assert (page.next, page.total) == (None, 4)


PRIVATE = "account_private"


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, {"detail": "Cannot get this private video"}, PRIVATE),
        (403, {"detail": "Cannot get this private video"}, PRIVATE),
        (401, {"detail": "Authentication is required"}, PRIVATE),
        (403, {"error": "Cannot get this private/internal or blacklisted video."}, PRIVATE),
        (403, {"detail": "Cannot get this video regarding follow constraints"}, None),
    ],
)
def test_restricted_video_is_not_found(status: int, body: Any, reason: str | None) -> None:
    with pytest.raises(NotFound) as refusal:
        drive(PLATFORM, "video", {"id": "7"}, always(body, status))
    assert refusal.value.reason == reason


@pytest.mark.parametrize("value", ["abc", "embed", "kkGMgK9ZtnKfYAgnEtQxb", "96b0ee2b-a5a7-4794-8769-58d8ccb79ab"])
def test_id_in_an_unknown_format_is_refused_before_any_call(value: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        place_of("video", id=value)
    assert refusal.value.param == "id"


TRACKS = [
    {"language": {"id": "en"}, "automaticallyGenerated": True, "fileUrl": "https://files.example.net/en.vtt?a=b/"},
    {"language": {"id": "pt-BR"}, "automaticallyGenerated": False, "captionPath": "/lazy-static/pt.vtt"},
]


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"id": "7"}, "framatube.org/lazy-static/pt.vtt"),  # written by a person
        ({"id": "7", "language": "EN"}, "files.example.net/en.vtt?a=b/"),
        ({"url": "https://tube.example.org/w/7", "language": "pt"}, "tube.example.org/lazy-static/pt.vtt"),
    ],
)
def test_captions_are_read_from_their_file(params: dict[str, str], place: str) -> None:
    places: list[str] = []

    def upstream(asked: str, call: Call) -> Answer:
        places.append(f"{asked.partition('/')[0]}{call.target('')}")
        return told("WEBVTT\n\n00:01.000 --> 00:02.000\nYes.") if "vtt" in asked else told({"data": TRACKS})

    result = single_of(PLATFORM, "video/transcript", params, upstream)
    assert (places[1], result.record["transcript"]) == (place, "Yes.")
    assert result.record["ext"]["languages"] == ["en", "pt-BR"]


def test_language_without_a_track_is_not_found() -> None:
    with pytest.raises(NotFound) as refusal:
        drive(PLATFORM, "video/transcript", {"id": "7", "language": "de"}, always({"data": TRACKS}))
    assert refusal.value.reason == "no_captions"
