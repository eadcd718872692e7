"""Bluesky: accounts, posts, replies, likes and the social graph, from the public AppView of the AT Protocol."""

from __future__ import annotations

from functools import partial

from upstreams.model.archetypes import AUTHOR, AUTHOR_LIST, COMMENT, COMMENT_LIST, POST, POST_LIST
from upstreams.model.calls import Get, Pages, listing, listing_by, single
from upstreams.model.endpoint import Endpoint, Fallback, Platform
from upstreams.model.paging import ByToken
from upstreams.model.params import Param
from upstreams.model.refusals import Refusals, Remaining
from upstreams.model.sign_in import app_password
from upstreams.model.steps import Many
from upstreams.platforms.bluesky.reads import (
    ACTOR,
    DEPTH,
    LIKING,
    POST_URL,
    POSTS,
    REPLIES,
    comments,
    likes,
    post,
    posts,
    profiles,
)
from upstreams.platforms.bluesky.records import author_of, feed_post_of, lone_reply_of, post_of

_SESSION_S = 7_200.0
"""How long an access token is valid, in seconds. Tokens are used until they expire, because sign-ins have a daily
quota."""

FILTER = Param(
    "filter",
    "The posts to include.",
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
QUERY = Param("query", "Search query.", "structured concurrency", required=True)
SORT = Param("sort", "Sort order.", "top", default="latest", choices=("latest", "top"))

_ONE_ACTOR = (("handle", "user_id"),)
_DIRECT = (Fallback(source="appview-direct"),)
"""The same AppView, but not through its cache."""
_PAGED = ByToken("cursor")
_COUNTED = ("followers", "following", "posts_count", "external_url")
"""Account fields that only a request for a single profile returns."""
_SEARCH = Get("/app.bsky.feed.searchPosts", q=QUERY, sort=SORT).via("pds", signed=True)
_PARAMS = {"limit": "limit", "uri": "url", "filter": "filter", "query": "query"}
"""Maps parameter names in the messages of an InvalidRequest to our parameter names."""
_ABSENT = "not found", "actor", "handle"
"""Words in the message of an InvalidRequest if the requested account does not exist.

Examples: `Profile not found`, `Unable to resolve handle`, `actor must be a valid did or a handle`.
"""

PLATFORM = Platform(
    slug="bluesky",
    title="Bluesky",
    category="social",
    docs_url="https://docs.bsky.app",
    terms_url="https://bsky.social/about/support/tos",
    checked_on="2026-11-21",
    hosts=("bsky.app",),
    sources={
        "appview": "https://public.api.bsky.app/xrpc",
        "appview-direct": "https://api.bsky.app/xrpc",
        "pds": "https://bsky.social/xrpc",
        "sign_in": "https://bsky.social/xrpc",  # sign-ins have a separate quota
    },
    social=True,
    refusals=Refusals(
        code="error",
        message="message",
        absent={404: "", 410: "", 451: "", "NotFound": "", "HandleNotFound": "", "InvalidRequest": _ABSENT},
        gone=("AccountTakedown", "AccountDeactivated"),
        private=("BlockedActor", "BlockedByActor"),
        expired=("ExpiredToken", "InvalidToken"),
        stale={"InvalidRequest": "cursor"},
        bad={"BadQueryString": "query", "InvalidRequest": _PARAMS},
    ),
    rest=Remaining("ratelimit-remaining", "ratelimit-reset", window_s=300.0),
    open_session=app_password("/com.atproto.server.createSession", source="sign_in", at="accessJwt", ttl_s=_SESSION_S),
    shares_session=True,
    endpoints=(
        single(
            resource="profile",
            summary="The public profile of an account.",
            archetype=AUTHOR,
            call=Get("/app.bsky.actor.getProfile", actor=ACTOR),
            record=author_of,
            one_of=_ONE_ACTOR,
            fallbacks=_DIRECT,
            many=Many("handle", 25, profiles),
        ),
        listing(
            resource="user/posts",
            summary="Posts and reposts by an account, newest first.",
            archetype=POST_LIST,
            call=Get("/app.bsky.feed.getAuthorFeed", actor=ACTOR, filter=FILTER),
            pages=Pages(feed_post_of, ByToken("cursor", size_default=50), at="feed"),
            one_of=_ONE_ACTOR,
            collect=500,
            role="profile_posts",
            fallbacks=_DIRECT,
        ),
        Endpoint(
            resource="post",
            summary="One post.",
            archetype=POST,
            read=partial(post, POSTS),
            params=(POST_URL,),
            record=post_of,
            fallbacks=_DIRECT,
            many=Many("url", 25, partial(posts, POSTS)),
        ),
        Endpoint(
            resource="comment",
            summary="One reply.",
            archetype=COMMENT,
            read=partial(post, REPLIES),
            params=(POST_URL,),
            record=lone_reply_of,
            fallbacks=_DIRECT,
            many=Many("url", 25, partial(posts, REPLIES)),
        ),
        Endpoint(
            resource="post/comments",
            summary="The replies to a post, as a tree.",
            archetype=COMMENT_LIST,
            read=comments,
            params=(POST_URL, DEPTH),
            never=("flags.pinned", "total"),
            fallbacks=_DIRECT,
        ),
        listing_by(
            resource="post/likes",
            summary="Accounts that liked a post.",
            archetype=AUTHOR_LIST,
            read=likes,
            pages=LIKING,
            params=(POST_URL,),
            never=_COUNTED,
            fallbacks=_DIRECT,
        ),
        listing(
            resource="followers",
            summary="Followers of an account.",
            archetype=AUTHOR_LIST,
            call=Get("/app.bsky.graph.getFollowers", actor=ACTOR),
            pages=Pages(author_of, _PAGED, at="followers"),
            never=_COUNTED,
            one_of=_ONE_ACTOR,
            fallbacks=_DIRECT,
        ),
        listing(
            resource="following",
            summary="Accounts that an account follows.",
            archetype=AUTHOR_LIST,
            call=Get("/app.bsky.graph.getFollows", actor=ACTOR),
            pages=Pages(author_of, _PAGED, at="follows"),
            never=_COUNTED,
            one_of=_ONE_ACTOR,
            fallbacks=_DIRECT,
        ),
        listing(
            resource="search/users",
            summary="Search for accounts.",
            archetype=AUTHOR_LIST,
            call=Get("/app.bsky.actor.searchActors", q=QUERY),
            pages=Pages(author_of, _PAGED, at="actors"),
            fallbacks=_DIRECT,
        ),
        listing(
            resource="search",
            summary="Search for posts.",
            archetype=POST_LIST,
            call=_SEARCH,
            pages=Pages(post_of, ByToken("cursor", total="hitsTotal"), at="posts"),
            newest={"sort": "latest"},
            description="Bluesky requires a signed-in account to search posts: configure a handle and an app password.",
            needs=("identifier", "password"),
        ),
    ),
)
