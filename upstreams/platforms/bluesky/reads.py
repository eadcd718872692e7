"""Bluesky's parameters, and reads that need several calls because URLs contain handles, not DIDs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from upstreams.model.archetypes import Record
from upstreams.model.calls import Get, Pages, made
from upstreams.model.errors import NotFound, UnexpectedBody
from upstreams.model.fields import WHOLE_MAX, obj, part, rows, text
from upstreams.model.fields.maps import Rows
from upstreams.model.paging import ByToken
from upstreams.model.params import Args, Param
from upstreams.model.steps import Call, Page, Single, Steps
from upstreams.platforms.bluesky.records import author_of, id_of, lone_reply_of, post_of, replies_of

_PLACE = r"(?!\.\.?(?:/|$))[^\s/\\?#%]+"
"""An account or a record key, which is one segment of an at:// URI."""
HANDLE = Param(
    "handle",
    "The account's handle.",
    "bsky.app",
    length_max=254,
    strip="@",
    fold=True,
    forms=(r"bsky\.app/profile/([^/]+)(?:/.*)?",),
    pattern=r"[a-z0-9.:_-]+",
    problem="must be a handle, such as bsky.app",
)
USER_ID = Param(
    "user_id", "The account's DID, with or without the did: prefix.", "plc:z72i7hdynmk6r22z27h6tvur", strip="did:"
)
POST_URL = Param(
    "url",
    "The post's bsky.app URL or at:// URI.",
    "https://bsky.app/profile/bsky.app/post/3l6oveex3ii2l",
    type="url",
    required=True,
    forms=(
        r"at://([^/]+)/app\.bsky\.feed\.post/([^/]+)",
        r"bsky\.app/profile/([^/]+)/post/([^/]+)(?:/.*)?",
    ),
    pattern=rf"{_PLACE}/{_PLACE}",
    problem="must name a post, such as https://bsky.app/profile/bsky.app/post/3l6oveex3ii2l",
)
DEPTH = Param("depth", "Levels of replies, 1 to 100.", "6", type="integer", default=6, minimum=1, maximum=100)


def _actor(handle: str | None, user_id: str | None) -> str:
    """Return the account as the API expects it: a handle, or a DID with the prefix that our ids lack."""
    return handle if handle is not None else f"did:{user_id}"


ACTOR = made(_actor, HANDLE, USER_ID)
_RESOLVE = Get("/com.atproto.identity.resolveHandle")
_GET_POSTS = Get("/app.bsky.feed.getPosts")
POSTS, REPLIES = Rows(post_of, "posts"), Rows(lone_reply_of, "posts")
_AUTHORS = Rows(author_of, "profiles")
_PROFILES = Get("/app.bsky.actor.getProfiles").via(accepts=_AUTHORS)
_THREAD = Get("/app.bsky.feed.getPostThread", depth=DEPTH, parentHeight=0)
_LIKES = Get("/app.bsky.feed.getLikes")
LIKING = Pages(author_of.inside("actor"), ByToken("cursor"), at="likes")


def _post_uri(args: Args) -> Generator[Call, Any, str]:
    """Return the at:// URI of the post in `url`. The handle is resolved first, because the API requires a DID."""
    account, _, key = args.text("url").partition("/")
    if not account.startswith("did:"):
        answer = yield _RESOLVE.at(args, handle=account)
        did = text(obj(answer.body), "did")
        if did is None:
            raise UnexpectedBody("the handle did not resolve to a DID")
        account = did
    return f"at://{account}/app.bsky.feed.post/{key}"


def post(of: Rows, args: Args) -> Steps:
    """Return one post or reply. A deleted or hidden one is simply missing from a successful answer."""
    uri = yield from _post_uri(args)
    answer = yield _GET_POSTS.via(accepts=of).at(args, uris=uri)
    found = _records(of, answer.body)
    if not found:
        raise NotFound("The post does not exist or is hidden on Bluesky.")
    return Single(found[0])


def _records(of: Rows, body: Any) -> list[Record]:
    """Return the records in an answer. If replies were requested, posts that are not replies are omitted."""
    return [one for one in of.records(body) if of is POSTS or one["parent_id"] is not None]


def comments(args: Args) -> Steps:
    """Return the replies to a post as a tree. One call returns the whole tree."""
    uri = yield from _post_uri(args)
    answer = yield _THREAD.at(args, uri=uri)
    thread = obj(obj(answer.body).get("thread"))
    view = part(thread, "post")
    if not view:  # a #notFoundPost or #blockedPost
        raise NotFound("The post does not exist or is hidden on Bluesky.")
    post_id = id_of(view)
    replies = rows(thread.get("replies") or [], WHOLE_MAX)
    return Page(replies_of(replies, post_id, post_id, args.number("depth")))


def likes(args: Args) -> Steps:
    """Return the accounts that liked a post."""
    uri = yield from _post_uri(args)
    answer = yield _LIKES.at(args, LIKING, uri=uri)
    return LIKING.page(args, answer)


def posts(of: Rows, values: Sequence[str], args: Args) -> Steps:
    """Return many posts or replies with one call, after one call that resolves all handles to DIDs."""
    handles = tuple(dict.fromkeys(one for value in values if not (one := value.partition("/")[0]).startswith("did:")))
    dids: dict[str, str] = {}
    if handles:
        found = yield _PROFILES.at(args, actors=handles)
        dids = {str(one["username"]).lower(): f"did:{one['id']}" for one in _AUTHORS.records(found.body)}
    places = {
        value: (dids.get(account, account), key) for value in values for account, _, key in [value.partition("/")]
    }
    uris = {f"at://{did}/app.bsky.feed.post/{key}" for did, key in places.values() if did.startswith("did:")}
    if not uris:
        return Single({})
    answer = yield _GET_POSTS.via(accepts=of).at(args, uris=tuple(sorted(uris)))
    known = {(f"did:{one['author']['id']}", one["id"]): one for one in _records(of, answer.body)}
    return Single({value: known[place] for value, place in places.items() if place in known})


def profiles(values: Sequence[str], args: Args) -> Steps:
    """Return many accounts with one call."""
    answer = yield _PROFILES.at(args, actors=tuple(values))
    known = {str(one["username"]).lower(): one for one in _AUTHORS.records(answer.body)}
    known |= {f"did:{one['id']}": one for one in known.values()}
    return Single({value: known[value] for value in values if value in known})
