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


def _topics(resource: str, summary: str, call: Get, located: Within | None = None) -> Endpoint:
    return Endpoint(
        resource,
        summary,
        POST_LIST,
        partial(reads.topics, call),
        call.params,
        located=located,
        never=("total",),
        record=_JOINED_TOPIC,
    )


PLATFORM = Platform(
    slug="discourse",
    title="Discourse",
    sources={"forum": "https://{host}"},
    docs_url="https://docs.discourse.org",
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
        _topics("posts", "Topics, most recently active first.", Get("/latest.json")),
        _topics("posts/top", "The most active topics of a period.", Get("/top.json", period=PERIOD)),
        # `-` stands for a slug. Discourse redirects to the real slug by replacing the requested part of the path
        # everywhere in the URL. If that part were only the number, an equal number in `page` would be replaced too.
        _topics("category/posts", "Topics in a category.", Get("/c/-/{category}.json", category=CATEGORY), _CATEGORY),
        _topics(
            "profile/posts", "Topics by an account.", Get("/topics/created-by/{handle}.json", handle=HANDLE), _ACCOUNT
        ),
        single("post", "One topic, with the text of its first post.", POST, TOPIC, topic_of, located=ONE_TOPIC),
        Endpoint(
            "post/comments",
            "The replies in a topic, oldest first.",
            COMMENT_LIST,
            reads.comments,
            (LIMIT,),
            located=ONE_TOPIC,
            record=numbered_comment_of,
        ),
        Endpoint(
            "comment",
            "One reply in a topic.",
            COMMENT,
            reads.comment,
            located=reads.ONE_COMMENT,
            record=lone_comment_of,
        ),
        listing(
            "comments",
            "The latest posts in all topics.",
            COMMENT_LIST,
            Get("/posts.json"),
            Pages(comment_of, ByLastId("before", size="", size_max=50), "latest_posts"),
        ),
        listing(
            "categories",
            "The forum's categories.",
            AUTHOR_LIST,
            Get("/categories.json"),
            Pages(category_of, Whole(), "category_list.categories"),
        ),
        single("profile", "One account.", AUTHOR, Get("/u/{handle}.json", handle=HANDLE), profile_of, located=_ACCOUNT),
        listing(
            "profile/comments",
            "Replies by an account, newest first, each with an excerpt.",
            COMMENT_LIST,
            Get("/user_actions.json", username=HANDLE, filter=5),
            Pages(action_of, ByOffset("offset", size_max=60), "user_actions"),
            located=_ACCOUNT,
        ),
        listing(
            "group/members",
            "Members of a group.",
            AUTHOR_LIST,
            Get("/groups/{group}/members.json", group=GROUP),
            Pages(member_of, ByOffset("offset"), "members"),
            located=_GROUP,
        ),
        listing_by(
            "search",
            "Search for topics.",
            POST_LIST,
            reads.found_topics,
            reads.FOUND_TOPICS,
            params=(reads.QUERY,),
            never=tuple(f"author.{field.name}" for field in fields_of(byline)),
        ),
        listing_by(
            "search/comments",
            "Search for posts. Returns one post per topic, with the text around the match.",
            COMMENT_LIST,
            reads.found_posts,
            reads.FOUND_POSTS,
            params=(reads.QUERY,),
        ),
    ),
)
