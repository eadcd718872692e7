"""YouTube's peculiarities: lists that are playlists, quotas, errors by reason, and sources without a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.node import open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.fakes.scripted_upstream import json_answer as scripted
from tests.platforms.case import NOW_AT, drive, recorded
from tests.platforms.drive import always, endpoint, page_of, told
from tests.platforms.youtube.cases import ATOM, CHANNEL, thread
from upstreams.model.errors import (
    InvalidArgument,
    NotFound,
    StaleCursor,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
)
from upstreams.model.steps import Answer, Call, Page
from upstreams.platforms.youtube import PLATFORM

KEY = {"key": "k3y"}
CHANNEL_ID = "UC_x5XG1OV2P6uZZ5FSM9Ttw"


def calls_of(resource: str, *answers: Any, cursor: Any = None, **params: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the last path segment and the query of each call, and the result."""
    calls: list[tuple[str, Any]] = []
    waiting = iter(answers)

    def upstream(place: str, call: Call) -> Answer:
        calls.append((place.rpartition("/")[2], call.query))
        return told(next(waiting))

    return calls, drive(PLATFORM, resource, params, upstream, cursor=cursor, credentials=KEY)


def failing(status: int, reason: str, **more: str) -> Answer:
    """Return the API's error answer for this reason."""
    return told({"error": {"code": status, "message": "No.", "errors": [{"reason": reason, **more}]}}, status)


def refused(status: int, reason: str, resource: str = "video", date: str = "", **params: Any) -> UpstreamError:
    """Return the refusal that an error with this reason causes."""
    error = failing(status, reason, **{name: params.pop(name, "") for name in ("location", "domain")})
    with pytest.raises(UpstreamError) as refusal:
        drive(
            PLATFORM, resource, params or {"url": "abcdefghijk"}, always(error.body, status, date=date), credentials=KEY
        )
    return refusal.value


def test_rows_of_recorded_lists_match_the_table() -> None:
    for row in recorded("youtube", "v3_channels__multi.json").body["items"]:
        result = drive(PLATFORM, "channel", {"channelId": row["id"]}, always({"items": [row]}), credentials=KEY)
        assert not isinstance(result, Page)
        assert result.record == CHANNEL(row)
    for file in ("v3_commentThreads__channel.json", "v3_commentThreads__channel_all.json"):
        body = recorded("youtube", file).body
        page = page_of(PLATFORM, "video/comments", {"url": "abcdefghijk"}, always(body), credentials=KEY)
        assert page.records == [thread(row) for row in body["items"]]


@pytest.mark.parametrize(
    "address",
    [
        "https://www.youtube.com/watch?v=D-lhorsDlUQ&t=5s",
        "https://m.youtube.com/watch?app=m&v=D-lhorsDlUQ",
        "youtu.be/D-lhorsDlUQ?si=x",
        "https://youtube.com/shorts/D-lhorsDlUQ",
        "https://www.youtube.com/live/D-lhorsDlUQ?x=1",
        "https://www.youtube-nocookie.com/embed/D-lhorsDlUQ",
        " D-lhorsDlUQ",
    ],
)
def test_video_url_spellings_are_normalized(address: str) -> None:
    assert endpoint(PLATFORM, "video").params[0].canonical(address) == "D-lhorsDlUQ"


@pytest.mark.parametrize(
    ("address", "name", "value"),
    [
        (f"https://www.youtube.com/channel/{CHANNEL_ID}/videos", "id", CHANNEL_ID),
        ("https://youtube.com/@GoogleDevelopers?x=1", "forHandle", "GoogleDevelopers"),
        ("youtube.com/user/GoogleDevelopers", "forUsername", "GoogleDevelopers"),
    ],
)
def test_channel_url_determines_the_lookup_parameter(address: str, name: str, value: str) -> None:
    calls, _ = calls_of("channel", {"items": [{"id": CHANNEL_ID}]}, url=address)
    members = {one: found for one, found in calls[0][1].items() if found is not None}
    assert members == {"part": "snippet,statistics", name: value}


@pytest.mark.parametrize("body", [{"pageInfo": {"totalResults": 0}}, {"pageInfo": {"totalResults": 0}, "items": []}])
def test_missing_channel_without_any_list_is_not_found(body: Any) -> None:
    with pytest.raises(NotFound):
        calls_of("channel", body, handle="nobody")


def test_hidden_subscribers_are_null_and_not_zero() -> None:
    counts = {"subscriberCount": "0", "hiddenSubscriberCount": True, "videoCount": "0"}
    _, result = calls_of("channel", {"items": [{"id": CHANNEL_ID, "statistics": counts}]}, channelId=CHANNEL_ID)
    assert (result.record["followers"], result.record["posts_count"]) == (None, 0)


@pytest.mark.parametrize(
    ("resource", "sort", "begin"),
    [
        ("channel/videos", "latest", "UU"),
        ("channel/videos", "popular", "UULP"),
        ("channel/shorts", "newest", "UUSH"),
        ("channel/shorts", "popular", "UUPS"),
    ],
)
def test_channel_lists_are_playlists_without_search(resource: str, sort: str, begin: str) -> None:
    calls, _ = calls_of(resource, {"items": []}, channelId=CHANNEL_ID, sort=sort)
    assert [(path, query["playlistId"]) for path, query in calls] == [("playlistItems", begin + CHANNEL_ID[2:])]
    (units,) = PLATFORM.budgets
    assert (units.cost("/search"), units.cost("/playlistItems")) == (100, 1)


ABSENT, KNOWN = failing(404, "playlistNotFound"), told({"items": [{"id": CHANNEL_ID}]})


@pytest.mark.parametrize(
    ("named", "answers"), [({"handle": "ada"}, (KNOWN, ABSENT)), ({"channelId": CHANNEL_ID}, (ABSENT, KNOWN))]
)
@pytest.mark.parametrize("resource", ["channel/videos", "channel/shorts"])
def test_channel_without_the_playlist_has_an_empty_page(
    resource: str, named: dict[str, str], answers: tuple[Answer, ...]
) -> None:
    waiting = iter(answers)
    assert drive(PLATFORM, resource, named, lambda *_: next(waiting), credentials=KEY) == Page([])
    assert not [*waiting]


@pytest.mark.parametrize(
    ("answers", "refusal"),
    [
        ((ABSENT, told({"items": [], "pageInfo": {"totalResults": 0}})), NotFound),
        ((failing(403, "playlistItemsNotAccessible"),), NotFound),
        ((failing(403, "quotaExceeded"),), UpstreamThrottled),
        ((failing(500, "backendError"),), UpstreamFailed),
    ],
)
def test_refused_playlist_is_not_an_empty_page(answers: tuple[Answer, ...], refusal: type[UpstreamError]) -> None:
    waiting = iter(answers)
    with pytest.raises(refusal):
        drive(PLATFORM, "channel/videos", {"channelId": CHANNEL_ID}, lambda *_: next(waiting), credentials=KEY)


@pytest.mark.parametrize(("told_as", "seconds"), [("P0D", None), ("PT0S", None), ("PT1M1S", 61)])
def test_live_or_upcoming_video_has_no_duration(told_as: str, seconds: int | None) -> None:
    video = {"id": "abcdefghijk", "contentDetails": {"duration": told_as}}
    _, result = calls_of("video", {"items": [video]}, url="abcdefghijk")
    assert result.record["content"]["duration_seconds"] == seconds


def test_details_of_fifty_videos_use_one_call_and_deleted_ones_are_skipped() -> None:
    ids = [f"video_{number:05}" for number in range(50)]
    listed = {"items": [{"contentDetails": {"videoId": one}} for one in ids], "nextPageToken": "P2"}
    known = {"items": [{"id": one} for one in reversed(ids[1:])]}
    calls, page = calls_of("playlist", listed, known, playlist_id="PLparsers", limit=50)
    assert [path for path, _ in calls] == ["playlistItems", "videos"]
    assert calls[1][1]["id"] == ",".join(ids)
    assert [one["id"] for one in page.records] == ids[1:]
    assert page.next == {"c": "P2"}


@pytest.mark.parametrize(("chosen", "since"), [("today", "2025-01-01"), ("this_week", "2024-12-26")])
def test_relative_search_date_starts_at_midnight(chosen: str, since: str) -> None:
    assert NOW_AT == 1_735_689_600.0
    calls, _ = calls_of("search", {"items": []}, query="parsers", uploadDate=chosen, sortBy="popular")
    assert calls[0][1]["publishedAfter"] == f"{since}T00:00:00Z"
    assert calls[0][1]["order"] == "viewCount"


def test_search_calls_use_the_source_with_their_own_quota() -> None:
    sources: list[str] = []

    def upstream(_place: str, call: Call) -> Answer:
        sources.append(call.source)
        return told({"items": [{"id": {"videoId": "abcdefghijk"}}] if call.source else [{"id": "abcdefghijk"}]})

    drive(PLATFORM, "search/hashtag", {"hashtag": "python"}, upstream, credentials=KEY)
    assert sources == ["search", ""]


def test_feed_without_a_key_needs_an_id_and_no_language() -> None:
    for resource, params, name in (
        ("channel", {"handle": "ada"}, "handle"),
        ("channel/videos", {"url": "https://www.youtube.com/@ada"}, "url"),
        ("video", {"url": "abcdefghijk", "language": "de"}, "language"),
    ):
        with pytest.raises(InvalidArgument) as refusal:
            drive(PLATFORM, resource, params, always({}))
        assert refusal.value.param == name


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "account_private"), (403, "account_private"), (400, None), (404, None)]
)
def test_oembed_refusal_is_classified_by_its_status_alone(status: int, reason: str | None) -> None:
    with pytest.raises(NotFound) as refusal:
        drive(PLATFORM, "video", {"url": "abcdefghijk"}, always("Unauthorized", status))
    assert refusal.value.reason == reason


@pytest.mark.parametrize(
    ("date", "wait_s"), [("Wed, 01 Jan 2025 07:59:00 GMT", 60), ("Wed, 01 Jan 2025 08:00:00 GMT", 86_400)]
)
def test_exhausted_quota_resets_at_midnight_pacific_time(date: str, wait_s: float) -> None:
    refusal = refused(403, "quotaExceeded", date=date)
    assert isinstance(refusal, UpstreamThrottled)
    assert refusal.retry_after_s == wait_s


def test_refusal_is_classified_by_its_reason() -> None:
    assert isinstance(refused(403, "rateLimitExceeded"), UpstreamThrottled)
    assert isinstance(refused(403, "commentsDisabled"), NotFound)
    assert isinstance(refused(400, "invalidPageToken"), StaleCursor)
    private = refused(403, "playlistItemsNotAccessible")
    assert isinstance(private, NotFound)
    assert private.reason == "account_private"
    unknown = refused(400, "invalidValue", "trending", region="zz", location="regionCode")
    assert isinstance(unknown, InvalidArgument)
    assert unknown.param == "region"
    no_chart = refused(400, "videoChartNotFound", "trending", region="zz", location="chart")
    assert isinstance(no_chart, InvalidArgument)
    assert no_chart.param == "region"


@pytest.mark.parametrize(
    ("resource", "params", "domain"),
    [
        ("video/comments", {"url": "abcdefghijk"}, "youtube.commentThread"),
        ("video/comment/replies", {"continuationToken": "Ugabcdef"}, "youtube.comment"),
    ],
)
def test_hidden_comments_are_private(resource: str, params: dict[str, str], domain: str) -> None:
    """A rejected key has the same reason as other errors, but another domain."""
    private = refused(403, "forbidden", resource, domain=domain, **params)
    assert isinstance(private, NotFound)
    assert private.reason == "account_private"
    assert isinstance(refused(403, "forbidden", resource, domain="global", **params), UpstreamFailed)


def test_key_or_server_error_is_a_failure() -> None:
    for file in ("v3_error_permission.json", "v3_error__400_missing_filter.json"):
        answer = recorded("youtube", file)
        assert answer.status >= 400
        assert PLATFORM.judge(answer._replace(source="api")) is None


def test_key_is_sent_in_a_header() -> None:
    assert PLATFORM.headers(KEY) == (("x-goog-api-key", "k3y"),)
    assert PLATFORM.headers({}) == ()


FACTS = {
    "title": "Parsers",
    "description": "Down.",
    "channelId": "UCada0815",
    "channelTitle": "Ada",
    "publishedAt": "2023-05-01T10:00:00Z",
    "thumbnails": {"high": {"url": "https://i.example.com/high.jpg"}},
}
FED_VIDEO = {"id": "abcdefghijk", "snippet": FACTS, "statistics": {"viewCount": "4711", "likeCount": "40"}}
FED_CHANNEL = {"id": "UCada0815", "snippet": {**FACTS, "title": "Ada", "publishedAt": "2019-05-01T10:00:00Z"}}
OF_ITEM = {"items": [{"contentDetails": {"videoId": "abcdefghijk"}}]}
EMBED = {"title": "Parsers", "author_name": "Ada", "author_url": "https://www.youtube.com/channel/UCada0815",
         "thumbnail_url": "https://i.example.com/high.jpg"}  # fmt: skip


def leaves_of(value: Any, at: str = "") -> dict[str, Any]:
    """Return the values that are not null, by path."""
    if not isinstance(value, dict):
        return {} if value in (None, []) else {at: value}
    return {path: one for name, inner in value.items() for path, one in leaves_of(inner, f"{at}.{name}").items()}


@pytest.mark.parametrize(
    ("resource", "params", "bodies", "untold"),
    [
        ("channel", {"channelId": "UCada0815"}, ({"items": [FED_CHANNEL]}, ATOM.decode()), {".avatar_url", ".bio"}),
        ("channel/videos", {"channelId": "UCada0815"}, (OF_ITEM, {"items": [FED_VIDEO]}, ATOM.decode()), set()),
        ("channel/shorts", {"channelId": "UCada0815"}, (OF_ITEM, {"items": [FED_VIDEO]}, ATOM.decode()), set()),
        ("playlist", {"playlist_id": "PLparsers"}, (OF_ITEM, {"items": [FED_VIDEO]}, ATOM.decode()), set()),
        (
            "video",
            {"url": "abcdefghijk"},
            ({"items": [FED_VIDEO]}, EMBED),
            {".content.text", ".engagement.views", ".engagement.likes", ".published_at"},
        ),
    ],
)
def test_keyless_sources_return_the_same_as_the_api(
    resource: str, params: dict[str, str], bodies: tuple[Any, ...], untold: set[str]
) -> None:
    """Method: compare the same facts in both formats, field by field. oEmbed has no description."""
    waiting = iter(bodies)
    own, other = (
        drive(PLATFORM, resource, params, lambda _place, _call: told(next(waiting)), credentials=KEY, rung_index=rung)
        for rung in (0, 1)
    )
    first, second = (leaves_of(one.records[0] if isinstance(one, Page) else one.record) for one in (own, other))
    assert {path for path, value in first.items() if second.get(path) != value} == untold
    assert second.keys() <= first.keys()
    assert (own.warnings, len(other.warnings)) == ((), 1)


async def test_exhausted_quota_uses_feeds_instead_of_the_api(tmp_path: Path) -> None:
    """Goal: a request succeeds despite an exhausted quota, if a feed has the answer.

    Method: a whole node with a key.
    """
    spent = {"error": {"code": 403, "message": "No.", "errors": [{"reason": "quotaExceeded"}]}}

    def script(asked: str) -> ScriptedAnswer | None:
        return scripted(spent, 403) if asked.startswith("www.googleapis.com") else None

    upstreams = {"youtube": {"key_env": "TEST_KEY"}}
    async with open_test_node(tmp_path, environ={"TEST_KEY": "k3y"}, upstreams=upstreams) as node:
        node.upstream.script = script
        for number in range(3):
            answer = await node.get(f"/v1/youtube/channel/videos?channelId=UCada0815{number}")
            assert (answer.status, answer.json["credits_used"]) == (200, 1), answer.json
            assert answer.json["data"]["items"]
            assert "YouTube" in answer.json["data"]["_warnings"][0]
        refused = await node.get("/v1/youtube/channel?handle=ada")
        assert (refused.status, refused.json["credits_used"]) == (503, 0)
        assert sum("googleapis" in asked for asked in node.upstream.requests) == 1
        await node.assert_sound()


@pytest.mark.parametrize("spelling", [CHANNEL_ID, f"@{CHANNEL_ID}"])
def test_channel_id_is_not_a_handle(spelling: str) -> None:
    """Goal: code that tries each parameter in turn, as cohorts do, uses the parameter for ids."""
    with pytest.raises(InvalidArgument, match="channelId"):
        calls_of("channel/videos", handle=spelling)
