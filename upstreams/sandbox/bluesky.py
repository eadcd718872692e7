"""The stand-in for Bluesky: its public AppView, and the few calls of a PDS that search needs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from upstreams.sandbox.invent import paragraph, person, seeded, sentence, unix_time
from upstreams.sandbox.site import SandboxReply, SandboxRequest, SandboxRoute, route

_ROWS = 45
"""Rows of every list: three pages of the default size."""
_CDN = "https://cdn.bsky.example/img"
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"

Json = dict[str, Any]


def _error(name: str, message: str, status: int = 400, **headers: str) -> SandboxReply:
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    return SandboxReply({"error": name, "message": message}, status, sent)


def _refused(subject: str, absent: SandboxReply) -> SandboxReply | None:
    if "missing" in subject:
        return absent
    if "throttled" in subject:
        spent = {"ratelimit_limit": "3000", "ratelimit_remaining": "0", "ratelimit_policy": "3000;w=300"}
        reset = {"ratelimit_reset": "1735689630", "date": "Wed, 01 Jan 2025 00:00:00 GMT"}
        return _error("RateLimitExceeded", "Rate Limit Exceeded", 429, **spent, **reset)
    return _error("InternalServerError", "Internal Server Error", 500) if "broken" in subject else None


def _did_of(actor: str) -> str:
    """The DID of a handle and `_handle_of` it lead back to each other, so that every call tells of the same account."""
    if actor.startswith("did:"):
        return actor
    name = actor.removesuffix(".bsky.social")
    return f"did:web:{actor}" if name == actor or "." in name else f"did:plc:{name}"


def _handle_of(actor: str) -> str:
    if not actor.startswith("did:"):
        return actor
    method, _, name = actor.removeprefix("did:").partition(":")
    return name if method == "web" else f"{name}.bsky.social"


def _key(*subject: object) -> str:
    rng = seeded("bluesky", *subject)
    return "3l" + "".join(rng.choice(_ALPHABET) for _ in range(11))


def _iso(*subject: object) -> str:
    rng = seeded("bluesky", *subject)
    return (
        datetime.fromtimestamp(unix_time(rng) + rng.randrange(1000) / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _basic(actor: str) -> Json:
    did, rng = _did_of(actor), seeded("bluesky", _did_of(actor))
    basic: Json = {
        "did": did,
        "handle": _handle_of(actor),
        "displayName": person(rng),
        "avatar": f"{_CDN}/avatar/plain/{did}/{_key(did, 'avatar')}@jpeg",
        "associated": {
            "chat": {"allowIncoming": "following"},
            "activitySubscription": {"allowSubscriptions": "followers"},
        },
        "labels": [],
        "createdAt": _iso(did, "joined"),
    }
    if rng.random() < 0.3:
        basic["verification"] = {"verifications": [], "verifiedStatus": "valid", "trustedVerifierStatus": "none"}
    return basic


def _viewed(actor: str) -> Json:
    did = _did_of(actor)
    bio = paragraph(seeded("bluesky", did, "bio"), 2)
    return {**_basic(actor), "description": bio, "indexedAt": _iso(did, "indexed")}


def _somebody(subject: str, place: int) -> str:
    """The handle of an account that has to do with a subject: a follower, a liker, the author of a reply."""
    name = person(seeded("bluesky", subject, place)).lower().replace(" ", "-")
    return f"{name}-{_key(subject, place)}.bsky.social"


def _member(subject: str, place: int) -> Json:
    return _viewed(_somebody(subject, place))


def _embed_of(did: str, key: str) -> Json | None:
    rng = seeded("bluesky", did, key, "embed")
    kind = rng.choice(("images", "video", "external", None, None))
    blob = f"plain/{did}/{_key(key, 'blob')}"
    if kind == "images":
        image = {
            "thumb": f"{_CDN}/feed_thumbnail/{blob}",
            "fullsize": f"{_CDN}/feed_fullsize/{blob}",
            "alt": sentence(rng),
        }
        return {"$type": "app.bsky.embed.images#view", "images": [image]}
    if kind == "video":
        video = {"cid": _key(key, "video"), "playlist": f"{_CDN}/{blob}/playlist.m3u8"}
        return {"$type": "app.bsky.embed.video#view", **video, "thumbnail": f"{_CDN}/{blob}/thumbnail.jpg"}
    if kind == "external":
        card = {"uri": f"https://example.com/{key}", "title": sentence(rng), "description": paragraph(rng)}
        return {"$type": "app.bsky.embed.external#view", "external": {**card, "thumb": f"{_CDN}/feed_thumbnail/{blob}"}}
    return None


def _post(actor: str, key: str, reply_to: str | None = None) -> Json:
    did, rng = _did_of(actor), seeded("bluesky", _did_of(actor), key)
    uri = f"at://{did}/app.bsky.feed.post/{key}"
    record: Json = {
        "$type": "app.bsky.feed.post",
        "createdAt": _iso(uri),
        "langs": ["en"],
        "text": paragraph(rng, rng.randint(1, 3)),
    }
    if reply_to is not None:
        link = {"uri": reply_to, "cid": _key(reply_to, "cid")}
        record["reply"] = {"root": link, "parent": link}
    view: Json = {
        "uri": uri,
        "cid": f"bafyrei{_key(uri, 'cid')}",
        "author": _basic(actor),
        "record": record,
        "bookmarkCount": rng.randrange(40),
        "replyCount": rng.randrange(60),
        "repostCount": rng.randrange(200),
        "likeCount": rng.randrange(2_000),
        "quoteCount": rng.randrange(30),
        "indexedAt": _iso(uri),
        "labels": [],
    }
    embed = _embed_of(did, key)
    return view if embed is None else {**view, "embed": embed}


def _listed(request: SandboxRequest, name: str, row: Callable[[int], Json], **beside: Any) -> SandboxReply:
    """One page; Bluesky's cursor is a position in text form that is left out on the last page."""
    cursor = request.query.get("cursor", "0")
    if not cursor.isdecimal():
        return _error("InvalidRequest", "Malformed cursor")
    start = int(cursor)
    end = min(start + request.number("limit", 50), _ROWS)
    body: Json = {**beside, name: [row(place) for place in range(start, end)]}
    return SandboxReply(body if end >= _ROWS else {**body, "cursor": str(end)})


def _profile(request: SandboxRequest) -> SandboxReply:
    actor = request.query.get("actor", "")
    if (refused := _refused(actor, _error("InvalidRequest", "Profile not found"))) is not None:
        return refused
    rng = seeded("bluesky", _did_of(actor), "counts")
    counts = {"followersCount": rng.randrange(90_000), "followsCount": rng.randrange(900)}
    return SandboxReply(
        {
            **_viewed(actor),
            **counts,
            "postsCount": rng.randrange(9_000),
            "banner": f"{_CDN}/banner/plain/{_did_of(actor)}",
            "website": f"https://{_handle_of(actor)}",
        }
    )


def _feed(request: SandboxRequest) -> SandboxReply:
    actor = request.query.get("actor", "")
    if (refused := _refused(actor, _error("InvalidRequest", "Profile not found"))) is not None:
        return refused

    def row(place: int) -> Json:
        if place % 7 != 3:
            return {"post": _post(actor, _key(_did_of(actor), place))}
        other = _somebody(actor, place)
        by = {"$type": "app.bsky.feed.defs#reasonRepost", "by": _basic(actor), "indexedAt": _iso(actor, place)}
        return {"post": _post(other, _key(other, place)), "reason": by}

    return _listed(request, "feed", row)


def _circle(name: str) -> Callable[[SandboxRequest], SandboxReply]:
    """The followers or follows of an account."""

    def answer(request: SandboxRequest) -> SandboxReply:
        actor = request.query.get("actor", "")
        if (refused := _refused(actor, _error("InvalidRequest", f"Actor not found: {actor}"))) is not None:
            return refused
        return _listed(request, name, lambda place: _member(f"{name}/{actor}", place), subject=_viewed(actor))

    return answer


def _resolved(request: SandboxRequest) -> SandboxReply:
    handle = request.query.get("handle", "")
    absent = _error("InvalidRequest", "Unable to resolve handle")
    return _refused(handle, absent) or SandboxReply({"did": _did_of(handle)})


def _named(uri: str) -> tuple[str, str]:
    did, _, key = uri.removeprefix("at://").partition("/app.bsky.feed.post/")
    return did, key


def _posts(request: SandboxRequest) -> SandboxReply:
    uri = request.query.get("uris", "")
    return _refused(uri, SandboxReply({"posts": []})) or SandboxReply({"posts": [_post(*_named(uri))]})


def _thread(request: SandboxRequest) -> SandboxReply:
    uri = request.query.get("uri", "")
    if (refused := _refused(uri, _error("NotFound", f"Post not found: {uri}"))) is not None:
        return refused
    return SandboxReply({"thread": _node(_post(*_named(uri)), min(request.number("depth", 6), 2))})


def _node(view: Json, levels: int) -> Json:
    uri, node = view["uri"], {"$type": "app.bsky.feed.defs#threadViewPost", "post": view, "threadContext": {}}
    if levels < 1:
        return node
    count = seeded("bluesky", uri, "replies").randint(2, 5)
    return {**node, "replies": [_reply(uri, place, levels) for place in range(count)]}


def _reply(parent_uri: str, place: int, levels: int) -> Json:
    actor, key = _somebody(parent_uri, place), _key(parent_uri, place)
    if place == 1:
        gone = f"at://{_did_of(actor)}/app.bsky.feed.post/{key}"
        return {"$type": "app.bsky.feed.defs#notFoundPost", "uri": gone, "notFound": True}
    return _node(_post(actor, key, parent_uri), levels - 1)


def _likes(request: SandboxRequest) -> SandboxReply:
    uri = request.query.get("uri", "")
    if (refused := _refused(uri, SandboxReply({"uri": uri, "likes": []}))) is not None:
        return refused

    def like(place: int) -> Json:
        at = _iso(uri, place)
        return {"actor": _member(uri, place), "createdAt": at, "indexedAt": at}

    return _listed(request, "likes", like, uri=uri)


def _users_found(request: SandboxRequest) -> SandboxReply:
    query = request.query.get("q", "")
    return _refused(query, SandboxReply({"actors": []})) or _listed(
        request, "actors", lambda place: _member(query, place)
    )


def _session(_request: SandboxRequest) -> SandboxReply:
    account = {"did": "did:plc:sandbox", "handle": "sandbox.bsky.social", "active": True}
    return SandboxReply({**account, "accessJwt": "sandbox-access", "refreshJwt": "sandbox-refresh"})


def _posts_found(request: SandboxRequest) -> SandboxReply:
    query = request.query.get("q", "")
    if (refused := _refused(query, SandboxReply({"posts": [], "hitsTotal": 0}))) is not None:
        return refused

    def found(place: int) -> Json:
        return _post(_somebody(query, place), _key(query, place))

    return _listed(request, "posts", found, hitsTotal=_ROWS)


_APPVIEWS = ("public.api.bsky.app", "api.bsky.app")
_PDS = "bsky.social"

_METHODS: dict[str, Callable[[SandboxRequest], SandboxReply]] = {
    "app.bsky.actor.getProfile": _profile,
    "app.bsky.feed.getAuthorFeed": _feed,
    "app.bsky.graph.getFollowers": _circle("followers"),
    "app.bsky.graph.getFollows": _circle("follows"),
    "com.atproto.identity.resolveHandle": _resolved,
    "app.bsky.feed.getPosts": _posts,
    "app.bsky.feed.getPostThread": _thread,
    "app.bsky.feed.getLikes": _likes,
    "app.bsky.actor.searchActors": _users_found,
}

ROUTES: tuple[SandboxRoute, ...] = (
    *(route(host, f"/xrpc/{method}", reply) for host in _APPVIEWS for method, reply in _METHODS.items()),
    route(_PDS, "/xrpc/com.atproto.server.createSession", _session),
    route(_PDS, "/xrpc/app.bsky.feed.searchPosts", _posts_found),
)
