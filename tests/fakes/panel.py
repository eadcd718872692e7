"""Accounts on Bluesky with generated posts, served to a node through its egress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer

DAY_S = 86_400.0


def iso_at(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def feed_post(handle: str, number: int, text: str, at: float) -> dict[str, Any]:
    """Return a post as listed by `getAuthorFeed`."""
    did = f"did:plc:{handle.replace('.', '')}"
    return {
        "post": {
            "uri": f"at://{did}/app.bsky.feed.post/{handle.partition('.')[0]}-{number}",
            "cid": f"cid{number}",
            "author": {"did": did, "handle": handle, "displayName": handle},
            "record": {"$type": "app.bsky.feed.post", "text": text, "createdAt": iso_at(at)},
            "indexedAt": iso_at(at),
            "likeCount": 1,
            "replyCount": 0,
            "repostCount": 0,
        }
    }


@dataclass(slots=True)
class Panel:
    """An upstream script that serves the `posts` of each account, newest first, in pages of `page_rows`.

    `broken` accounts fail. An account in `broken_at` fails from that page on. Other accounts do not exist.
    """

    posts: Mapping[str, Sequence[tuple[str, float]]]
    page_rows: int = 10
    broken: frozenset[str] = frozenset()
    broken_at: Mapping[str, int] = field(default_factory=dict)
    takes_s: float = 0.0
    reads: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often each page was read, by account and page number."""

    def __call__(self, asked: str) -> ScriptedAnswer | None:
        parts = urlsplit("//" + asked)
        if not parts.path.endswith("getAuthorFeed"):
            return None
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        actor, page = query["actor"], int(query.get("cursor", "0"))
        self.reads[actor, page] += 1
        if actor in self.broken or page >= self.broken_at.get(actor, 1_000):
            return json_answer({"error": "InternalServerError", "message": "broken"}, 500)
        if actor not in self.posts:
            return json_answer({"error": "InvalidRequest", "message": "Profile not found"}, 400)
        first = page * self.page_rows
        rows = [
            feed_post(actor, number, text, at)
            for number, (text, at) in enumerate(self.posts[actor][first : first + self.page_rows], first)
        ]
        more = first + self.page_rows < len(self.posts[actor])
        body = {"feed": rows, **({"cursor": str(page + 1)} if more else {})}
        return ScriptedAnswer(200, orjson.dumps(body), {"content-type": "application/json"}, self.takes_s)
