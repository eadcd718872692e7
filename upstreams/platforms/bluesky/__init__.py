"""Bluesky: accounts, posts, replies, likes and the social graph, from the public AppView of the AT Protocol."""

from __future__ import annotations

from upstreams.model.archetypes import AUTHOR, AUTHOR_LIST, COMMENT_LIST, POST, POST_LIST
from upstreams.model.endpoint import Collect, Endpoint, Fallback, Platform, Session, SessionSteps
from upstreams.model.errors import UpstreamFailed
from upstreams.model.fields import obj, text
from upstreams.model.params import Credentials, Param, collected, limit
from upstreams.model.steps import Call
from upstreams.platforms.bluesky.reads import (
    comments,
    followers,
    following,
    likes,
    post,
    profile,
    search,
    user_posts,
    users_by,
)
from upstreams.platforms.bluesky.refusals import backoff, judge

_SESSION_S = 7_200.0
"""The lifetime of an access token. Sign-ins are counted by the day, so none is made before it is due."""


_TOKEN_MAX = 8_192
"""Characters of an access token: it goes out with each call."""


def _open_session(credentials: Credentials) -> SessionSteps:
    """Sign in with an app password."""
    login = {"identifier": credentials["identifier"], "password": credentials["password"]}
    answer = yield Call("/com.atproto.server.createSession", source="sign_in", method="POST", json=login)
    token = text(obj(answer.body), "accessJwt")
    if token is None or len(token) > _TOKEN_MAX:
        raise UpstreamFailed("sign_in", "signing in gave no access token")
    return Session((("authorization", f"Bearer {token}"),), _SESSION_S)


HANDLE = Param("handle", "The account's handle.", "bsky.app", length_max=254)
USER_ID = Param("user_id", "The account's DID, with or without its did: prefix.", "plc:z72i7hdynmk6r22z27h6tvur")
POST_URL = Param(
    "url",
    "The post's address on bsky.app, or its at:// URI.",
    "https://bsky.app/profile/bsky.app/post/3l6oveex3ii2l",
    type="url",
    required=True,
)
FILTER = Param(
    "filter",
    "Which posts.",
    "posts_no_replies",
    default="posts_with_replies",
    choices=(
        "posts_with_replies",
        "posts_no_replies",
        "posts_with_media",
        "posts_and_author_threads",
        "posts_with_video",
    ),
)
DEPTH = Param("depth", "Levels of replies, 1 to 100.", "6", type="integer", default=6, minimum=1, maximum=100)
QUERY = Param("query", "What to search for.", "structured concurrency", required=True)
SORT = Param("sort", "Order of the results.", "top", default="latest", choices=("latest", "top"))
LIMIT = limit(100)

_ACTOR = (HANDLE, USER_ID)
_ONE_ACTOR = (("handle", "user_id"),)
_DIRECT = (Fallback("appview-direct"),)
"""The same AppView without the cache before it."""

PLATFORM = Platform(
    slug="bluesky",
    title="Bluesky",
    sources={
        "appview": "https://public.api.bsky.app/xrpc",
        "appview-direct": "https://api.bsky.app/xrpc",
        "pds": "https://bsky.social/xrpc",
        "sign_in": "https://bsky.social/xrpc",  # sign-ins have a quota of their own
    },
    docs_url="https://docs.bsky.app",
    credentials=("identifier", "password"),
    social=True,
    judge=judge,
    backoff=backoff,
    open_session=_open_session,
    endpoints=(
        Endpoint(
            "profile",
            "One account's public profile.",
            AUTHOR,
            profile,
            _ACTOR,
            one_of=_ONE_ACTOR,
            cache_ttl_s=900,
            fallbacks=_DIRECT,
        ),
        Endpoint(
            "user/posts",
            "An account's posts and reposts, newest first.",
            POST_LIST,
            user_posts,
            (*_ACTOR, FILTER, collected(500, default=50)),
            one_of=_ONE_ACTOR,
            collect=Collect(per_page=100),
            fallbacks=_DIRECT,
        ),
        Endpoint("post", "One post.", POST, post, (POST_URL,), fallbacks=_DIRECT),
        Endpoint(
            "post/comments",
            "The replies to a post, as a tree.",
            COMMENT_LIST,
            comments,
            (POST_URL, DEPTH),
            cache_ttl_s=300,
            fallbacks=_DIRECT,
        ),
        Endpoint(
            "post/likes",
            "The accounts that liked a post.",
            AUTHOR_LIST,
            likes,
            (POST_URL, LIMIT),
            fallbacks=_DIRECT,
        ),
        Endpoint(
            "followers",
            "An account's followers.",
            AUTHOR_LIST,
            followers,
            (*_ACTOR, LIMIT),
            one_of=_ONE_ACTOR,
            fallbacks=_DIRECT,
        ),
        Endpoint(
            "following",
            "The accounts that an account follows.",
            AUTHOR_LIST,
            following,
            (*_ACTOR, LIMIT),
            one_of=_ONE_ACTOR,
            fallbacks=_DIRECT,
        ),
        Endpoint(
            "search/users",
            "Accounts by query.",
            AUTHOR_LIST,
            users_by,
            (QUERY, LIMIT),
            cache_ttl_s=120,
            fallbacks=_DIRECT,
        ),
        Endpoint(
            "search",
            "Posts by query.",
            POST_LIST,
            search,
            (QUERY, SORT, LIMIT),
            cache_ttl_s=120,
            description="Bluesky searches posts for signed-in accounts only: it needs a handle and an app password.",
            needs=("identifier", "password"),
        ),
    ),
)
