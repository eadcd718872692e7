"""Responses of composites with handmade legs, checked value by value. Every number was calculated on paper."""

from __future__ import annotations

from typing import Any

import pytest

from tests.upstreams.composites.playing import (
    ABSENT,
    FAILED,
    Answered,
    endpoint,
    page,
    play,
    play_page,
    play_single,
    single,
)
from upstreams.composites.addresses import canonical_url
from upstreams.model.archetypes import Record, author, byline, comment, post
from upstreams.model.errors import InvalidArgument, PartUnavailable, UpstreamFailed
from upstreams.model.steps import Missing, Part, Round


def found(id_: str, link: str | None = None, url: str = "", **more: Any) -> Record:
    ext = {} if link is None else {"link": link}
    return post(id=id_, url=url or f"https://x.test/{id_}", text=more.pop("text", None), author=None, ext=ext, **more)


def test_everywhere_uses_reciprocal_rank_fusion() -> None:
    legs: dict[str, Answered] = {
        "hackernews": page(found("h1", "https://www.trio.io/a/?utm_source=hn"), found("h2"), following={"p": 1}),
        "lemmy": page(found("l1"), found("l2"), found("l3", "http://trio.io/a#top")),
        "mastodon": page(found("m1")),
        "stackexchange": FAILED,
        "github": ABSENT,
    }
    result = play_page(
        "search/everywhere",
        {"query": "trio", "platforms": "hackernews,lemmy,mastodon,stackexchange,github"},
        lambda part: legs[part.platform],
    )
    told = [(row["post"]["id"], row["platform"], row["score"]) for row in result.records]
    assert told == [
        ("h1", "hackernews", 0.032266),  # 1/61 + 1/63
        ("l1", "lemmy", 0.016393),  # 1/61
        ("h2", "hackernews", 0.016129),  # 1/62
        ("l2", "lemmy", 0.016129),
        ("m1", "mastodon", 0.008197),  # 0.5/61
    ]
    assert [(one["platform"], one["rank"], one["id"]) for one in result.records[0]["found_in"]] == [
        ("hackernews", 1, "h1"),
        ("lemmy", 3, "l3"),
    ]
    assert result.beside is not None
    assert {slug: len(rows) for slug, rows in result.beside["items_by_source"].items()} == {
        "hackernews": 2,
        "lemmy": 3,
        "mastodon": 1,
    }
    assert result.next == {
        "hackernews": '{"p":1}',
        "stackexchange": "null",
        "seen": '{"hackernews":2,"stackexchange":0}',
    }

    asked: list[Part] = []

    def second(part: Part) -> Answered:
        asked.append(part)
        return page(found(f"{part.platform}9"))

    later = play_page("search/everywhere", {"query": "trio", "limit": 10}, second, cursor=result.next)
    assert [(part.platform, part.cursor) for part in asked] == [("hackernews", {"p": 1}), ("stackexchange", None)]
    assert [(row["platform"], row["score"]) for row in later.records] == [
        ("stackexchange", 0.016393),  # 1/61: the platform failed before, so this is its first page
        ("hackernews", 0.015873),  # 1/63: its third row, since its first page had two, whatever size was requested
    ]
    assert later.next is None


def test_duplicate_row_of_a_platform_counts_once_at_its_better_rank() -> None:
    """Goal: a page that is submitted ten times does not get a higher rank."""
    twice = page(found("h1"), found("h2", "https://trio.io/a"), found("h3", "https://www.trio.io/a/"))
    legs: dict[str, Answered] = {"hackernews": twice, "lemmy": page(found("l1"), found("l2", "https://trio.io/a"))}
    values = {"query": "trio", "platforms": "hackernews,lemmy"}
    result = play_page("search/everywhere", values, lambda part: legs[part.platform])
    row = result.records[0]
    assert (row["post"]["id"], row["score"]) == ("h2", 0.032258)  # 1/62 + 1/62, without another 1/63
    assert [(one["platform"], one["rank"]) for one in row["found_in"]] == [
        ("hackernews", 2),
        ("lemmy", 2),
        ("hackernews", 3),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://www.example.org/a/?utm_source=x&b=2&a=1#c", "http://example.org/a?a=1&b=2"),
        ("https://m.example.org/a", "https://example.org:443/a/"),
        ("https://EXAMPLE.org", "https://example.org/"),
    ],
)
def test_url_spellings_share_a_canonical_form(one: str, other: str) -> None:
    assert canonical_url(one) == canonical_url(other)


def test_non_urls_have_no_canonical_form() -> None:
    assert [canonical_url(one) for one in (None, "", "mailto:x@y.org", "https://", "https://x:y/")] == [None] * 5
    assert canonical_url("https://example.org/a?id=1") != canonical_url("https://example.org/a?id=2")


def test_card_has_entries_per_platform_and_totals() -> None:
    legs: dict[str, Answered] = {
        "github": single(author(id="1", username="ada", followers=10, posts_count=3)),
        "mastodon": single(author(id="2", username="ada", followers=5, following=7, likes_count=2)),
        "lemmy": ABSENT,
        "bluesky": FAILED,
    }
    result = play_single(
        "prism/creator-card", {"handle": "ada", "platforms": ",".join(legs)}, lambda part: legs[part.platform]
    )
    assert result.record["found_on"] == ["github", "mastodon"]
    assert {slug: card and card["id"] for slug, card in result.record["cards"].items()} == {
        "bluesky": None,
        "github": "1",
        "lemmy": None,
        "mastodon": "2",
    }
    assert result.record["totals"] == {
        "platforms": 2,
        "followers": 15,
        "following": 7,
        "posts_count": 3,
        "likes_count": 2,
    }


def test_missing_platform_is_reported_and_free() -> None:
    unavailable = Missing("x", "x", failure=PartUnavailable("tiktok", "the platform is not served by this node"))
    here = single(author(id="1", username="ada", followers=10))
    values = {"handle": "ada", "platforms": "github,tiktok,instagram,twitter,threads"}
    result = play_single("prism/creator-card", values, lambda part: here if part.platform == "github" else unavailable)
    assert (result.record["found_on"], result.record["cards"]["tiktok"]) == (["github"], None)
    assert {leg.endpoint for leg in result.legs} == {
        "github/profile", "tiktok/profile", "instagram/profile", "twitter/profile", "threads/profile"
    }  # fmt: skip
    price = endpoint("prism/creator-card").price
    assert price is not None
    assert price.span(values) == (5, 5), "four of the five are free"
    assert price.span({"platforms": "bluesky,github,gitlab,lemmy,mastodon"}) == (6, 6)


def said(id_: str, at: str, text: str) -> Record:
    return found(id_, text=text, published_at=at)


def test_voice_merges_timelines_and_detects_cross_posts() -> None:
    shared = "Our new release is great, see {} for the notes"
    legs: dict[str, Answered] = {
        "bluesky": page(
            said("b1", "2024-12-30T00:00:00Z", shared.format("https://a.test")),
            said("b2", "2024-12-16T00:00:00Z", "The build is broken and slow, I hate it"),
        ),
        "mastodon": page(
            said("m1", "2024-12-23T00:00:00Z", shared.format("https://b.test").upper()),
            said("m2", "2024-12-20T00:00:00Z", "short"),
            following={"c": "x"},
        ),
        "lemmy": ABSENT,
        "telegram": FAILED,
    }
    result = play_single(
        "prism/voice", {"handle": "ada", "platforms": ",".join(legs)}, lambda part: legs[part.platform]
    )
    record = result.record
    assert [(row["platform"], row["post"]["id"]) for row in record["merged_timeline"]] == [
        ("bluesky", "b1"),
        ("mastodon", "m1"),
        ("mastodon", "m2"),
        ("bluesky", "b2"),
    ]
    assert record["platform_presence"] == {"bluesky": True, "lemmy": False, "mastodon": True, "telegram": None}
    assert record["posts_by_platform"]["lemmy"] is record["posts_by_platform"]["telegram"] is None
    computed = record["computed"]
    assert (computed["posts"], computed["cross_post_rate"]) == (4, 0.6667)  # two of the three long posts
    assert computed["posts_per_week"] == 1.5  # three gaps in two weeks
    assert (computed["tone"]["positive"], computed["tone"]["negative"]) == (2, 1)
    assert record["has_more_by_platform"] == {"bluesky": False, "lemmy": False, "mastodon": True, "telegram": False}
    assert result.next == {"mastodon": '{"c":"x"}', "telegram": "null"}


def test_full_profile_has_post_figures() -> None:
    posts = [
        found("1", likes=6, comments=2, shares=2, views=100, published_at="2024-12-30T00:00:00Z", duration_seconds=9.0),
        found("2", likes=4, published_at="2024-12-23T00:00:00Z", media_urls=["https://x.test/i.png"]),
        found("3", published_at="2024-12-16T00:00:00Z"),
        found("4", "https://y.test", likes=500, published_at="2024-12-09T00:00:00Z"),
    ]
    asked: list[Part] = []

    def answer(part: Part) -> Answered:
        asked.append(part)
        if part.resource == "profile":
            return single(author(id="7", followers=200))
        return page(*posts[2:]) if part.cursor else page(*posts[:2], following={"c": "b"})

    result = play_single("mastodon/profile/full", {"handle": "ada", "posts": 100}, answer)
    assert [(part.resource, part.cursor) for part in asked] == [
        ("profile", None),
        ("profile/posts", None),
        ("profile/posts", {"c": "b"}),
    ]
    computed = result.record["computed"]
    assert computed["average_engagement_rate"] == 0.06  # 10/100 and 4/200; 500 likes with 200 followers give no rate
    assert computed["posts_per_week"] == 1.0
    assert computed["window"] == {
        "begins_at": "2024-12-09T00:00:00Z",
        "ends_at": "2024-12-30T00:00:00Z",
        "days": 21.0,
        "posts": 4,
    }
    assert computed["top_post"]["id"] == "4"
    assert computed["format_mix"] == {"image": 0.25, "link": 0.25, "text": 0.25, "video": 0.25}
    assert result.next is None


def test_full_profile_without_posts_has_nulls() -> None:
    legs: dict[str, Answered] = {"profile": single(author(id="7")), "profile/posts": FAILED}
    result = play_single("mastodon/profile/full", {"handle": "ada"}, lambda part: legs[part.resource])
    assert (result.record["posts"], result.record["computed"]) == (None, None)


def noted(id_: str, likes: int | None, at: str, replies: tuple[Record, ...] = (), **more: Any) -> Record:
    return comment(
        id=id_, parent_id=more.pop("parent", "9"), post_id="9", text=id_, author=byline(id="u"), likes=likes,
        published_at=at, replies=list(replies), **more,
    )  # fmt: skip


THREAD = "https://framatube.org/w/kkGMgK9ZtnKfYAgnEtQxbv"
FIRST = noted("a", 3, "2024-01-01T00:00:00Z", replies_count=2)
SECOND = noted("b", None, "2024-01-03T00:00:00Z", (noted("b1", 9, "2024-01-04T00:00:00Z", parent="b"),))
THIRD = noted("c", 5, "2024-01-02T00:00:00Z")


def thread(part: Part) -> Answered:
    """There are two pages of comments. The first page has two replies on a page of their own."""
    if part.resource == "video/comment/replies":
        assert part.values["comment_id"] == "a"
        return page(
            noted("a1", 1, "2024-01-05T00:00:00Z", parent="a"), noted("a2", 1, "2024-01-06T00:00:00Z", parent="a")
        )
    return page(THIRD) if part.cursor else page(FIRST, SECOND, following={"o": 2})


def test_comments_are_read_with_replies_and_sorted() -> None:
    rounds: list[Round] = []
    result = play_page("prism/comments", {"url": THREAD, "sort": "top", "limit": 2}, thread, rounds=rounds)
    assert [one["id"] for one in result.records] == ["c", "a"]
    assert [one["id"] for one in result.records[1]["replies"]] == ["a1", "a2"]
    assert result.beside is not None
    assert (result.beside["returned"], result.beside["scanned"], result.beside["sorted_by"]) == (2, 6, "likes_desc")
    assert (result.credits_used, result.next, result.warnings) == (3, None, ())
    assert [(one.pages, one.items) for one in rounds] == [(1, 3), (2, 5), (3, 6)]
    assert len(result.legs) == 3


@pytest.mark.parametrize("sort", ["top", "recent"])
@pytest.mark.parametrize("limit", [1, 5_000])
def test_sort_and_limit_do_not_change_the_calls(sort: str, limit: int) -> None:
    result = play_page("prism/comments", {"url": THREAD, "sort": sort, "limit": limit, "replies": False}, thread)
    assert result.credits_used == 2
    assert result.beside is not None
    assert result.beside["scanned"] == 4
    assert all(one["replies"] == [] for one in result.records)


def test_comment_walk_ends_at_max_and_continues_by_cursor() -> None:
    result = play_page("prism/comments", {"url": THREAD, "max": 2, "replies": False}, thread)
    assert [one["id"] for one in result.records] == ["b", "a"]
    assert result.next == {"at": 0, "of": '{"o":2}'}
    later = play_page("prism/comments", {"url": THREAD, "replies": False}, thread, cursor=result.next)
    assert ([one["id"] for one in later.records], later.next) == (["c"], None)


def test_failed_page_ends_the_walk_and_its_cursor_retries_it() -> None:
    result = play_page(
        "prism/comments", {"url": THREAD, "replies": False}, lambda part: FAILED if part.cursor else thread(part)
    )
    assert [one["id"] for one in result.records] == ["b", "a"]
    assert result.next == {"at": 0, "of": '{"o":2}'}
    assert result.warnings == ("comments read: 3; page 2 could not be read",)
    with pytest.raises(UpstreamFailed):
        play("prism/comments", {"url": THREAD}, lambda _part: FAILED)


def test_url_without_comments_is_refused_before_any_call() -> None:
    with pytest.raises(InvalidArgument, match="does not lead to a post"):
        play("prism/comments", {"url": "https://github.com/torvalds"}, thread)


def test_omni_search_expands_first_threads_and_sums_communities() -> None:
    posts = [
        post(id=str(number), url=None, text=text, author=None, likes=likes, comments=1, ext={"community": name})
        for number, text, likes, name in (
            (1, "This is a great library and we love it", 2, "python"),
            (2, "This is a terrible and broken thing", 9, "python"),
            (3, "Nothing of note is in here at all", 4, "rust"),
        )
    ]
    asked: list[Part] = []

    def answer(part: Part) -> Answered:
        asked.append(part)
        if part.resource == "search":
            return page(*posts, following={"p": 2})
        return FAILED if part.values["id"] == "3" else page(noted("x", 1, "2024-01-01T00:00:00Z"))

    result = play_page("lemmy/omni-search", {"query": "trio", "threads": 2, "sort": "top"}, answer)
    assert [part.values.get("id") for part in asked] == [None, "2", "3"]
    assert [(row["post"]["id"], row["comments"] and len(row["comments"])) for row in result.records] == [
        ("2", 1),
        ("3", None),
        ("1", None),
    ]
    assert (result.credits_used, result.next) == (5, {"p": 2})
    assert result.beside is not None
    python, rust = result.beside["communities"]
    assert (python["name"], python["posts"], python["likes"], python["comments"]) == ("python", 2, 11, 2)
    assert (python["tone"]["positive"], python["tone"]["negative"], python["tone"]["positive_share"]) == (1, 1, 0.5)
    assert (rust["name"], result.beside["threads_expanded"]) == ("rust", 1)
