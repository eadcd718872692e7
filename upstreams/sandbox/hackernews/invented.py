"""The invented stories, comments and accounts that both APIs of Hacker News return."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from upstreams.sandbox.invent import EPOCH_S, paragraph, person, seeded, sentence

ROWS = 45
"""The number of rows in every list, which fill three pages of the default size."""
A_COMMENT, ITS_STORY = 2_921_983, 2_921_557
"""The numbers of a comment and of its story, as in Firebase's documentation."""
REPLIES_FROM = 100
COMMENTS_FROM = 90_000_000_000
"""Numbers from this one on are comments: this base, plus a thousand times the story's number, plus the position in the
thread."""

Json = dict[str, Any]


def _name(*subject: object) -> str:
    return person(seeded("hackernews", *subject)).lower().replace(" ", "_")


def place_of(item_id: int) -> tuple[int, int] | None:
    """Return the story of a comment and its position in the thread; None for a story."""
    if item_id == A_COMMENT:
        return ITS_STORY, 1
    return divmod(item_id - COMMENTS_FROM, 1_000) if item_id >= COMMENTS_FROM else None


def comment_id(story_id: int, place: int) -> int:
    """Return the number of the comment at a position of a story's thread."""
    return A_COMMENT if (story_id, place) == (ITS_STORY, 1) else COMMENTS_FROM + story_id * 1_000 + place


def item_time(item_id: int) -> int:
    """Return the time of an item.

    Items with higher numbers are newer, and comments follow their story within minutes.
    """
    if found := place_of(item_id):
        return item_time(found[0]) + 60 * found[1]
    return EPOCH_S + item_id % 100_000_000


def iso(seconds: int) -> str:
    """Return a time in Algolia's format."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def story_of(item_id: int, about: str = "") -> Json:
    """Return a story, in a format that neither API uses.

    Every tenth story is a question, with a text instead of a link.
    """
    rng = seeded("hackernews", item_id)
    asks = item_id % 10 == 0
    title = f"{about and f'{about}: '}{sentence(rng).rstrip('.')}"
    return {
        "title": f"Ask HN: {title}?" if asks else title,
        "by": _name(item_id, "by"),
        "points": rng.randrange(1, 900),
        "comments": 3 * threads_of(item_id),
        "link": None if asks else f"https://example.com/{item_id}",
        "words": f"{paragraph(rng)}<p>It isn&#x27;t <i>all</i>." if asks else None,
    }


def threads_of(story_id: int) -> int:
    """Return the number of top-level comments on a story."""
    return seeded("hackernews", story_id, "threads").randrange(21, ROWS)


def comment_of(story_id: int, place: int, replies: tuple[int, ...], parent_id: int | None = None) -> Json:
    """Return a comment of a thread. The comment at the fifth position is deleted."""
    item_id = comment_id(story_id, place)
    rng, at, gone = seeded("hackernews", item_id), item_time(item_id), place == 5
    return {
        "id": item_id,
        "created_at": iso(at),
        "created_at_i": at,
        "type": "comment",
        "author": None if gone else _name(item_id, "by"),
        "title": None,
        "url": None,
        "text": None if gone else f"{sentence(rng)}<p>{paragraph(rng, 2)} It&#x27;s <i>fine</i>.",
        "points": None,
        "parent_id": parent_id or story_id,
        "story_id": story_id,
        "children": [comment_of(story_id, reply, (), item_id) for reply in replies],
        "options": [],
    }


def replies_of(place: int) -> tuple[int, ...]:
    """Return the positions of the replies to the comment at a position."""
    return (REPLIES_FROM + place, 2 * REPLIES_FROM + place)


def account_of(name: str) -> Json:
    """Return an account as Firebase returns it."""
    rng = seeded("hackernews", "user", name)
    link = '<a href="https:&#x2F;&#x2F;example.com">example.com</a>'
    return {
        "about": f"{person(rng)}. {sentence(rng)}<p>I&#x27;m at {link}",
        "created": EPOCH_S - rng.randrange(10 * 365 * 86_400),
        "id": name,
        "karma": rng.randrange(1, 90_000),
        "submitted": [rng.randrange(1, 40_000_000) for _ in range(3)],
    }
