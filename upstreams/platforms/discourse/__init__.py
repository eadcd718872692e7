"""Discourse: topics, posts, categories and accounts of any forum, from the JSON versions of its pages."""

from __future__ import annotations

from functools import partial

from upstreams.model.archetypes import AUTHOR, AUTHOR_LIST, COMMENT, COMMENT_LIST, POST, POST_LIST, byline
from upstreams.model.archetypes.shape import fields_of
from upstreams.model.calls import Get, Pages, listing, listing_by, single
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.paging import ByLastId, ByOffset, Whole
from upstreams.model.params import Param
from upstreams.model.paths import Within
from upstreams.model.refusals import Pace, Refusals
from upstreams.platforms.discourse import reads
from upstreams.platforms.discourse.reads import HOST, LIMIT, ONE_TOPIC, TOPIC
from upstreams.platforms.discourse.records import (
    action_of,
    byline_of,
    category_of,
    comment_of,
    listed_topic_of,
    lone_comment_of,
    member_of,
    numbered_comment_of,
    profile_of,
    topic_of,
)

_NAME = r"(?!\.\.?$)[^\s/\\?#%@]+"
"""The name of an account or a group, as a path segment."""
PERIOD = Param(
    "period",
    "Period to rank by.",
    "weekly",
    default="monthly",
    choices=("all", "yearly", "quarterly", "monthly", "weekly", "daily"),
)
CATEGORY = Param(
    "category",
    "The category's number, or its URL, which includes the host.",
    "67",
    required=True,
    forms=(r"([^/]+)/c/(?:[^/]+/)*?(\d{1,18})(?:/.*)?",),
    pattern=r"(?:[^/]+/)?\d{1,18}",
    problem="must be a number, such as 67",
)
HANDLE = Param(
    "handle",
    "The account's name, or its URL, which includes the host.",
    "codinghorror",
    required=True,
    strip="@",
    fold=True,
    forms=(r"([^/]+)/u(?:sers)?/([^/]+)(?:/.*)?",),
    pattern=rf"(?:[^/]+/)?{_NAME}",
)
GROUP = Param(
    "group",
    "The group's name, or its URL, which includes the host.",
    "team",
    required=True,
    fold=True,
    forms=(r"([^/]+)/g(?:roups)?/([^/]+)(?:/.*)?",),
    pattern=rf"(?:[^/]+/)?{_NAME}",
)
_CATEGORY, _ACCOUNT, _GROUP = (Within(HOST, one) for one in (CATEGORY, HANDLE, GROUP))

_JOINED_TOPIC = listed_topic_of.with_fields(author=byline_of.here())
"""Reads a topic after its author was added to the object."""


def _topics(*, resource: str, summary: str, call: Get, located: Within | None = None) -> Endpoint:
    return Endpoint(
        resource=resource,
        summary=summary,
        archetype=POST_LIST,
        read=partial(reads.topics, call),
        params=call.params,
        located=located,
        never=("total",),
        record=_JOINED_TOPIC,
    )


PLATFORM = Platform(
    slug="discourse",
    title="Discourse",
    category="forums",
    docs_url="https://docs.discourse.org",
    terms_url="https://meta.discourse.org/tos",
    checked_on="2026-11-23",
    sources={"forum": "https://{host}"},
    social=True,
    common=(HOST,),
    refusals=Refusals(
        code="error_type",
        absent={404: "", 410: "", 451: "", "not_found": ""},
        private=("invalid_access", "not_logged_in"),
        throttled=("rate_limit",),
        message="errors",
        stale={"invalid_parameters": "page"},
        bad={"invalid_parameters": {": q": "query", "\uff1aq": "query"}},
    ),
    pace=Pace(200, per_s=60),
    endpoints=(
        _topics(resource="posts", summary="Topics, most recently active first.", call=Get("/latest.json")),
        _topics(
            resource="posts/top", summary="The most active topics of a period.", call=Get("/top.json", period=PERIOD)
        ),
        # `-` stands for a slug. Discourse redirects to the real slug by replacing the requested part of the path
        # everywhere in the URL. If that part were only the number, an equal number in `page` would be replaced too.
        _topics(
            resource="category/posts",
            summary="Topics in a category.",
            call=Get("/c/-/{category}.json", category=CATEGORY),
            located=_CATEGORY,
        ),
        _topics(
            resource="profile/posts",
            summary="Topics by an account.",
            call=Get("/topics/created-by/{handle}.json", handle=HANDLE),
            located=_ACCOUNT,
        ),
        single(
            resource="post",
            summary="One topic, with the text of its first post.",
            archetype=POST,
            call=TOPIC,
            record=topic_of,
            located=ONE_TOPIC,
        ),
        Endpoint(
            resource="post/comments",
            summary="The replies in a topic, oldest first.",
            archetype=COMMENT_LIST,
            read=reads.comments,
            params=(LIMIT,),
            located=ONE_TOPIC,
            record=numbered_comment_of,
        ),
        Endpoint(
            resource="comment",
            summary="One reply in a topic.",
            archetype=COMMENT,
            read=reads.comment,
            located=reads.ONE_COMMENT,
            record=lone_comment_of,
        ),
        listing(
            resource="comments",
            summary="The latest posts in all topics.",
            archetype=COMMENT_LIST,
            call=Get("/posts.json"),
            pages=Pages(comment_of, ByLastId("before", size="", size_max=50), at="latest_posts"),
        ),
        listing(
            resource="categories",
            summary="The forum's categories.",
            archetype=AUTHOR_LIST,
            call=Get("/categories.json"),
            pages=Pages(category_of, Whole(), at="category_list.categories"),
        ),
        single(
            resource="profile",
            summary="One account.",
            archetype=AUTHOR,
            call=Get("/u/{handle}.json", handle=HANDLE),
            record=profile_of,
            located=_ACCOUNT,
        ),
        listing(
            resource="profile/comments",
            summary="Replies by an account, newest first, each with an excerpt.",
            archetype=COMMENT_LIST,
            call=Get("/user_actions.json", username=HANDLE, filter=5),
            pages=Pages(action_of, ByOffset("offset", size_max=60), at="user_actions"),
            located=_ACCOUNT,
        ),
        listing(
            resource="group/members",
            summary="Members of a group.",
            archetype=AUTHOR_LIST,
            call=Get("/groups/{group}/members.json", group=GROUP),
            pages=Pages(member_of, ByOffset("offset"), at="members"),
            located=_GROUP,
        ),
        listing_by(
            resource="search",
            summary="Search for topics.",
            archetype=POST_LIST,
            read=reads.found_topics,
            pages=reads.FOUND_TOPICS,
            params=(reads.QUERY,),
            never=tuple(f"author.{field.name}" for field in fields_of(byline)),
        ),
        listing_by(
            resource="search/comments",
            summary="Search for posts. Returns one post per topic, with the text around the match.",
            archetype=COMMENT_LIST,
            read=reads.found_posts,
            pages=reads.FOUND_POSTS,
            params=(reads.QUERY,),
        ),
    ),
)
