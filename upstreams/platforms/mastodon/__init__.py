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


def _of_account(resource: str, summary: str, path: str, record: RecordMap, *more: Param) -> Endpoint:
    """Return an endpoint for a list that belongs to an account: its posts, or other accounts."""
    archetype, paging = (POST_LIST, _OLDER) if record is post_of else (AUTHOR_LIST, _ACCOUNTS_PAGED)
    call = Get(f"/v1/accounts/{{account}}/{path}", **{one.name: one for one in more})
    read = partial(reads.of_account, call, Pages(record, paging))
    params = (HANDLE, USER_ID, *more, *paging.params())
    return Endpoint(resource, summary, archetype, read, params, one_of=_ONE_ACCOUNT, record=record, never=("total",))


def _of_post(resource: str, summary: str, archetype: Archetype, path: str, pages: Pages) -> Endpoint:
    """Return an endpoint for a list that belongs to a post."""
    return listing(
        resource, summary, archetype, Get(f"/v1/statuses/{{id}}/{path}", id=POST_ID), pages, located=ONE_POST
    )


def _search(type_: str) -> Get:
    return Get("/v2/search", q=QUERY, type=type_)


PLATFORM = Platform(
    slug="mastodon",
    title="Mastodon",
    sources={"instance": "https://{instance}/api"},
    docs_url="https://docs.joinmastodon.org/client/intro/",
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
            "profile",
            "One account.",
            AUTHOR,
            reads.profile,
            (HANDLE, USER_ID),
            one_of=_ONE_ACCOUNT,
            record=profile_of,
        ),
        _of_account("profile/posts", "Posts by an account, newest first.", "statuses", post_of, NO_REPLIES, NO_BOOSTS),
        _of_account("followers", "Followers of an account.", "followers", author_of),
        _of_account("following", "Accounts that an account follows.", "following", author_of),
        single("post", "One post.", POST, Get("/v1/statuses/{id}", id=POST_ID), post_of, located=ONE_POST),
        single("comment", "One reply.", COMMENT, Get("/v1/statuses/{id}", id=POST_ID), reply_of, located=ONE_POST),
        _of_post(
            "post/comments",
            "Replies to a post, parents first (at most 60).",
            COMMENT_LIST,
            "context",
            Pages(comment_of, Whole(), "descendants"),
        ),
        _of_post(
            "post/likes",
            "Accounts that liked a post.",
            AUTHOR_LIST,
            "favourited_by",
            Pages(author_of, _ACCOUNTS_PAGED),
        ),
        _of_post(
            "post/reposts",
            "Accounts that boosted a post.",
            AUTHOR_LIST,
            "reblogged_by",
            Pages(author_of, _ACCOUNTS_PAGED),
        ),
        listing(
            "hashtag",
            "Posts with a hashtag, newest first.",
            POST_LIST,
            Get("/v1/timelines/tag/{tag}", tag=TAG),
            Pages(post_of, _OLDER),
        ),
        listing(
            "search",
            "Search for posts by accounts that allow it.",
            POST_LIST,
            _search("statuses"),
            Pages(post_of, Once(size_max=40), "statuses"),
        ),
        listing(
            "search/users",
            "Search for accounts.",
            AUTHOR_LIST,
            _search("accounts"),
            Pages(author_of, Once(size_max=40), "accounts"),
        ),
        Endpoint(
            "search/hashtags",
            "Search for hashtags, with their uses in the last day.",
            ANALYTICS,
            partial(reads.tags, _search("hashtags"), Rows(trend_of, "hashtags")),
            (QUERY,),
            never=("region",),
        ),
        listing(
            "trending",
            "Posts with the most boosts and likes right now.",
            POST_LIST,
            Get("/v1/trends/statuses"),
            Pages(post_of, ByOffset("offset", size_max=40)),
        ),
        listing(
            "trending/links",
            "The most linked web pages right now.",
            POST_LIST,
            Get("/v1/trends/links"),
            Pages(link_of, ByOffset("offset", size_max=20)),
        ),
        Endpoint(
            "trending/hashtags",
            "The most used hashtags right now.",
            ANALYTICS,
            partial(reads.tags, Get("/v1/trends/tags", limit=20), Rows(trend_of)),
            kind="analytics",
            never=("region",),
        ),
    ),
)
