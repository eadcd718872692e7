"""Mastodon: accounts, posts, replies, hashtags and trends of any instance, from its public API."""

from __future__ import annotations

from functools import partial

from upstreams.model.archetypes import ANALYTICS, AUTHOR, AUTHOR_LIST, COMMENT, COMMENT_LIST, POST, POST_LIST, Archetype
from upstreams.model.calls import Get, Pages, listing, single
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.fields.maps import RecordMap, Rows
from upstreams.model.paging import ByLink, ByOffset, Once, Whole
from upstreams.model.params import Param
from upstreams.model.refusals import Pace, Refusals, Remaining
from upstreams.platforms.mastodon import reads
from upstreams.platforms.mastodon.reads import HANDLE, INSTANCE, ONE_POST, POST_ID, USER_ID
from upstreams.platforms.mastodon.records import author_of, comment_of, link_of, post_of, profile_of, reply_of, trend_of

NO_REPLIES = Param("exclude_replies", "Whether to omit replies.", "true", type="boolean")
NO_BOOSTS = Param("exclude_reblogs", "Whether to omit boosts.", "true", type="boolean")
TAG = Param(
    "tag", "The hashtag.", "python", required=True, strip="#", fold=True, forms=(r"[^/]+/tags/([^/]+)(?:/.*)?",)
)
QUERY = Param("query", "Search query.", "structured concurrency", required=True)

_ONE_ACCOUNT = (("handle", "user_id"),)
_OLDER, _ACCOUNTS_PAGED = ByLink("max_id", size_max=40), ByLink("max_id", size_max=80)


def _of_account(*, resource: str, summary: str, path: str, record: RecordMap, more: tuple[Param, ...] = ()) -> Endpoint:
    """Return an endpoint for a list that belongs to an account: its posts, or other accounts."""
    archetype, paging = (POST_LIST, _OLDER) if record is post_of else (AUTHOR_LIST, _ACCOUNTS_PAGED)
    call = Get(f"/v1/accounts/{{account}}/{path}", **{one.name: one for one in more})
    read = partial(reads.of_account, call, Pages(record, paging))
    params = (HANDLE, USER_ID, *more, *paging.params())
    return Endpoint(
        resource=resource,
        summary=summary,
        archetype=archetype,
        read=read,
        params=params,
        one_of=_ONE_ACCOUNT,
        record=record,
        never=("total",),
    )


def _of_post(*, resource: str, summary: str, archetype: Archetype, path: str, pages: Pages) -> Endpoint:
    """Return an endpoint for a list that belongs to a post."""
    return listing(
        resource=resource,
        summary=summary,
        archetype=archetype,
        call=Get(f"/v1/statuses/{{id}}/{path}", id=POST_ID),
        pages=pages,
        located=ONE_POST,
    )


def _search(type_: str) -> Get:
    return Get("/v2/search", q=QUERY, type=type_)


PLATFORM = Platform(
    slug="mastodon",
    title="Mastodon",
    category="social",
    docs_url="https://docs.joinmastodon.org/client/intro/",
    terms_url="https://mastodon.social/terms-of-service",
    checked_on="2026-11-23",
    sources={"instance": "https://{instance}/api"},
    social=True,
    common=(INSTANCE,),
    refusals=Refusals(
        message="error",
        gone=(410,),
        private={401: "", 403: "this action is not allowed", 422: "authenticated user"},
        absent={404: "", 451: ""},
    ),
    rest=Remaining("x-ratelimit-remaining", "x-ratelimit-reset", window_s=300.0),
    pace=Pace(300, per_s=300),
    endpoints=(
        Endpoint(
            resource="profile",
            summary="One account.",
            archetype=AUTHOR,
            read=reads.profile,
            params=(HANDLE, USER_ID),
            one_of=_ONE_ACCOUNT,
            record=profile_of,
        ),
        _of_account(
            resource="profile/posts",
            summary="Posts by an account, newest first.",
            path="statuses",
            record=post_of,
            more=(NO_REPLIES, NO_BOOSTS),
        ),
        _of_account(resource="followers", summary="Followers of an account.", path="followers", record=author_of),
        _of_account(
            resource="following", summary="Accounts that an account follows.", path="following", record=author_of
        ),
        single(
            resource="post",
            summary="One post.",
            archetype=POST,
            call=Get("/v1/statuses/{id}", id=POST_ID),
            record=post_of,
            located=ONE_POST,
        ),
        single(
            resource="comment",
            summary="One reply.",
            archetype=COMMENT,
            call=Get("/v1/statuses/{id}", id=POST_ID),
            record=reply_of,
            located=ONE_POST,
        ),
        _of_post(
            resource="post/comments",
            summary="Replies to a post, parents first (at most 60).",
            archetype=COMMENT_LIST,
            path="context",
            pages=Pages(comment_of, Whole(), at="descendants"),
        ),
        _of_post(
            resource="post/likes",
            summary="Accounts that liked a post.",
            archetype=AUTHOR_LIST,
            path="favourited_by",
            pages=Pages(author_of, _ACCOUNTS_PAGED),
        ),
        _of_post(
            resource="post/reposts",
            summary="Accounts that boosted a post.",
            archetype=AUTHOR_LIST,
            path="reblogged_by",
            pages=Pages(author_of, _ACCOUNTS_PAGED),
        ),
        listing(
            resource="hashtag",
            summary="Posts with a hashtag, newest first.",
            archetype=POST_LIST,
            call=Get("/v1/timelines/tag/{tag}", tag=TAG),
            pages=Pages(post_of, _OLDER),
        ),
        listing(
            resource="search",
            summary="Search for posts by accounts that allow it.",
            archetype=POST_LIST,
            call=_search("statuses"),
            pages=Pages(post_of, Once(size_max=40), at="statuses"),
        ),
        listing(
            resource="search/users",
            summary="Search for accounts.",
            archetype=AUTHOR_LIST,
            call=_search("accounts"),
            pages=Pages(author_of, Once(size_max=40), at="accounts"),
        ),
        Endpoint(
            resource="search/hashtags",
            summary="Search for hashtags, with their uses in the last day.",
            archetype=ANALYTICS,
            read=partial(reads.tags, _search("hashtags"), Rows(trend_of, "hashtags")),
            params=(QUERY,),
            never=("region",),
        ),
        listing(
            resource="trending",
            summary="Posts with the most boosts and likes right now.",
            archetype=POST_LIST,
            call=Get("/v1/trends/statuses"),
            pages=Pages(post_of, ByOffset("offset", size_max=40)),
        ),
        listing(
            resource="trending/links",
            summary="The most linked web pages right now.",
            archetype=POST_LIST,
            call=Get("/v1/trends/links"),
            pages=Pages(link_of, ByOffset("offset", size_max=20)),
        ),
        Endpoint(
            resource="trending/hashtags",
            summary="The most used hashtags right now.",
            archetype=ANALYTICS,
            read=partial(reads.tags, Get("/v1/trends/tags", limit=20), Rows(trend_of)),
            kind="analytics",
            never=("region",),
        ),
    ),
)
