"""Bluesky: the records that its answers become, the errors that its refusals become, and where its lists end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.platforms.bluesky import cases
from tests.platforms.case import drive, recorded
from tests.platforms.drive import Upstream, always, page_of, single_of, told, watched
from upstreams.model.errors import InvalidArgument, NotFound, StaleCursor, UpstreamFailed, UpstreamThrottled
from upstreams.model.refusals import Backoff
from upstreams.model.steps import Answer, Call, Page
from upstreams.platforms.bluesky import PLATFORM

Json = dict[str, Any]

_SIGNED_IN = {"identifier": "me.bsky.social", "password": "app-pass-word"}
_DID_URL = "https://bsky.app/profile/did:plc:ada/post/3lada"
_NEW_YEAR = "Wed, 01 Jan 2025 00:00:00 GMT"
_LISTS = {
    "user/posts": {"handle": "ada.bsky.social", "limit": 20},
    "followers": {"handle": "ada.example.org"},
    "following": {"user_id": "plc:ada"},
    "post/likes": {"url": "https://bsky.app/profile/ada.bsky.social/post/3lada"},
    "search/users": {"query": "parsers"},
    "search": {"query": "parsers"},
}


def _record(resource: str, upstream: Upstream, **params: str | int) -> Json:
    result = single_of(PLATFORM, resource, params, upstream)
    return result.record


def _page(resource: str, upstream: Upstream, **params: str | int) -> Page:
    return page_of(PLATFORM, resource, params, upstream, credentials=_SIGNED_IN)


def _post(view: Json) -> Json:
    return _record("post", always({"posts": [view]}), url=_DID_URL)


def _calls_of(resource: str, *answers: Answer, **params: str | int) -> list[Call]:
    """Return the calls that a read makes if it receives these answers in order."""
    waiting = iter(answers)
    calls, answer = watched(lambda _host_and_path, _call: next(waiting))
    drive(PLATFORM, resource, params, answer, credentials=_SIGNED_IN)
    return [call for _, call in calls]


@pytest.mark.parametrize("place", range(6))
def test_recorded_profiles_of_a_batch_match_the_table(place: int) -> None:
    actor = recorded("bluesky", "getProfiles__six.json").body["profiles"][place]
    assert _record("profile", always(actor), handle="alice.test") == cases.author(actor)


@pytest.mark.parametrize("place", range(6))
def test_recorded_posts_of_every_kind_match_the_table(place: int) -> None:
    view = recorded("bluesky", "getPosts.json").body["posts"][place]
    assert _post(view) == cases.post(view)


def test_recorded_video_has_playlist_and_thumbnail() -> None:
    view = recorded("bluesky", "post_view_video.json").body
    found = _post(view)
    assert found == cases.post(view)
    assert found["content"]["media_urls"] == ["https://bsky.public.url/vid/user(1)/cids(3)/playlist.m3u8"]
    assert found["content"]["thumbnail_url"] == "https://bsky.public.url/vid/user(1)/cids(3)/thumbnail.jpg"


def test_recorded_quote_with_images_has_the_images() -> None:
    view = recorded("bluesky", "getPostThread__embed_media_2023.json").body["thread"]["post"]
    found = _post(view)
    assert found == cases.post(view)
    assert len(found["content"]["media_urls"]) == 1


def test_recorded_link_card_has_link_and_image() -> None:
    """The recording comes from a supplier, which wraps Bluesky's thread node in its own format."""
    node = recorded("bluesky", "public_post_thread__2025.json").body
    found = _post(node["post"])
    assert found == cases.post(node["post"])
    assert found["ext"]["link"] == "http://spr.ly/63320N4OEy"
    assert found["content"]["thumbnail_url"].startswith("https://cdn.bsky.app/img/feed_thumbnail/")
    assert _page("post/comments", always({"thread": node}), url=_DID_URL).records == cases.comments(node)


def test_recorded_quotes_are_read_like_search_results() -> None:
    """There is no recording of a search, because it requires an account. Its rows have the same format as getQuotes."""
    body = recorded("bluesky", "getQuotes.json").body

    def answer(host_and_path: str, _call: Call) -> Answer:
        return told({"accessJwt": "token"} if host_and_path.endswith("createSession") else {**body, "hitsTotal": 2})

    page = _page("search", answer, query="quotes")
    assert page.records == [cases.post(view) for view in body["posts"]]
    assert (page.total, page.next) == (2, None)


def test_repost_has_reposter_and_time() -> None:
    reason = {
        "$type": "app.bsky.feed.defs#reasonRepost",
        "by": {"did": "did:plc:bob", "handle": "bob.test"},
        "indexedAt": "2025-02-01T10:00:00.250Z",
    }
    body = {"feed": [{"post": {"uri": "at://did:plc:ada/app.bsky.feed.post/3l"}, "reason": reason}]}
    row = _page("user/posts", always(body), handle="bob.test").records[0]
    assert (row["ext"]["reposted_by"], row["ext"]["reposted_at"]) == ("bob.test", "2025-02-01T10:00:00.250Z")
    assert row["flags"]["pinned"] is None


def test_pinned_post_is_flagged() -> None:
    row = {"post": {"uri": "at://x/app.bsky.feed.post/3l"}, "reason": {"$type": "app.bsky.feed.defs#reasonPin"}}
    page = _page("user/posts", always({"feed": [row]}), handle="bob.test")
    assert page.records[0]["flags"]["pinned"] is True
    assert page.records[0]["ext"]["reposted_by"] is None


@pytest.mark.parametrize(
    ("labels", "nsfw"),
    [
        ([{"val": "porn"}], True),
        ([{"val": "graphic-media"}, {"val": "spam"}], True),
        ([{"val": "nudity", "neg": True}], False),
        ([{"val": "!no-unauthenticated"}], False),
        ([], False),
        (None, None),
    ],
)
def test_current_adult_labels_make_a_post_nsfw(labels: list[Json] | None, nsfw: bool | None) -> None:
    view: Json = {"uri": "at://x/app.bsky.feed.post/3l"}
    assert _post(view if labels is None else {**view, "labels": labels})["flags"]["nsfw"] is nsfw


@pytest.mark.parametrize(
    ("counts", "shares"),
    [({"repostCount": 2, "quoteCount": 3}, 5), ({"repostCount": 2}, 2), ({"quoteCount": 0}, 0), ({}, None)],
)
def test_shares_sum_known_reposts_and_quotes(counts: Json, shares: int | None) -> None:
    assert _post({"uri": "at://x/app.bsky.feed.post/3l", **counts})["engagement"]["shares"] == shares


def test_gallery_has_images_and_the_first_preview() -> None:
    items = [{"fullsize": f"https://cdn/{n}", "thumbnail": f"https://cdn/{n}-small"} for n in (1, 2)]
    content = _post({"uri": "at://x/y/3l", "embed": {"$type": "app.bsky.embed.gallery#view", "items": items}})[
        "content"
    ]
    assert content["media_urls"] == ["https://cdn/1", "https://cdn/2"]
    assert content["thumbnail_url"] == "https://cdn/1-small"


def test_first_language_of_a_post_is_its_language() -> None:
    found = _post({"uri": "at://x/y/3l", "record": {"langs": ["pt-BR", "en"]}})
    assert (found["ext"]["language"], found["ext"]["langs"]) == ("pt-BR", ["pt-BR", "en"])


@pytest.mark.parametrize(
    ("status", "verified"),
    [
        ("valid", True),
        ("invalid", False),
        ("none", False),
        ("something new", None),
        (None, None),
        (True, None),
        ([], None),
    ],
)
def test_verified_follows_from_the_known_status(status: Any, verified: bool | None) -> None:
    actor = {"did": "did:plc:ada", "verification": {"verifiedStatus": status}}
    assert _record("profile", always(actor), handle="ada.test")["verified"] is verified


def test_account_with_invalid_handle_is_addressed_by_did() -> None:
    found = _record("profile", always({"did": "did:plc:ada", "handle": "handle.invalid"}), user_id="plc:ada")
    assert found["url"] == "https://bsky.app/profile/did:plc:ada"


def test_deleted_or_blocked_replies_are_tombstones() -> None:
    gone = {"$type": "app.bsky.feed.defs#notFoundPost", "uri": "at://x/app.bsky.feed.post/gone", "notFound": True}
    blocked = {
        "$type": "app.bsky.feed.defs#blockedPost",
        "uri": "at://y/app.bsky.feed.post/blocked",
        "blocked": True,
        "author": {"did": "did:plc:y"},
    }
    reply = {"post": {"uri": "at://z/app.bsky.feed.post/kept"}, "replies": [blocked]}
    thread = {"post": {"uri": "at://x/app.bsky.feed.post/root"}, "replies": [gone, reply]}
    first, second = _page("post/comments", always({"thread": thread}), url=_DID_URL).records
    assert (first["id"], first["flags"]["deleted"], first["text"], first["author"]) == ("gone", True, None, None)
    assert (second["id"], second["flags"]["deleted"], second["parent_id"]) == ("kept", None, "root")
    below = second["replies"][0]
    assert (below["id"], below["parent_id"], below["post_id"]) == ("blocked", "kept", "root")
    assert (below["flags"]["deleted"], below["author"]) == (True, None)


def test_reply_without_an_id_is_omitted() -> None:
    """A post without an id cannot be returned, not even as a deleted one."""
    kept = {"$type": "app.bsky.feed.defs#somethingNew", "uri": "at://x/app.bsky.feed.post/new"}
    replies = [{}, {"post": None}, {"post": {}, "uri": 5}, None, "gone", kept]
    thread = {"post": {"uri": "at://x/app.bsky.feed.post/root"}, "replies": replies}
    [row] = _page("post/comments", always({"thread": thread}), url=_DID_URL).records
    assert (row["id"], row["flags"]["deleted"]) == ("new", True)


@pytest.mark.parametrize(
    "record_view",
    [
        {"$type": "app.bsky.embed.record#viewBlocked", "uri": "at://y/z/3", "blocked": True},
        {"$type": "app.bsky.embed.record#viewNotFound", "uri": "at://y/z/3", "notFound": True},
        {"$type": "app.bsky.embed.record#viewDetached", "uri": "at://y/z/3", "detached": True},
        {"$type": "app.bsky.graph.defs#starterPackViewBasic", "uri": "at://y/z/3"},
        {},
        None,
        "gone",
    ],
)
def test_media_next_to_any_quoted_post_are_kept(record_view: Any) -> None:
    media = {
        "$type": "app.bsky.embed.images#view",
        "images": [{"thumb": "https://cdn/t", "fullsize": "https://cdn/f", "alt": ""}, None, {"fullsize": None}],
    }
    embed = {"$type": "app.bsky.embed.recordWithMedia#view", "record": {"record": record_view}, "media": media}
    post = _post({"uri": "at://x/app.bsky.feed.post/3l", "record": {"text": "see"}, "embed": embed})
    assert (post["content"]["media_urls"], post["content"]["thumbnail_url"]) == (["https://cdn/f"], "https://cdn/t")
    alone = _post({"uri": "at://x/y/3l", "embed": {"$type": "app.bsky.embed.record#view", "record": record_view}})
    assert (alone["content"]["media_urls"], alone["ext"]["link"]) == ([], None)


@given(st.integers(1, 30), st.integers(1, 12))
def test_reply_tree_is_limited_to_the_requested_depth(levels: int, depth: int) -> None:
    """Goal: the answer does not exceed the nesting limit of JSON.

    Method: threads that are deeper than the requested depth.
    """
    node: Json = {"post": {"uri": "at://x/y/leaf"}}
    for level in range(levels):
        node = {"post": {"uri": f"at://x/y/{level}"}, "replies": [node]}
    rows = _page("post/comments", always({"thread": node}), url=_DID_URL, depth=depth).records
    deep = 0
    while rows:
        deep, rows = deep + 1, rows[0]["replies"]
    assert deep == min(levels, depth)


@pytest.mark.parametrize("replies", ["none", {"0": {}}, 3, True])
def test_unreadable_replies_are_not_an_empty_list(replies: Any) -> None:
    thread = {"post": {"uri": "at://x/app.bsky.feed.post/root"}, "replies": replies}
    with pytest.raises(UpstreamFailed):
        _page("post/comments", always({"thread": thread}), url=_DID_URL)
    below = {"post": {"uri": "at://x/app.bsky.feed.post/root"}, "replies": [thread]}
    assert _page("post/comments", always({"thread": below}), url=_DID_URL).records[0]["replies"] == []


def test_all_replies_are_returned_even_over_a_thousand() -> None:
    replies = [{"post": {"uri": f"at://x/app.bsky.feed.post/{number}"}} for number in range(1_500)]
    thread = {"post": {"uri": "at://x/app.bsky.feed.post/root"}, "replies": replies}
    assert len(_page("post/comments", always({"thread": thread}), url=_DID_URL).records) == 1_500


def test_thread_without_its_root_is_not_found() -> None:
    gone = {"$type": "app.bsky.feed.defs#notFoundPost", "uri": "at://x/y/3l", "notFound": True}
    with pytest.raises(NotFound):
        _page("post/comments", always({"thread": gone}), url=_DID_URL)


def test_post_missing_in_the_answer_is_not_found() -> None:
    with pytest.raises(NotFound):
        _record("post", always({"posts": []}), url=_DID_URL)


def test_handle_in_a_url_is_resolved_first() -> None:
    resolve, posts = _calls_of(
        "post",
        told({"did": "did:plc:ada"}),
        told({"posts": [{"uri": "at://did:plc:ada/app.bsky.feed.post/3lada"}]}),
        url="https://bsky.app/profile/ada.test/post/3lada",
    )
    assert (resolve.path, resolve.query) == ("/com.atproto.identity.resolveHandle", {"handle": "ada.test"})
    assert posts.query == {"uris": "at://did:plc:ada/app.bsky.feed.post/3lada"}


@pytest.mark.parametrize(
    "url",
    [
        _DID_URL,
        "bsky.app/profile/did%3Aplc%3Aada/post/3lada?ref=share",
        "https://bsky.app/profile/did:plc:ada/post/3lada/liked-by",
        "at://did:plc:ada/app.bsky.feed.post/3lada",
    ],
)
def test_url_with_a_did_needs_no_lookup(url: str) -> None:
    calls = _calls_of("post/likes", told({"likes": []}), url=url)
    assert [call.query["uri"] for call in calls] == ["at://did:plc:ada/app.bsky.feed.post/3lada"]


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/profile/ada.test/post/3l",
        "https://bsky.app/profile/ada.test",
        "https://bsky.app/profile/ada.test/feed/3l",
        "at://did:plc:ada/app.bsky.feed.like/3l",
    ],
)
def test_url_without_a_post_is_refused_before_any_call(url: str) -> None:
    with pytest.raises(InvalidArgument):
        _calls_of("post", url=url)


def test_search_signs_in_and_runs_at_the_pds() -> None:
    sign_in, search = _calls_of("search", told({"accessJwt": "token"}), told({"posts": []}), query="parsers")
    assert (sign_in.source, sign_in.method, sign_in.json) == ("sign_in", "POST", _SIGNED_IN)
    assert PLATFORM.sources["sign_in"] == PLATFORM.sources["pds"]
    assert (search.source, search.needs_session) == ("pds", True)


def test_sign_in_sets_the_header_of_later_calls() -> None:
    assert PLATFORM.open_session is not None
    steps = PLATFORM.open_session(_SIGNED_IN)
    next(steps)
    with pytest.raises(StopIteration) as done:
        steps.send(told({"accessJwt": "token"}))
    assert done.value.value.headers == (("authorization", "Bearer token"),)


@pytest.mark.parametrize("signed_in", [{"did": "did:plc:ada"}, {"accessJwt": "t" * 1_000_000}])
def test_sign_in_without_a_usable_token_fails(signed_in: dict[str, str]) -> None:
    with pytest.raises(UpstreamFailed):
        _page("search", always(signed_in), query="parsers")


def test_empty_page_with_a_cursor_is_not_the_last() -> None:
    page = _page("user/posts", always({"feed": [], "cursor": "2025-01-01T00:00:00Z"}), handle="ada.test")
    assert (page.records, page.next) == ([], {"c": "2025-01-01T00:00:00Z"})


@pytest.mark.parametrize("resource", _LISTS)
def test_page_without_a_cursor_is_the_last(resource: str) -> None:
    names = ("feed", "followers", "follows", "likes", "actors", "posts")
    body = {"accessJwt": "token", "did": "did:plc:ada", **{name: [] for name in names}}
    page = _page(resource, always(body), **_LISTS[resource])
    assert (page.records, page.next) == ([], None)


def test_repeated_cursor_ends_the_list() -> None:
    """Bluesky repeats the last cursor if a page has no visible items."""
    upstream = always({"followers": [{"did": "did:plc:ada"}], "cursor": "3l"})
    page = page_of(PLATFORM, "followers", {"handle": "ada.test"}, upstream, cursor={"c": "3l"})
    assert (len(page.records), page.next) == (1, None)
    assert _page("followers", upstream, handle="ada.test").next == {"c": "3l"}


def test_numeric_cursor_is_accepted() -> None:
    assert _page("followers", always({"followers": [], "cursor": 1735689600}), handle="a.b").next == {"c": "1735689600"}


def test_later_page_sends_the_cursor() -> None:
    calls, answer = watched(always({"feed": []}))
    drive(PLATFORM, "user/posts", {"handle": "ada.test", "limit": 7}, answer, cursor={"c": "next"})
    assert calls[0][1].query == {"actor": "ada.test", "filter": "posts_with_replies", "limit": 7, "cursor": "next"}


@pytest.mark.parametrize(
    ("error", "message", "reason"),
    [
        ("InvalidRequest", "Profile not found", None),
        ("InvalidRequest", "Actor not found: cursor.test", None),
        ("InvalidRequest", "Unable to resolve handle", None),
        ("InvalidRequest", "Error: actor must be a valid did or a handle", None),
        ("NotFound", "Post not found: at://x/app.bsky.feed.post/3l", None),
        ("HandleNotFound", "", None),
        ("AccountTakedown", "Account has been suspended", "account_gone"),
        ("AccountDeactivated", "Account is deactivated", "account_gone"),
        ("BlockedActor", "Requester has blocked actor: did:plc:ada", "account_private"),
        ("BlockedByActor", "Requester is blocked by actor: did:plc:ada", "account_private"),
    ],
)
def test_error_about_a_missing_subject_means_not_found(error: str, message: str, reason: str | None) -> None:
    with pytest.raises(NotFound) as refusal:
        _record("profile", always({"error": error, "message": message}, 400), handle="ada.test")
    assert refusal.value.reason == reason


@pytest.mark.parametrize(
    ("error", "message", "param"),
    [
        ("InvalidRequest", "Error: limit can not be greater than 100", "limit"),
        ("InvalidRequest", "Error: uri must be a valid at-uri", "url"),
        ("BadQueryString", "unbalanced quotes", "query"),
    ],
)
def test_parameter_error_names_our_parameter(error: str, message: str, param: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        _page("user/posts", always({"error": error, "message": message}, 400), handle="ada.test")
    assert refusal.value.param == param


def test_rejected_cursor_is_a_stale_cursor() -> None:
    with pytest.raises(StaleCursor, match="Malformed cursor"):
        _page("user/posts", always({"error": "InvalidRequest", "message": "Malformed cursor"}, 400), handle="ada.test")


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry_after": "7"}, 7.0),
        ({"ratelimit_reset": "1735689630", "date": "Wed, 01 Jan 2025 00:00:00 GMT"}, 30.0),
        ({"ratelimit_reset": "1735776000", "date": "Wed, 01 Jan 2025 00:00:00 GMT"}, 300.0),
        ({"ratelimit_reset": "1735689600", "date": "Wed, 01 Jan 2025 00:00:05 GMT"}, None),
        ({"ratelimit_reset": "1735689630", "date": "soon"}, None),
        ({"ratelimit_reset": "soon", "date": "Wed, 01 Jan 2025 00:00:00 GMT"}, None),
    ],
)
def test_throttling_waits_for_the_reset(headers: dict[str, str], wait_s: float | None) -> None:
    answer = always({"error": "RateLimitExceeded", "message": "Rate Limit Exceeded"}, 429, **headers)
    with pytest.raises(UpstreamThrottled) as refusal:
        _record("profile", answer, handle="ada.test")
    assert refusal.value.retry_after_s == wait_s


@pytest.mark.parametrize(
    ("headers", "backoff"),
    [
        ({}, None),
        ({"ratelimit_remaining": "1", "ratelimit_reset": "1735689630", "date": _NEW_YEAR}, None),
        ({"ratelimit_remaining": "0", "ratelimit_reset": "1735689630", "date": _NEW_YEAR}, Backoff(30.0, "source")),
        ({"ratelimit_remaining": "0", "ratelimit_reset": "1735776000", "date": _NEW_YEAR}, Backoff(300.0, "source")),
        ({"ratelimit_remaining": "0", "ratelimit_reset": "1735689600", "date": _NEW_YEAR}, None),
        ({"ratelimit_remaining": "0", "ratelimit_reset": "1735689630"}, None),
        ({"ratelimit_remaining": "0", "ratelimit_reset": "soon", "date": _NEW_YEAR}, None),
    ],
)
def test_exhausted_quota_in_a_success_pauses_the_source(headers: dict[str, str], backoff: Backoff | None) -> None:
    assert PLATFORM.rest(told({"did": "did:plc:ada"}, **headers)) == backoff


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("<html>502 Bad Gateway</html>", 502),
        ("<html>Forbidden</html>", 403),
        ({"error": "InvalidRequest", "message": "something else"}, 400),
        ({"error": "ExpiredToken", "message": "Token has expired"}, 400),
        ("not even JSON", 400),
        ({}, 400),
        ({"feed": {}}, 200),
        ({}, 200),
        (["feed"], 200),
        ("<html>maintenance</html>", 200),
    ],
)
def test_unreadable_answer_is_an_upstream_failure(body: Any, status: int) -> None:
    with pytest.raises(UpstreamFailed):
        _page("user/posts", always(body, status), handle="ada.test")
