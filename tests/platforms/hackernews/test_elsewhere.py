"""Hacker News from its fallbacks: items and threads from Firebase, the newest stories from Algolia."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.platforms.case import drive, recorded
from tests.platforms.drive import Upstream, always, page_of, single_of, told, watched
from tests.platforms.hackernews import cases
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamFailed
from upstreams.model.steps import Answer, Call, Page
from upstreams.platforms.hackernews import PLATFORM

Json = dict[str, Any]
_ITEM = "hacker-news.firebaseio.com/v0/item/"


def items(*entries: Json) -> Upstream:
    """Return a Firebase that has these items. It answers `null` for any other item."""
    known = {str(entry["id"]): entry for entry in entries}

    def answer(host_and_path: str, _call: Call) -> Answer:
        return told(known.get(host_and_path.removeprefix(_ITEM).removesuffix(".json")))

    return answer


def item(item_id: int, *kids: int, **more: Any) -> Json:
    words = {"by": "ada", "text": f"Comment <i>{item_id}</i>", "type": "comment", "time": 1_706_659_200}
    return {"id": item_id, "kids": list(kids), **words, **more}


def story(*kids: int) -> Json:
    return {"id": 7, "type": "story", "title": "A story", "by": "ada", "descendants": 3, "kids": list(kids)}


def threads(upstream: Upstream, limit: int = 20, cursor: Mapping[str, Any] | None = None) -> Page:
    params: dict[str, str | int] = {"id": "7", "limit": limit}
    return page_of(PLATFORM, "story/comments", params, upstream, cursor=cursor, rung_index=1)


def record(resource: str, params: Mapping[str, str | int], upstream: Upstream) -> Json:
    result = single_of(PLATFORM, resource, params, upstream, rung_index=1)
    return result.record


@pytest.mark.parametrize(
    "file", ["firebase_item_8863_story.json", "firebase_item_126809_poll.json", "firebase_item_192327_job.json"]
)
def test_recorded_item_is_read_as_a_story(file: str) -> None:
    body = recorded("hackernews", file).body
    found = record("story", {"id": str(body["id"])}, always(body))
    expected = cases.post(body)
    assert found.pop("published_at") is not None
    assert found == {name: value for name, value in expected.items() if name != "published_at"}


def test_recorded_account_is_read_as_an_author() -> None:
    body = recorded("hackernews", "firebase_user_jl.json").body
    found = record("profile", {"handle": "jl"}, always(body))
    assert (found["id"], found["likes_count"]) == (body["id"], body["karma"])
    assert found["joined_at"] is not None


def test_recorded_comment_is_not_a_story() -> None:
    body = recorded("hackernews", "firebase_item_2921983_comment.json").body
    for resource in ("story", "story/comments"):
        with pytest.raises(NotFound):
            drive(PLATFORM, resource, {"id": "2921983"}, always(body), rung_index=1)


@pytest.mark.parametrize("resource", ["story", "story/comments"])
def test_null_item_is_not_found_and_non_numeric_id_is_refused(resource: str) -> None:
    with pytest.raises(NotFound):
        drive(PLATFORM, resource, {"id": "7"}, always(None), rung_index=1)
    with pytest.raises(InvalidArgument):
        drive(PLATFORM, resource, {"id": "seven"}, always(None), rung_index=1)


def test_thread_is_assembled_from_its_items() -> None:
    upstream = items(story(1, 2), item(1, 11, 12), item(2), item(11, 111), item(12), item(111))
    page = threads(upstream)
    assert (page.next, page.warnings) == (None, ())
    first, second = page.records
    assert [reply["id"] for reply in first["replies"]] == ["11", "12"]
    assert [reply["id"] for reply in first["replies"][0]["replies"]] == ["111"]
    assert (second["text"], second["post_id"], second["replies"]) == ("Comment 2", "7", [])


def test_page_is_a_slice_of_the_top_level_comments() -> None:
    upstream = items(story(1, 2, 3), item(1, 11), item(2), item(3), item(11))
    first = threads(upstream, limit=2)
    assert ([row["id"] for row in first.records], first.next) == (["1", "2"], {"o": 2})
    last = threads(upstream, limit=2, cursor={"o": 2})
    assert ([row["id"] for row in last.records], last.next) == (["3"], None)
    assert threads(upstream, cursor={"o": 4}) == Page([])
    assert threads(items(story())) == Page([])


def test_deleted_comment_is_a_tombstone_with_replies() -> None:
    gone = {"id": 1, "deleted": True, "kids": [11], "type": "comment"}
    [found] = threads(items(story(1), gone, item(11))).records
    assert (found["text"], found["author"], found["flags"]["deleted"]) == (None, None, True)
    assert [reply["id"] for reply in found["replies"]] == ["11"]


@pytest.mark.parametrize("kids", ["12", {"0": 12}, 12, True, [None, "12", {"id": 12}, True, 1.0]])
def test_unreadable_replies_keep_their_comment(kids: Any) -> None:
    page = threads(items(story(1, 2), item(1) | {"kids": kids}, item(2, 21), item(21)))
    assert [row["id"] for row in page.records] == ["1", "2"]
    assert [len(row["replies"]) for row in page.records] == [0, 1]


@pytest.mark.parametrize("body", [{}, {"error": "odd"}, story() | {"kids": "12"}, story() | {"kids": {"0": 12}}])
def test_non_item_is_not_an_empty_story(body: Json) -> None:
    with pytest.raises(UpstreamFailed):
        threads(always(body))


def test_missing_comments_are_skipped_with_a_warning() -> None:
    page = threads(items(story(1, 2), item(1, 11)))
    assert ([row["id"] for row in page.records], page.records[0]["replies"]) == (["1"], [])
    assert page.warnings == ("2 of 3 items left out: The upstream returned no data.",)


def test_thread_whose_comments_all_fail_is_a_failure() -> None:
    def answer(host_and_path: str, _call: Call) -> Answer:
        return told(story(1, 2)) if host_and_path.endswith("/7.json") else told("busy", 503)

    with pytest.raises(UpstreamFailed, match="all 2 items failed: firebase: status 503"):
        threads(answer)


def test_front_page_whose_items_all_fail_is_a_failure() -> None:
    def answer(host_and_path: str, _call: Call) -> Answer:
        return told([1, 2]) if host_and_path.endswith("topstories.json") else told("busy", 503)

    with pytest.raises(UpstreamFailed, match="all 2 items failed"):
        drive(PLATFORM, "top", {}, answer)


def test_comments_beyond_300_are_left_out_with_a_warning() -> None:
    upstream = items(story(1, 2), item(1, *range(100, 300)), item(2, *range(400, 600)), *map(item, range(100, 600)))
    calls, counted = watched(upstream)
    page = threads(counted)
    assert len(calls) == 1 + 300
    assert [len(row["replies"]) for row in page.records] == [200, 98]
    assert page.warnings == ("replies beyond the first 300 comments are left out",)


def test_thread_depth_is_limited_for_encoding() -> None:
    page = threads(items(story(1_000), *(item(number, number + 1) for number in range(1_000, 1_200))))
    assert page.warnings == ("replies below level 100 are left out",)
    assert orjson.dumps(page.records).count(b'"parent_id"') == 100


@given(st.dictionaries(st.integers(1, 12), st.lists(st.integers(1, 12), max_size=4), max_size=12))
def test_cyclic_threads_are_read_once(kids: dict[int, list[int]]) -> None:
    """Method: comments that refer to each other, or to themselves, at random."""
    upstream = items(story(*range(1, 5)), *(item(number, *below) for number, below in kids.items() if number != 7))
    page = threads(upstream)
    ids = [part.split(b'"')[0] for part in orjson.dumps(page.records).split(b'{"id":"')[1:]]
    assert len(ids) - ids.count(b"ada") == len(set(ids) - {b"ada"})


def test_newest_stories_and_jobs_come_from_algolia_by_date() -> None:
    asked: list[str] = []

    def answer(host_and_path: str, call: Call) -> Answer:
        asked.append(f"{host_and_path}{call.target('')}")
        return told({"hits": [{"objectID": "1"}], "page": 1, "nbPages": 3, "nbHits": 5_000_000})

    for resource, tag in (("new", "story"), ("jobs", "job")):
        page = drive(PLATFORM, resource, {"limit": 5}, answer, cursor={"p": 1}, rung_index=1)
        assert page == Page(page.records, next={"p": 2})  # type: ignore[union-attr] - it is a page
        expected = f"hn.algolia.com/api/v1/search_by_date/search_by_date?tags={tag}&page=1&hitsPerPage=5"
        assert asked.pop() == expected
