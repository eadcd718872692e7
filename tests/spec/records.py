"""The records of 2.2 and of section 3 of the decisions as data: every field with its type; any field may be null.

Later records are not repeated here. `tests/upstreams/model/records.txt` has the fields of all records, and responses
are checked against their published schemas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

TEXT, COUNT, NUMBER, TRUTH, TIME, URL, EXT, TEXTS = "text", "count", "number", "truth", "time", "url", "ext", "texts"
ITSELF = "itself"
"""A list of records of the same kind."""
Shape = Mapping[str, Any]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

BYLINE: Shape = {
    "id": TEXT,
    "username": TEXT,
    "display_name": TEXT,
    "avatar_url": URL,
    "verified": TRUTH,
    "url": URL,
}
RECORDS: Mapping[str, Shape] = {
    "page": {
        "url": URL,
        "final_url": URL,
        "status_code": COUNT,
        "fetched_at": TIME,
        "source_type": TEXT,
        "page_count": COUNT,
        "content": {"text": TEXT, "markdown": TEXT, "html": TEXT, "raw_html": TEXT, "summary": TEXT},
        "links": TEXTS,
        "media": {"screenshot_url": URL},
        "extraction": EXT,
        "metadata": {
            "title": TEXT,
            "description": TEXT,
            "language": TEXT,
            "published_at": TIME,
            "author": TEXT,
            "site_name": TEXT,
            "image_url": URL,
            "canonical_url": URL,
        },
        "fetch": {"cache_state": TEXT},
    },
    "author": {
        "id": TEXT,
        "username": TEXT,
        "display_name": TEXT,
        "avatar_url": URL,
        "bio": TEXT,
        "verified": TRUTH,
        "followers": COUNT,
        "following": COUNT,
        "posts_count": COUNT,
        "likes_count": COUNT,
        "url": URL,
        "private": TRUTH,
        "joined_at": TIME,
        "last_post_at": TIME,
        "location": TEXT,
        "external_url": URL,
        "ext": EXT,
    },
    "post": {
        "id": TEXT,
        "url": URL,
        "content": {"text": TEXT, "media_urls": TEXTS, "thumbnail_url": URL, "duration_seconds": NUMBER},
        "author": BYLINE,
        "engagement": {"views": COUNT, "likes": COUNT, "comments": COUNT, "shares": COUNT, "saves": COUNT},
        "flags": {
            **dict.fromkeys(("pinned", "deleted", "nsfw", "spoiler"), TRUTH),
            **dict.fromkeys(("likes_hidden", "comments_hidden", "views_hidden"), TRUTH),
        },
        "published_at": TIME,
        "ext": EXT,
    },
    "comment": {
        "id": TEXT,
        "url": URL,
        "parent_id": TEXT,
        "post_id": TEXT,
        "text": TEXT,
        "author": BYLINE,
        "engagement": {"likes": COUNT, "replies": COUNT},
        "flags": {"pinned": TRUTH, "deleted": TRUTH},
        "published_at": TIME,
        "replies": ITSELF,
        "ext": EXT,
    },
    "repository": {
        "id": TEXT,
        "url": URL,
        "full_name": TEXT,
        "name": TEXT,
        "owner": {"username": TEXT, "avatar_url": URL, "type": TEXT},
        "description": TEXT,
        "homepage": TEXT,
        "language": TEXT,
        "topics": TEXTS,
        "license": TEXT,
        "stars": COUNT,
        "forks": COUNT,
        "watchers": COUNT,
        "open_issues": COUNT,
        "size_kb": COUNT,
        "default_branch": TEXT,
        "archived": TRUTH,
        "fork": TRUTH,
        "created_at": TIME,
        "updated_at": TIME,
        "pushed_at": TIME,
    },
    "release": {
        "id": TEXT,
        "url": URL,
        "tag": TEXT,
        "name": TEXT,
        "text": TEXT,
        "prerelease": TRUTH,
        "author": TEXT,
        "published_at": TIME,
        "ext": EXT,
    },
    "article": {
        "id": TEXT,
        "url": URL,
        "title": TEXT,
        "text": TEXT,
        "description": TEXT,
        "image_url": URL,
        "language": TEXT,
        "updated_at": TIME,
        "ext": EXT,
    },
    "app": {
        "id": TEXT,
        "store": TEXT,
        "url": URL,
        "title": TEXT,
        "subtitle": TEXT,
        "description": TEXT,
        "icon": URL,
        "image_urls": TEXTS,
        "developer": {"id": TEXT, "name": TEXT, "url": URL, "website": URL},
        "category": TEXT,
        "categories": TEXTS,
        "price": {"current": NUMBER, "currency": TEXT, "displayed": TEXT, "is_free": TRUTH},
        "rating": {"value": NUMBER, "max": NUMBER, "count": COUNT},
        "reviews_count": COUNT,
        "installs": {"display": TEXT, "count": COUNT},
        "version": TEXT,
        "size": COUNT,
        "minimum_os_version": TEXT,
        "languages": TEXTS,
        "released_at": TIME,
        "updated_at": TIME,
        "update_notes": TEXT,
        "ext": EXT,
    },
    "review": {
        "id": TEXT,
        "entity_id": TEXT,
        "url": URL,
        "title": TEXT,
        "text": TEXT,
        "rating": {"value": NUMBER, "max": NUMBER},
        "author": {"id": TEXT, "name": TEXT, "url": URL, "reviews_count": COUNT},
        "helpful_votes": COUNT,
        "verified": TRUTH,
        "source": TEXT,
        "images": TEXTS,
        "responses": [{"id": TEXT, "author": TEXT, "text": TEXT, "published_at": TIME}],
        "language": TEXT,
        "published_at": TIME,
        "ext": EXT,
    },
    "place": {
        "id": TEXT,
        "url": URL,
        "name": TEXT,
        "address": TEXT,
        "latitude": NUMBER,
        "longitude": NUMBER,
        "distance_m": NUMBER,
        "category": TEXT,
        "rating": {"value": NUMBER, "count": COUNT},
        "price_level": COUNT,
        "phone": TEXT,
        "website": TEXT,
        "opening_hours": TEXTS,
        "verified": TRUTH,
        "description": TEXT,
        "image_urls": TEXTS,
        "ext": EXT,
    },
    "series": {"subject": TEXT, "unit": TEXT, "points": [{"t": TIME, "value": NUMBER}]},
    "analytics": {
        "period": TEXT,
        "region": TEXT,
        "items": [{"rank": COUNT, "name": TEXT, "url": URL, "value": NUMBER, "change": NUMBER}],
        "ext": EXT,
    },
    "collection": {
        "id": TEXT,
        "url": URL,
        "kind": TEXT,
        "title": TEXT,
        "description": TEXT,
        "owner": BYLINE,
        "items_count": COUNT,
        "followers": COUNT,
        "image_url": URL,
        "released_at": TIME,
        "ext": EXT,
    },
}
COMPUTED: Shape = {
    "engagement_rate": NUMBER,
    "language": TEXT,
    "content_category": TEXT,
    "estimated_reach": NUMBER,
}
WITH_COMPUTED = frozenset(("author", "post"))


def assert_row(key: str, row: Mapping[str, Any], kind: str = "") -> None:
    """Check a row, or the data of a single read: the record under its key and, for some kinds, computed fields.

    `kind` is the kind of record, if it differs from the key.
    """
    assert row.keys() == {key, "computed"} if key in WITH_COMPUTED else not key or row.keys() == {key}
    if (kind or key) in RECORDS:
        assert_record(kind or key, row[key])
    if "computed" in row:
        assert_shape(row["computed"], COMPUTED, key, "computed")
        assert row["computed"]["content_category"], "an unknown kind is `other`"


def assert_record(key: str, record: Mapping[str, Any]) -> None:
    """Check that a record has exactly its kind's fields, each null or of its type, and an id or URL."""
    assert_shape(record, RECORDS[key], key, key)
    assert record["id"] or record["url"] if "id" in RECORDS[key] else True


def assert_shape(value: Any, shape: Shape, key: str, where: str) -> None:
    assert value.keys() == shape.keys(), where
    for name, kind in shape.items():
        if value[name] is not None:
            _assert_kind(value[name], kind, key, f"{where}.{name}")


def _assert_kind(value: Any, kind: Any, key: str, where: str) -> None:
    if isinstance(kind, Mapping):
        assert_shape(value, kind, key, where)
    elif isinstance(kind, list):
        for inner in value:
            assert_shape(inner, kind[0], key, where)
    elif kind == ITSELF:
        for inner in value:
            assert_record(key, inner)
    else:
        assert _KINDS[kind](value), f"{where}: {value!r} is not a valid {kind}"


_KINDS = {
    TEXT: lambda value: isinstance(value, str),
    COUNT: lambda value: type(value) is int,
    NUMBER: lambda value: type(value) in (int, float),
    TRUTH: lambda value: isinstance(value, bool),
    TIME: lambda value: isinstance(value, str) and _TIME.fullmatch(value) is not None,
    URL: lambda value: isinstance(value, str) and value.startswith(("https://", "http://")),
    EXT: lambda value: isinstance(value, dict),
    TEXTS: lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value),
}
