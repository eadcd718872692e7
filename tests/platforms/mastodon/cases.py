"""Mastodon's recordings as cases, compared with a table of the fields.

These recordings belong to no endpoint: `doc_accounts_multi.json` (several accounts by number), `directory.json`,
`account_search__admin.json` and `timeline_public_anonymous.json` (lists that are not offered), `status_history.json`,
`doc_status_card.json` and `instance_v2__mastodon_social.json` (which have no archetype), and `home_timeline_401.json`.
The accounts and statuses in them are still read as rows (`ROWS`).
"""

from __future__ import annotations

from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, below, each, rows, table, utc
from upstreams.model.archetypes import analytics, author, byline, comment, post
from upstreams.model.errors import NotFound
from upstreams.model.fields import plain

_API = "mastodon.social/api"
_TAG = "fgiztsshwiaqqiztpmmjbtvmescsculuvmgjgopwoeidbcrixp"


def text(path: str) -> Any:
    """Return the text of HTML."""
    return lambda row: plain(at(row, path))


def _verified(row: Json) -> bool | None:
    return any(link["verified_at"] for link in links) if (links := at(row, "fields")) else None


def _field(field: Json) -> str | None:
    return ": ".join(filter(None, (field["name"], text("value")(field)))) or None


_BYLINE: dict[str, Any] = {
    **{name: name for name in ("id", "display_name", "url")},
    "username": "acct",
    "avatar_url": "avatar",
    "verified": _verified,
}
ACCOUNT = table(
    author,
    **_BYLINE,
    bio=text("note"),
    followers="followers_count",
    following="following_count",
    posts_count="statuses_count",
    private="locked",
    joined_at=utc("created_at"),
    ext={"bot": "bot", "fields": each("fields", _field), "last_status_at": "last_status_at"},
)
STATUS = table(
    post,
    id="id",
    url="url",
    text=text("content"),
    author=below("account", table(byline, **_BYLINE)),
    media_urls=each("media_attachments", "url"),
    thumbnail_url="media_attachments.0.preview_url",
    likes="favourites_count",
    comments="replies_count",
    shares="reblogs_count",
    nsfw="sensitive",
    published_at=utc("created_at"),
    ext={
        "language": "language",
        "spoiler_text": "spoiler_text",
        "tags": each("tags", "name"),
        "reblog": "reblog.url",
        "reblog_author": "reblog.account.acct",
        "reblog_text": text("reblog.content"),
        "edited_at": utc("edited_at"),
        "quotes_count": "quotes_count",
    },
)
REPLY = table(
    comment,
    id="id",
    url="url",
    parent_id="in_reply_to_id",
    post_id=lambda _row: "7",
    text=text("content"),
    author=below("account", table(byline, **_BYLINE)),
    likes="favourites_count",
    replies_count="replies_count",
    published_at=utc("created_at"),
)
LINK = table(
    post,
    id="url",
    url="url",
    text=lambda row: "\n\n".join(filter(None, (text("title")(row), text("description")(row)))) or None,
    author=table(byline, display_name="author_name", url="author_url"),
    thumbnail_url="image",
    published_at=utc("published_at"),
    ext={"language": "language", "provider": "provider_name", "uses": lambda row: int(row["history"][0]["uses"])},
)


def hashtags(path: str) -> Any:
    """Return the ranked tags at a path."""

    def read(body: Any) -> Json:
        uses = [[int(day["uses"]) for day in tag["history"]] for tag in at(body, path)]
        items = [
            {
                "rank": place + 1,
                "name": tag["name"],
                "url": tag["url"],
                "value": counts[0],
                "change": counts[0] - counts[1],
            }
            for place, (tag, counts) in enumerate(zip(at(body, path), uses, strict=True))
        ]
        return analytics(period="day", region=None, items=items)

    return read


_HISTORY = [{"day": "1735603200", "uses": "30"}, {"day": "1735516800", "uses": "42"}]
_ACCOUNT: Json = {
    "id": "4711",
    "acct": "ada@example.org",
    "display_name": "Ada",
    "avatar": "https://cdn.example.com/ada.png",
    "url": "https://example.org/@ada",
    "note": "<p>Writes <b>parsers</b></p>",
    "followers_count": 12,
    "following_count": 7,
    "statuses_count": 5,
    "locked": False,
    "bot": True,
    "created_at": "2023-05-01T00:00:00.000Z",
    "last_status_at": "2024-12-31",
    "fields": [
        {
            "name": "Site",
            "value": '<a href="https://ada.example.org">ada</a>',
            "verified_at": "2023-05-02T10:00:00.000+00:00",
        }
    ],
}
_STATUS: Json = {
    "id": "70",
    "url": "https://example.org/@ada/70",
    "content": "<p>Parsers, <br>all the way down.</p>",
    "account": _ACCOUNT,
    "media_attachments": [{"url": "https://cdn.example.com/1.png", "preview_url": "https://cdn.example.com/1s.png"}],
    "favourites_count": 3,
    "replies_count": 2,
    "reblogs_count": 4,
    "quotes_count": 1,
    "sensitive": True,
    "in_reply_to_id": "7",
    "created_at": "2023-05-01T10:00:00.250Z",
    "edited_at": "2023-05-01T11:00:00.000Z",
    "language": "en",
    "spoiler_text": "long",
    "tags": [{"name": "parsers"}],
    "reblog": {"id": "69", "url": "https://example.net/@bob/69", "content": "<p>Yes</p>", "account": {"acct": "bob"}},
}
_CARD: Json = {
    "url": "https://example.com/news",
    "title": "News",
    "description": "What happened.",
    "author_name": "Bob",
    "author_url": "https://example.com/bob",
    "provider_name": "Example",
    "image": "https://cdn.example.com/news.png",
    "language": "en",
    "published_at": "2024-12-31T10:00:00.000Z",
    "history": _HISTORY,
}
_TREND: Json = {"name": "python", "url": "https://mastodon.social/tags/python", "history": _HISTORY}


def _tagged(name: str, file: str, *, has_more: bool) -> Case:
    answers = {f"{_API}/v1/timelines/tag/{_TAG}": file}
    return Case(name, "hashtag", {"tag": _TAG, "limit": 10}, answers, rows("", STATUS), has_more=has_more)


def _of_account(name: str, resource: str, path: str, body: Any, read: Any, **more: Any) -> Case:
    answers = {f"{_API}/v1/accounts/99/{path}": body}
    return Case(name, resource, {"user_id": "99"}, answers, rows("", read), **more)


def _of_post(name: str, resource: str, path: str, body: Any, read: Any, **more: Any) -> Case:
    params = {"id": "7", "limit": 80}
    return Case(name, resource, params, {f"{_API}/v1/statuses/7/{path}": body}, read, **more)


def _found(name: str, resource: str, body: Any, read: Any) -> Case:
    return Case(name, resource, {"query": "parsers"}, {f"{_API}/v2/search": body}, read)


CASES: tuple[Case, ...] = (
    *(
        Case("an account by name", "profile", {"handle": "ada"}, {f"{_API}/v1/accounts/lookup": file}, ACCOUNT)
        for file in ("account_lookup__admin.json", "account_lookup__mastodonpy_test.json", _ACCOUNT)
    ),
    *(
        Case("an account by number", "profile", {"user_id": "1"}, {f"{_API}/v1/accounts/1": file}, ACCOUNT)
        for file in ("account__mastodonpy_test.json", "doc_account__gargron_basic.json", _ACCOUNT)
    ),
    Case(
        "an account that is not there",
        "profile",
        {"handle": "nobody"},
        {f"{_API}/v1/accounts/lookup": "account_lookup__404.json"},
        refused=NotFound,
    ),
    Case(
        "an instance that answers signed-in accounts alone",
        "profile",
        {"user_id": "1"},
        {f"{_API}/v1/accounts/1": "doc_account_401_authorized_fetch.json"},
        refused=NotFound,
        reason="account_private",
    ),
    Case(
        "posts of an account",
        "profile/posts",
        {"user_id": "117020565966271181", "limit": 5},
        {f"{_API}/v1/accounts/117020565966271181/statuses": "account_statuses__limit5.json"},
        rows("", STATUS),
        has_more=True,
    ),
    _of_account("posts of an account, a boost among them", "profile/posts", "statuses", [_STATUS], STATUS),
    Case(
        "no followers",
        "followers",
        {"user_id": "117020457910412882"},
        {f"{_API}/v1/accounts/117020457910412882/followers": "account_followers__empty.json"},
        rows("", ACCOUNT),
        has_more=False,
    ),
    _of_account("followers", "followers", "followers", [_ACCOUNT], ACCOUNT),
    _of_account("followed accounts", "following", "following", [_ACCOUNT], ACCOUNT),
    *(
        Case("a post", "post", {"id": "1"}, {f"{_API}/v1/statuses/1": file}, STATUS)
        for file in ("status.json", "doc_status.json", _STATUS)
    ),
    Case("no such post", "post", {"id": "0"}, {f"{_API}/v1/statuses/0": "status_404.json"}, refused=NotFound),
    Case(
        "a reply",
        "comment",
        {"id": "71"},
        {f"{_API}/v1/statuses/71": {**_STATUS, "id": "71", "in_reply_to_id": "70"}},
        lambda body: {**REPLY(body), "post_id": None},
    ),
    Case("a post is no reply", "comment", {"id": "1"}, {f"{_API}/v1/statuses/1": "status.json"}, refused=NotFound),
    _of_post(
        "no replies",
        "post/comments",
        "context",
        "status_context_empty.json",
        rows("descendants", REPLY),
        has_more=False,
    ),
    _of_post(
        "replies",
        "post/comments",
        "context",
        {"descendants": [_STATUS, {**_STATUS, "id": "71"}]},
        rows("descendants", REPLY),
    ),
    *(
        _of_post("accounts that liked a post", "post/likes", "favourited_by", body, rows("", ACCOUNT), has_more=False)
        for body in ("status_favourited_by.json", [_ACCOUNT])
    ),
    *(
        _of_post(
            "accounts that boosted a post", "post/reposts", "reblogged_by", body, rows("", ACCOUNT), has_more=False
        )
        for body in ("status_reblogged_by.json", [_ACCOUNT])
    ),
    _tagged("a hashtag's first page", "timeline_tag__p1.json", has_more=True),
    _tagged("a hashtag's second page", "timeline_tag__p2.json", has_more=True),
    _tagged("a hashtag's third page", "timeline_tag__p3.json", has_more=True),
    _tagged("a hashtag's end", "timeline_tag__p4_empty_end.json", has_more=False),
    Case("a hashtag", "hashtag", {"tag": "parsers"}, {f"{_API}/v1/timelines/tag/parsers": [_STATUS]}, rows("", STATUS)),
    _found("no posts by query", "search", "search_statuses_empty.json", rows("statuses", STATUS)),
    _found("posts by query", "search", {"statuses": [_STATUS]}, rows("statuses", STATUS)),
    _found("accounts by query", "search/users", "search_accounts.json", rows("accounts", ACCOUNT)),
    _found("an account by query", "search/users", {"accounts": [_ACCOUNT]}, rows("accounts", ACCOUNT)),
    _found("hashtags by query", "search/hashtags", {"hashtags": [_TREND]}, hashtags("hashtags")),
    *(
        Case("posts that trend", "trending", {}, {f"{_API}/v1/trends/statuses": body}, rows("", STATUS), has_more=False)
        for body in ("trends_statuses_empty.json", [_STATUS])
    ),
    Case(
        "links that trend", "trending/links", {}, {f"{_API}/v1/trends/links": [_CARD]}, rows("", LINK), has_more=False
    ),
    *(
        Case("hashtags that trend", "trending/hashtags", {}, {f"{_API}/v1/trends/tags": body}, hashtags(""))
        for body in ("trends_tags_empty.json", [_TREND])
    ),
)
ROWS = (
    ("doc_accounts_multi.json", ACCOUNT),
    ("directory.json", ACCOUNT),
    ("account_search__admin.json", ACCOUNT),
    ("timeline_public_anonymous.json", STATUS),
)
"""Recordings of other lists that contain the same kind of rows."""
