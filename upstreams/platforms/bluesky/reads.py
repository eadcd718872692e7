"""Bluesky's reads: one generator a resource, from parameters to calls to records."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from upstreams.model.errors import InvalidArgument, NotFound, UnexpectedBody
from upstreams.model.fields import count, ident, obj, part, rows, text
from upstreams.model.maps import Rows
from upstreams.model.params import Args, Value, path_of_url
from upstreams.model.steps import Answer, Call, Page, Single, Steps
from upstreams.platforms.bluesky.records import author_of, feed_post_of, id_of, post_of, replies_of

_AT_URI = re.compile(r"at://([^/]+)/app\.bsky\.feed\.post/([^/]+)")
_PLACE = re.compile(r"[^\s/\\?#%]+")
"""An account or a record key as it stands in an at:// URI, of which it is one segment."""


_FEED = Rows(feed_post_of, "feed", also=("cursor",))
_FOLLOWERS = Rows(author_of, "followers", also=("cursor",))
_FOLLOWS = Rows(author_of, "follows", also=("cursor",))
_LIKES = Rows(author_of.inside("actor"), "likes", also=("cursor",))
_ACTORS = Rows(author_of, "actors", also=("cursor",))
_POSTS = Rows(post_of, "posts", also=("cursor", "hitsTotal"))


def _actor(args: Args) -> str:
    """The account as the API takes it: its handle, or its DID with the prefix that our ids leave out."""
    handle = args.text_or_none("handle")
    if handle is not None:
        return handle.removeprefix("@")
    return f"did:{args.text('user_id').removeprefix('did:')}"


def _named_post(url: str) -> tuple[str, str]:
    """The account and the record key that a post's address names."""
    found = _AT_URI.fullmatch(url)
    path = ["profile", found[1], "post", found[2]] if found else path_of_url("url", url, ("bsky.app",))
    if path[0:3:2] != ["profile", "post"] or len(path) < 4 or not (_names(path[1]) and _names(path[3])):
        raise InvalidArgument("url", "must name a post, such as https://bsky.app/profile/bsky.app/post/3l6oveex3ii2l")
    return path[1], path[3]


def _names(segment: str) -> bool:
    return _PLACE.fullmatch(segment) is not None and segment not in (".", "..")


def _post_uri(args: Args) -> Generator[Call, Any, str]:
    """The at:// URI of the post in `url`; a handle is looked up first, since the API wants the DID there."""
    account, key = _named_post(args.text("url"))
    if not account.startswith("did:"):
        answer = yield Call("/com.atproto.identity.resolveHandle", {"handle": account})
        did = text(obj(answer.body), "did")
        if did is None:
            raise UnexpectedBody("a handle was resolved to no DID")
        account = did
    return f"at://{account}/app.bsky.feed.post/{key}"


def _paged(args: Args, **query: Value | None) -> dict[str, Value | None]:
    return {**query, "limit": args.number("limit"), "cursor": args.token()}


def _page_of(args: Args, answer: Answer, listed: Rows) -> Page:
    """The rows of an answer; a page may be short or empty, only a missing cursor ends the list, or one that leads
    nowhere else.
    """
    records, members = listed.records(answer.body), listed.members(answer.body)
    cursor = ident(members, "cursor")
    return Page(
        records,
        next={"c": cursor} if cursor and cursor != args.token() else None,
        total=count(members, "hitsTotal"),
    )


def profile(args: Args) -> Steps:
    """One account."""
    answer = yield Call("/app.bsky.actor.getProfile", {"actor": _actor(args)}, accepts=author_of)
    return Single(author_of.read(answer.body))


def user_posts(args: Args) -> Steps:
    """An account's posts and reposts."""
    query = _paged(args, actor=_actor(args), filter=args.text("filter"))
    answer = yield Call("/app.bsky.feed.getAuthorFeed", query, accepts=_FEED)
    return _page_of(args, answer, _FEED)


def followers(args: Args) -> Steps:
    """Read the accounts that follow an account."""
    answer = yield Call("/app.bsky.graph.getFollowers", _paged(args, actor=_actor(args)), accepts=_FOLLOWERS)
    return _page_of(args, answer, _FOLLOWERS)


def following(args: Args) -> Steps:
    """Read the accounts that an account follows."""
    answer = yield Call("/app.bsky.graph.getFollows", _paged(args, actor=_actor(args)), accepts=_FOLLOWS)
    return _page_of(args, answer, _FOLLOWS)


def post(args: Args) -> Steps:
    """One post; one that is deleted or hidden is left out of an answer that is otherwise fine."""
    uri = yield from _post_uri(args)
    answer = yield Call("/app.bsky.feed.getPosts", {"uris": uri}, accepts=_POSTS)
    found = _POSTS.records(answer.body)
    if not found:
        raise NotFound("Bluesky shows no such post.")
    return Single(found[0])


def comments(args: Args) -> Steps:
    """The replies to a post as a tree, in one answer."""
    uri = yield from _post_uri(args)
    depth = args.number("depth")
    answer = yield Call("/app.bsky.feed.getPostThread", {"uri": uri, "depth": depth, "parentHeight": 0})
    thread = obj(obj(answer.body).get("thread"))
    view = part(thread, "post")
    if not view:  # a #notFoundPost or #blockedPost
        raise NotFound("Bluesky shows no such post.")
    post_id = id_of(view)
    return Page(replies_of(rows(thread.get("replies") or []), post_id, post_id, depth))


def likes(args: Args) -> Steps:
    """Read the accounts that liked a post."""
    uri = yield from _post_uri(args)
    answer = yield Call("/app.bsky.feed.getLikes", _paged(args, uri=uri), accepts=_LIKES)
    return _page_of(args, answer, _LIKES)


def users_by(args: Args) -> Steps:
    """Accounts by query."""
    answer = yield Call("/app.bsky.actor.searchActors", _paged(args, q=args.text("query")), accepts=_ACTORS)
    return _page_of(args, answer, _ACTORS)


def search(args: Args) -> Steps:
    """Posts by query, which Bluesky answers to signed-in accounts only."""
    query = _paged(args, q=args.text("query"), sort=args.text("sort"))
    answer = yield Call("/app.bsky.feed.searchPosts", query, source="pds", accepts=_POSTS, needs_session=True)
    return _page_of(args, answer, _POSTS)
