"""Discourse's reads that combine several lists.

Authors are listed apart from topics, and posts are sent in portions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from upstreams.model.archetypes import Record
from upstreams.model.calls import Get, Pages
from upstreams.model.fields import ident, obj, parts, rows
from upstreams.model.paging import ByPage
from upstreams.model.params import Args, Host, Param, limit
from upstreams.model.paths import Located
from upstreams.model.steps import Page, Single, Steps
from upstreams.platforms.discourse.records import (
    byline_of,
    found_post_of,
    found_topic_of,
    listed_topic_of,
    lone_comment_of,
    numbered_comment_of,
)

HOST = Host("host", default="meta.discourse.org")
POST_ID = Param("id", "The topic's number.", "7943", pattern=r"\d{1,18}")
POST_URL = Param(
    "url",
    "The topic's URL.",
    "https://meta.discourse.org/t/how-to-search/7943",
    type="url",
    forms=(r"([^/]+)/t/(?:[^/]*[^/\d][^/]*/)?(\d{1,18})(?:/.*)?",),
    pattern=r"[^/]+/\d{1,18}",
    problem="must be the URL of a topic, such as https://meta.discourse.org/t/how-to-search/7943",
)
ONE_TOPIC = Located(HOST, POST_URL, POST_ID)
COMMENT_ID = Param("id", "The post's number on the forum.", "31006", pattern=r"\d{1,18}")
COMMENT_URL = Param(
    "url",
    "The post's URL, with its position in the topic or its number.",
    "https://meta.discourse.org/t/how-to-search/7943/2",
    type="url",
    forms=(
        r"([^/]+)/(t)/(?:[^/]*[^/\d][^/]*/)?(\d{1,18})/(\d{1,18})(?:/.*)?",
        r"([^/]+)/p/(\d{1,18})(?:/.*)?",
    ),
    pattern=r"[^/]+/(?:t/\d{1,18}/)?\d{1,18}",
    problem="must be the URL of a post, such as https://meta.discourse.org/t/how-to-search/7943/2",
)
ONE_COMMENT = Located(HOST, COMMENT_URL, COMMENT_ID)
_PORTION = 20
"""The number of posts that a topic contains, which is also the maximum that one call can request."""
LIMIT = limit(_PORTION)
TOPIC = Get("/t/{id}.json", id=POST_ID)
_POSTS = Get("/t/{id}/posts.json", id=POST_ID)
_POST = Get("/posts/{id}.json").via(accepts=lone_comment_of)
_POST_AT = Get("/posts/by_number/{topic}/{place}.json").via(accepts=lone_comment_of)
TOPICS = Pages(
    listed_topic_of,
    ByPage("page", first=0, size="", size_max=30, more="topic_list.more_topics_url"),
    at="topic_list.topics",
)
QUERY = Param("query", "Search query. The forum's operators are supported.", "structured concurrency", required=True)
SEARCH = Get("/search.json", q=QUERY)
_FOUND = ByPage("page", size="", size_max=50, pages_max=10, more="grouped_search_result.more_full_page_results")
FOUND_TOPICS, FOUND_POSTS = Pages(found_topic_of, _FOUND, at="topics"), Pages(found_post_of, _FOUND, at="posts")


def topics(call: Get, args: Args) -> Steps:
    """Return a page of topics, with the author of each."""
    answer = yield replace(call.at(args, TOPICS), accepts="json")
    page = TOPICS.page(args, answer)
    users = {ident(user, "id"): user for user in parts(obj(answer.body), "users")}
    for record in page.records:
        author = record["author"]
        if author is not None and author["id"] in users:
            record["author"] = byline_of(users[author["id"]], args.values)
    return page


def comments(args: Args) -> Steps:
    """Return the replies in a topic, with at most one additional call for those that the topic does not contain.

    A topic contains the ids of all its posts, and its first posts in full. Those are not requested again, even if their
    ids differ from the list, because both are in the same order.
    """
    answer = yield TOPIC.at(args)
    stream = obj(obj(answer.body).get("post_stream"))
    known = rows(stream.get("posts"))
    start, size = args.position("o", 0), args.number("limit")
    every = [str(number) for number in _numbers(stream, known)]
    found = {number: one for one in known if (number := ident(one, "id")) is not None}
    if found.keys().isdisjoint(every):
        found = dict(zip(every, known, strict=False))
    numbers = every[1:]
    wanted = numbers[start : start + size]
    lacking = tuple(set(wanted) - found.keys())
    if lacking:
        more = yield replace(_POSTS.at(args), query={"post_ids[]": sorted(lacking, key=int)})
        known += (others := rows(obj(obj(more.body).get("post_stream")).get("posts")))
        found |= {number: one for one in others if (number := ident(one, "id")) is not None}
    records = [numbered_comment_of(found[number], args.values) for number in wanted if number in found]
    for record in records:
        record["parent_id"] = _parent(record, known)
    has_next = start + size < len(numbers)
    unread = len(all_rows) - len(numbers) - 1 if isinstance(all_rows := stream.get("stream"), list) else 0
    return Page(records, {"o": start + size} if has_next else None, None if unread else len(numbers))


def comment(args: Args) -> Steps:
    """Return one reply in a topic, given its number or its position in the topic."""
    number, _, place = args.text("id").removeprefix("t/").partition("/")
    answer = yield _POST_AT.at(args, topic=number, place=place) if place else _POST.at(args, id=number)
    return Single(lone_comment_of.read(answer.body, args.values))


def found_topics(args: Args) -> Steps:
    """Return the topics that match a search. If there are none, the body has no `topics` member."""
    answer = yield replace(SEARCH.at(args, FOUND_TOPICS), accepts="json")
    body = obj(answer.body)
    none: Any = {"topics": []} if "grouped_search_result" in body else {}
    return FOUND_TOPICS.page(args, answer._replace(body={**none, **body}))


def found_posts(args: Args) -> Steps:
    """Return the posts that match a search. The slug of each post's topic comes from the body's list of topics."""
    answer = yield replace(SEARCH.at(args, FOUND_POSTS), accepts="json")
    body = obj(answer.body)
    slugs = {ident(one, "id"): one.get("slug") for one in parts(body, "topics")}
    posts = [{**one, "topic_slug": slugs.get(ident(one, "topic_id"))} for one in rows(body.get("posts"))]
    return FOUND_POSTS.page(args, answer._replace(body={**body, "posts": posts}))


def _numbers(stream: dict[str, Any], known: list[dict[str, Any]]) -> list[int]:
    """Return the ids of all posts in a topic. A very long topic lists only the posts that it contains."""
    listed = stream.get("stream")
    numbers = listed if isinstance(listed, list) else [one.get("id") for one in known]
    return [number for number in numbers if type(number) is int and number > 0]


def _parent(record: Record, known: list[dict[str, Any]]) -> str | None:
    """Return the id of the parent post, given its position in the topic.

    If the parent is the first post, or if there is none, the topic itself is the parent.
    """
    number = record["parent_id"]
    if number in (None, "1"):
        return str(record["post_id"]) if record["post_id"] else None
    return next((ident(one, "id") for one in known if ident(one, "post_number") == number), None)
