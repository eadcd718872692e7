"""Stack Exchange: questions, answers, comments and accounts of all its sites, from its API."""

from __future__ import annotations

from upstreams.model.archetypes import AUTHOR, COMMENT_LIST, POST, POST_LIST
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import Param, limit
from upstreams.platforms.stackexchange.reads import (
    answers,
    comments,
    profile,
    profile_posts,
    question,
    questions,
    search,
)
from upstreams.platforms.stackexchange.refusals import backoff, judge, method_of

QUERY = Param("query", "What to search for, in titles and bodies.", "structured concurrency", required=True)
SEARCH_SORT = Param(
    "sort",
    "Order of the results.",
    "votes",
    default="relevance",
    choices=("relevance", "votes", "creation", "activity"),
)
TAGGED = Param("tagged", "Only questions with all of these tags, up to five with semicolons.", "python;trio")
SORT = Param(
    "sort",
    "Order: last active, most votes or newest first, or what is hot now, this week or this month.",
    "votes",
    default="activity",
    choices=("activity", "votes", "creation", "hot", "week", "month"),
)
QUESTION_ID = Param("id", "The question's number.", "11227809", required=True, length_max=20)
USER_ID = Param("user_id", "The account's number on the site.", "22656", required=True, length_max=20)
SITE = Param(
    "site",
    "The site, as in its address: stackoverflow, superuser, math, meta.stackoverflow.",
    "askubuntu",
    default="stackoverflow",
    length_max=100,
)
LIMIT = limit(100)

PLATFORM = Platform(
    slug="stackexchange",
    title="Stack Exchange",
    sources={"api": "https://api.stackexchange.com/2.3"},
    docs_url="https://api.stackexchange.com/docs",
    credentials=("key",),
    social=True,
    judge=judge,
    backoff=backoff,
    method_of=method_of,
    endpoints=(
        Endpoint(
            "search", "Questions by query.", POST_LIST, search, (QUERY, SEARCH_SORT, SITE, LIMIT), cache_ttl_s=120
        ),
        Endpoint("questions", "A site's questions, also by tag.", POST_LIST, questions, (TAGGED, SORT, SITE, LIMIT)),
        Endpoint("question", "One question.", POST, question, (QUESTION_ID, SITE)),
        Endpoint(
            "question/answers",
            "A question's answers, the most votes first; the accepted one is pinned.",
            COMMENT_LIST,
            answers,
            (QUESTION_ID, SITE, LIMIT),
            cache_ttl_s=300,
        ),
        Endpoint(
            "question/comments",
            "The comments on a question itself, oldest first.",
            COMMENT_LIST,
            comments,
            (QUESTION_ID, SITE, LIMIT),
            cache_ttl_s=300,
        ),
        Endpoint("profile", "One account on a site.", AUTHOR, profile, (USER_ID, SITE), cache_ttl_s=900),
        Endpoint(
            "profile/posts", "An account's questions, newest first.", POST_LIST, profile_posts, (USER_ID, SITE, LIMIT)
        ),
    ),
)
