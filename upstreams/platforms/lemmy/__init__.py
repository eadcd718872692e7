"""Lemmy: posts, comments, communities and accounts of any instance, from its public API."""

from __future__ import annotations

from upstreams.model.archetypes import AUTHOR, AUTHOR_LIST, COMMENT, COMMENT_LIST, POST, POST_LIST, Archetype
from upstreams.model.calls import Get, made
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.fields.maps import RecordMap
from upstreams.model.params import at_host
from upstreams.model.refusals import Pace, Refusals
from upstreams.platforms.lemmy.reads import (
    COMMENT_ID,
    COMMENT_SORT,
    COMMUNITY,
    HANDLE,
    INSTANCE,
    NAME,
    NEW_SORT,
    OLD_SORT,
    ONE_COMMENT,
    ONE_POST,
    POST_ID,
    QUERY,
    SCOPE,
    SPAN_S,
    TOKENS,
    Listed,
    in_capitals,
    listing_of,
    single_of,
)
from upstreams.platforms.lemmy.records import (
    author_of,
    comment_of,
    community_of,
    one_comment_of,
    one_community_of,
    one_post_of,
    post_of,
    profile_of,
)

_SCOPE = made(in_capitals, SCOPE)


def _of_account(*, resource: str, summary: str, record: RecordMap, archetype: Archetype) -> Endpoint:
    """Return an endpoint for a list that belongs to an account.

    In version 3 of the API, the account's page contains its newest posts and comments.
    """
    rows = resource.rpartition("/")[2]
    old = Get("/user", username=made(at_host, HANDLE), sort="New")
    new = Get("/person/content", username=made(at_host, HANDLE), type_=rows)
    return listing_of(
        resource=resource, summary=summary, record=record, archetype=archetype, listed=Listed(old, new, rows)
    )


def _search(*, resource: str, summary: str, record: RecordMap, archetype: Archetype) -> Endpoint:
    rows = resource.partition("/")[2] or "posts"
    old = Get("/search", q=QUERY, type_=rows.title(), listing_type="All")
    new = Get("/search", search_term=QUERY, type_=rows)
    listed = Listed(old, new, rows, "persons" if rows == "users" else rows)
    return listing_of(resource=resource, summary=summary, record=record, archetype=archetype, listed=listed)


_ABSENT = (
    "couldnt_find_post",
    "couldnt_find_comment",
    "couldnt_find_person",
    "couldnt_find_community",
    "couldnt_find_object",
    "couldnt_find_that_username_or_email",
)
PLATFORM = Platform(
    slug="lemmy",
    title="Lemmy",
    category="forums",
    docs_url="https://join-lemmy.org/docs/contributors/04-api.html",
    terms_url="https://legal.lemmy.world/tos/",
    checked_on="2026-11-23",
    sources={"v3": "https://{instance}/api/v3", "v4": "https://{instance}/api/v4"},
    social=True,
    common=(INSTANCE,),
    refusals=Refusals(
        code="error",
        absent=dict.fromkeys((404, 410, 451, *_ABSENT), ""),
        private=("instance_is_private", "incorrect_login", "not_logged_in"),
        throttled=("rate_limit_error", "too_many_requests"),
        stale=("couldnt_parse_pagination_token",),
        bad={"invalid_fetch_limit": "limit"},
    ),
    pace=Pace(180, per_s=60, costs={"/search": 30}),
    endpoints=(
        listing_of(
            resource="posts",
            summary="Posts in all communities or in one.",
            record=post_of,
            archetype=POST_LIST,
            listed=Listed(
                Get("/post/list", type_=_SCOPE, sort=OLD_SORT, community_name=made(at_host, COMMUNITY)),
                Get(
                    "/post/list",
                    type_=SCOPE,
                    sort=NEW_SORT,
                    time_range_seconds=SPAN_S,
                    community_name=made(at_host, COMMUNITY),
                ),
                "posts",
                paging=TOKENS,
            ),
        ),
        single_of(
            resource="post",
            summary="One post.",
            record=one_post_of,
            archetype=POST,
            calls=(Get("/post", id=POST_ID), Get("/post", id=POST_ID)),
            located=ONE_POST,
        ),
        listing_of(
            resource="post/comments",
            summary="Comments on a post, as a flat list.",
            record=comment_of,
            archetype=COMMENT_LIST,
            listed=Listed(
                Get("/comment/list", post_id=POST_ID, sort=made(in_capitals, COMMENT_SORT), type_="All"),
                Get("/comment/list", post_id=POST_ID, sort=COMMENT_SORT),
                "comments",
            ),
            located=ONE_POST,
        ),
        single_of(
            resource="comment",
            summary="One comment.",
            record=one_comment_of,
            archetype=COMMENT,
            calls=(Get("/comment", id=COMMENT_ID), Get("/comment", id=COMMENT_ID)),
            located=ONE_COMMENT,
        ),
        single_of(
            resource="profile",
            summary="One account.",
            record=profile_of,
            archetype=AUTHOR,
            calls=(
                Get("/user", username=made(at_host, HANDLE), limit=1),
                Get("/person", username=made(at_host, HANDLE)),
            ),
        ),
        _of_account(
            resource="profile/posts", summary="Posts by an account, newest first.", record=post_of, archetype=POST_LIST
        ),
        _of_account(
            resource="profile/comments",
            summary="Comments by an account, newest first.",
            record=comment_of,
            archetype=COMMENT_LIST,
        ),
        single_of(
            resource="community",
            summary="One community.",
            record=one_community_of,
            archetype=AUTHOR,
            calls=(Get("/community", name=made(at_host, NAME)), Get("/community", name=made(at_host, NAME))),
        ),
        listing_of(
            resource="communities",
            summary="Communities, most active first.",
            record=community_of,
            archetype=AUTHOR_LIST,
            listed=Listed(
                Get("/community/list", type_=_SCOPE, sort="Active"),
                Get("/community/list", type_=SCOPE),
                "communities",
            ),
        ),
        _search(resource="search", summary="Search for posts.", record=post_of, archetype=POST_LIST),
        _search(resource="search/comments", summary="Search for comments.", record=comment_of, archetype=COMMENT_LIST),
        _search(resource="search/users", summary="Search for accounts.", record=author_of, archetype=AUTHOR_LIST),
        _search(
            resource="search/communities", summary="Search for communities.", record=community_of, archetype=AUTHOR_LIST
        ),
    ),
)
