"""Hacker News: the records that its answers become, the errors that its refusals become, and where its lists end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson
import pytest

from tests.platforms.case import drive, from_sandbox, recorded, walk
from tests.platforms.drive import Upstream, always, page_of, single_of, told, watched
from tests.platforms.hackernews import cases
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamFailed
from upstreams.model.steps import Answer, Call, Page
from upstreams.platforms.hackernews import PLATFORM

Json = dict[str, Any]
Params = Mapping[str, str | int]

FRONT_PAGES = {
    "top": "topstories",
    "new": "newstories",
    "best": "beststories",
    "ask": "askstories",
    "show": "showstories",
    "jobs": "jobstories",
}
LISTS: Mapping[str, Params] = {
    "search": {"query": "parsers"},
    "story/comments": {"id": "31000000"},
    **{resource: {} for resource in FRONT_PAGES},
}


def record(resource: str, params: Params, upstream: Upstream) -> Json:
    return single_of(PLATFORM, resource, params, upstream).record


page = partial(page_of, PLATFORM)


def by_path(bodies: Mapping[str, Any]) -> Upstream:
    """Return an upstream that chooses its answer by the end of the path.

    For any other path, it returns a server error.
    """

    def answer(host_and_path: str, _call: Call) -> Answer:
        found = next((end for end in bodies if host_and_path.endswith(end)), None)
        return told("", 500) if found is None else told(bodies[found])

    return answer


def calls_of(resource: str, params: Params, upstream: Upstream, **more: Any) -> list[tuple[str, Call]]:
    """Return the calls that a read makes, by host and path."""
    made, noting = watched(upstream)
    drive(PLATFORM, resource, params, noting, **more)
    return made


def searched(params: Params, **more: Any) -> tuple[str, Call]:
    (call,) = calls_of("search", params, always({"hits": []}), **more)
    return call


# The recordings


@pytest.mark.parametrize("file", ["126809_poll", "192327_job", "8863_story", "2921983_comment"])
def test_recorded_firebase_item_matches_its_table(file: str) -> None:
    item = recorded("hackernews", f"firebase_item_{file}.json").body
    upstream = by_path({"/topstories.json": [item["id"]], f"/item/{item['id']}.json": item})
    published_at = datetime.fromtimestamp(item["time"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert page("top", {}, upstream).records == [{**cases.post(item), "published_at": published_at}]


def test_recorded_middle_page_leads_to_the_next() -> None:
    body = recorded("hackernews", "algolia_search__tags_ask_hn__page_2__query_apple.json").body
    assert page("search", {"query": "apple"}, always(body), cursor={"p": 2}).next == {"p": 3}


def test_profile_date_comes_from_firebase() -> None:
    user = recorded("hackernews", "firebase_user_jl.json").body
    algolia = {"username": "jl", "about": user["about"], "karma": user["karma"]}
    found = record("profile", {"handle": "jl"}, by_path({"/users/jl": algolia, "/v0/user/jl.json": user}))
    assert found == {**cases.author(user), "joined_at": "2007-03-15T01:50:46Z"}


@pytest.mark.parametrize("other", [None, "", [], {"id": "jl"}])
def test_profile_without_a_date_is_returned(other: Any) -> None:
    bodies = {"/users/jl": {"username": "jl", "karma": 1}, "/v0/user/jl.json": other}
    assert record("profile", {"handle": "jl"}, by_path(bodies))["joined_at"] is None
    assert record("profile", {"handle": "jl"}, by_path({"/users/jl": bodies["/users/jl"]}))["joined_at"] is None


def test_firebase_is_not_called_if_algolia_has_the_date() -> None:
    body = {"username": "pg", "created_at": "2006-10-09T18:21:32.000Z"}
    assert [path for path, _ in calls_of("profile", {"handle": "@pg"}, always(body))] == [
        "hn.algolia.com/api/v1/users/pg"
    ]


# Search


@pytest.mark.parametrize(
    ("params", "path", "query"),
    [
        ({"query": "trio"}, "search", {"query": "trio", "tags": "story"}),
        ({"query": "*", "tags": "author_pg"}, "search", {"tags": "author_pg"}),
        ({"query": "trio", "sort": "recent"}, "search_by_date", {"query": "trio", "tags": "story"}),
        (
            {"query": "*", "since": "2024-01-31", "until": "2024-02-01T01:00:00+01:00"},
            "search",
            {"tags": "story", "numericFilters": "created_at_i>=1706659200,created_at_i<1706745600"},
        ),
        (
            {"query": "*", "min_points": 100, "min_comments": 0},
            "search",
            {"tags": "story", "numericFilters": "points>=100,num_comments>=0"},
        ),
    ],
)
def test_search_uses_algolias_parameters(params: Params, path: str, query: Params) -> None:
    host_and_path, call = searched(params)
    assert host_and_path == f"hn.algolia.com/api/v1/{path}"
    sent = {name: value for name, value in call.query.items() if value is not None}
    assert sent == {**query, "page": 0, "hitsPerPage": 20}


def test_later_page_is_requested_by_number() -> None:
    assert searched({"query": "trio", "limit": 7}, cursor={"p": 4})[1].target("").endswith("page=4&hitsPerPage=7")


@pytest.mark.parametrize(
    "tags", ["story", "(story,poll)", "comment,author_some-one_1", "(story,poll),(show_hn,ask_hn)"]
)
def test_tags_allow_commas_and_parentheses(tags: str) -> None:
    assert searched({"query": "*", "tags": tags})[1].query["tags"] == tags


@pytest.mark.parametrize("tags", ["(story", "story,", ",", "()", "a b", "((story))", "story)(", "écrit"])
def test_invalid_tags_are_refused_before_any_call(tags: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        searched({"query": "*", "tags": tags})
    assert refusal.value.param == "tags"


@pytest.mark.parametrize("name", ["since", "until"])
def test_invalid_time_is_refused_before_any_call(name: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        searched({"query": "*", name: "last week"})
    assert refusal.value.param == name


@pytest.mark.parametrize(
    ("asked", "told_page", "pages", "following"),
    [
        (0, 0, 1, None),
        (0, 0, 0, None),
        (0, 0, 2, {"p": 1}),
        (1, 1, 2, None),
        (3, 0, 9, {"p": 4}),
        (0, None, None, None),
    ],
)
def test_pages_count_from_zero_up_to_the_page_count(
    asked: int, told_page: int | None, pages: int | None, following: Params | None
) -> None:
    body = {"hits": [], "nbHits": 3, "page": told_page, "nbPages": pages}
    found = page("search", {"query": "trio"}, always(body), cursor={"p": asked})
    assert (found.next, found.total) == (following, 3)


def test_found_comment_is_a_post_with_its_story() -> None:
    hit = {
        "_tags": ["comment", "author_ada", "story_7"],
        "author": "ada",
        "comment_text": "It&#x27;s <i>fine</i>.<p>Really.",
        "created_at_i": 1_706_659_200,
        "objectID": "9",
        "parent_id": 8,
        "story_id": 7,
        "story_title": "R&amp;D at <Vec>",
        "_highlightResult": {"comment_text": {"value": "<em>fine</em>"}},
    }
    [found] = page("search", {"query": "fine", "tags": "comment"}, always({"hits": [hit]})).records
    assert found["content"]["text"] == "It's fine.\nReally."
    assert found["published_at"] == "2024-01-31T00:00:00Z"
    assert found["ext"] == {
        "link": None,
        "type": "comment",
        "parent_id": "8",
        "story_id": "7",
        "story_title": "R&D at <Vec>",
    }


def test_title_is_text_and_keeps_apparent_markup() -> None:
    hit = {"objectID": "1", "title": "Vec<T> &amp; friends", "story_text": "<b>Why?</b>"}
    [found] = page("search", {"query": "vec"}, always({"hits": [hit]})).records
    assert found["content"]["text"] == "Vec<T> & friends\n\nWhy?"


# Stories and their threads


@pytest.mark.parametrize("kind", ["comment", "pollopt"])
@pytest.mark.parametrize("resource", ["story", "story/comments"])
def test_number_that_is_not_a_story_is_not_found(resource: str, kind: str) -> None:
    with pytest.raises(NotFound):
        drive(PLATFORM, resource, {"id": "8863"}, always({"id": 8863, "type": kind, "children": []}))


def test_story_is_read_from_an_item_with_its_thread() -> None:
    item = {
        "id": 8863,
        "created_at": "2007-04-04T19:16:40.000Z",
        "type": "story",
        "author": "dhouston",
        "title": "My YC app",
        "url": "http://www.example.com/",
        "text": None,
        "points": 111,
        "parent_id": None,
        "story_id": 8863,
        "children": [{"id": 1, "text": "Nice"}],
        "options": [],
    }
    assert record("story", {"id": "8863"}, always(item)) == cases.post(item)


def _thread(comment_id: int, *children: Json, **more: Any) -> Json:
    words = {"author": "ada", "text": f"Comment <i>{comment_id}</i>"}
    return {"id": comment_id, "type": "comment", "story_id": 7, "children": list(children), **words, **more}


def test_comments_include_their_replies() -> None:
    story = {"id": 7, "type": "story", "children": [_thread(8, _thread(9, parent_id=8), parent_id=7)]}
    [found] = page("story/comments", {"id": "7"}, always(story)).records
    assert found == {
        "id": "8",
        "url": "https://news.ycombinator.com/item?id=8",
        "parent_id": "7",
        "post_id": "7",
        "text": "Comment 8",
        "author": cases.byline("ada"),
        "engagement": {"likes": None, "replies": None},
        "flags": {"pinned": None, "deleted": None},
        "published_at": None,
        "replies": found["replies"],
        "ext": {},
    }
    [reply] = found["replies"]
    assert (reply["id"], reply["parent_id"], reply["post_id"], reply["replies"]) == ("9", "8", "7", [])


@pytest.mark.parametrize(
    "gone",
    [
        {"text": None, "author": None},
        {"deleted": True},
        {"dead": True, "text": "[flagged]"},
        {"deleted": True, "dead": False, "author": "ada"},
    ],
)
def test_deleted_comment_is_a_tombstone_with_replies(gone: Json) -> None:
    story = {"id": 7, "type": "story", "children": [_thread(8, _thread(9), **gone)]}
    [found] = page("story/comments", {"id": "7"}, always(story)).records
    assert (found["text"], found["author"], found["flags"]["deleted"]) == (None, None, True)
    assert [reply["flags"]["deleted"] for reply in found["replies"]] == [None]


def test_comments_are_paged_by_offset_over_threads() -> None:
    upstream = always({"id": 7, "type": "story", "children": [_thread(number) for number in range(5)]})
    pages = [page("story/comments", {"id": "7", "limit": 2}, upstream, cursor={"o": start}) for start in (0, 2, 4, 6)]
    assert [[found["id"] for found in part.records] for part in pages] == [["0", "1"], ["2", "3"], ["4"], []]
    assert [part.next for part in pages] == [{"o": 2}, {"o": 4}, None, None]


@pytest.mark.parametrize("children", [[], None])
def test_story_without_comments_has_an_empty_list(children: Any) -> None:
    assert page("story/comments", {"id": "7"}, always({"id": 7, "type": "story", "children": children})) == Page([])


@pytest.mark.parametrize(("levels", "warned"), [(100, False), (101, True), (400, True)])
def test_thread_is_read_to_100_levels_with_a_warning(levels: int, warned: bool) -> None:
    node = _thread(levels)
    for number in range(levels - 1, 0, -1):
        node = _thread(number, node)
    found = page("story/comments", {"id": "7"}, always({"id": 7, "type": "story", "children": [node]}))
    assert found.warnings == (("replies below level 100 are left out",) if warned else ())
    assert orjson.dumps(found.records).count(b'"id"') // 2 == min(levels, 100)  # each level has an item and an author


# The front pages


def _items(*numbers: int) -> dict[str, Any]:
    return {f"/item/{n}.json": {"id": n, "type": "story", "title": f"Story {n}"} for n in numbers}


@pytest.mark.parametrize(("resource", "name"), FRONT_PAGES.items())
def test_front_page_requests_the_list_and_its_items(resource: str, name: str) -> None:
    upstream = by_path({f"/{name}.json": [3, 1, 2], **_items(1, 2, 3)})
    made = calls_of(resource, {"limit": 2}, upstream)
    base = "hacker-news.firebaseio.com/v0"
    assert [path for path, _ in made] == [f"{base}/{name}.json", f"{base}/item/3.json", f"{base}/item/1.json"]
    found = page(resource, {"limit": 2}, upstream)
    assert ([post["id"] for post in found.records], found.next, found.warnings) == (["3", "1"], {"o": 2}, ())
    last = page(resource, {"limit": 2}, upstream, cursor={"o": 2})
    assert ([post["id"] for post in last.records], last.next) == (["2"], None)


def test_deleted_items_are_skipped_and_counted() -> None:
    upstream = by_path({"/topstories.json": [1, 2, 3], **_items(1, 3), "/item/2.json": None})
    found = page("top", {}, upstream)
    assert [post["id"] for post in found.records] == ["1", "3"]
    assert found.warnings == ("1 of 3 items left out: The upstream returned no data.",)


def test_unreadable_items_do_not_affect_others() -> None:
    found = page("top", {}, by_path({"/topstories.json": [1, 2, 3], **_items(2), "/item/3.json": "gone"}))
    assert [post["id"] for post in found.records] == ["2"]
    assert found.warnings[0].startswith("2 of 3 items left out: ")


def test_deleted_front_page_item_is_flagged() -> None:
    bodies = {
        "/topstories.json": [1, 2],
        "/item/1.json": {"id": 1, "deleted": True},
        "/item/2.json": {"id": 2, "dead": False},
    }
    assert [post["flags"]["deleted"] for post in page("top", {}, by_path(bodies)).records] == [True, False]


def test_shortened_list_ends_early() -> None:
    assert page("top", {}, by_path({"/topstories.json": [1, 2]}), cursor={"o": 20}) == Page([])
    assert page("top", {}, by_path({"/topstories.json": []})) == Page([])


# Missing and unreadable values


def test_negative_count_is_null_but_points_may_be_negative() -> None:
    story = record("story", {"id": "1"}, always({"id": 1, "descendants": -1, "points": -3}))
    assert (story["engagement"]["comments"], story["engagement"]["likes"]) == (None, -3)


def test_empty_hit_does_not_affect_others() -> None:
    names = ("title", "url", "author", "points", "num_comments", "story_text", "created_at", "created_at_i", "_tags")
    empty = {"objectID": "2", **dict.fromkeys(names), "children": None}
    hits = [{"objectID": "1", "title": "One"}, None, empty, [], "gone", {"objectID": "3", "title": "Three"}]
    found = page("search", {"query": "trio"}, always({"hits": hits, "nbHits": None, "nbPages": None, "page": None}))
    assert [post["id"] for post in found.records] == ["1", "2", "3"]
    assert (found.next, found.total) == (None, None)


@pytest.mark.parametrize(
    ("resource", "params", "body"),
    [
        ("search", {"query": "trio"}, {"nbHits": 0}),
        ("search", {"query": "trio"}, {"hits": {}}),
        ("search", {"query": "trio"}, []),
        ("story", {"id": "1"}, [1]),
        ("story/comments", {"id": "1"}, "<html>Sorry</html>"),
        ("story/comments", {"id": "1"}, {}),
        ("story/comments", {"id": "1"}, {"hits": []}),
        ("story/comments", {"id": "1"}, {"id": 1, "children": {"0": {"id": 2}}}),
        ("story/comments", {"id": "1"}, {"id": 1, "children": "none"}),
        ("profile", {"handle": "ada"}, 5),
        ("top", {}, {"1": 2}),
        ("top", {}, "<html>Sorry</html>"),
    ],
)
def test_unexpected_body_is_an_upstream_failure(resource: str, params: Params, body: Any) -> None:
    with pytest.raises(UpstreamFailed):
        drive(PLATFORM, resource, params, always(body))


# The stand-in


def test_sandbox_story_is_the_same_in_every_call() -> None:
    for found in [*page("search", {"query": "x"}, from_sandbox()).records, *page("top", {}, from_sandbox()).records]:
        story = record("story", {"id": found["id"]}, from_sandbox())
        text = found["content"]["text"].replace("x: ", "", 1)  # the words of the query occur in each search result
        assert (story["content"], story["author"], story["published_at"]) == (
            {**found["content"], "text": text},
            found["author"],
            found["published_at"],
        )


def test_sandbox_finds_stories_in_the_requested_days() -> None:
    asked = {"query": "trio", "since": "2026-01-30", "until": "2026-02-02", "sort": "recent"}
    found = page("search", asked, from_sandbox()).records
    assert found
    assert all("2026-01-30" <= one["published_at"][:10] <= "2026-02-01" for one in found)
    assert all("trio" in one["content"]["text"] for one in found)
    assert [one["published_at"] for one in found] == sorted((one["published_at"] for one in found), reverse=True)


def test_sandbox_comments_are_not_stories() -> None:
    found = page("search", {"query": "x", "tags": "comment"}, from_sandbox()).records[0]
    assert found["ext"]["type"] == "comment"
    thread = page("story/comments", {"id": found["ext"]["story_id"]}, from_sandbox()).records
    assert (thread[0]["id"], thread[0]["text"]) == (found["id"], found["content"]["text"])
    with pytest.raises(NotFound):
        record("story", {"id": found["id"]}, from_sandbox())


def test_sandbox_thread_is_nested_and_has_a_tombstone() -> None:
    threads = page("story/comments", LISTS["story/comments"], from_sandbox()).records
    assert any(found["flags"]["deleted"] for found in threads)
    assert any(found["replies"] for found in threads)


def test_sandbox_list_has_a_deleted_item() -> None:
    assert any(found.warnings for found in walk(PLATFORM, "top", {}))
