"""A page of the feed as it is sent: items, positions, next step, and the page's entity tag."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson

from events.filters import ALL, Filters
from events.instants import iso
from events.log.pages import EventPage
from events.positions import LogHead, Position
from gateway.feed.queries import WAIT_S_MAX, FeedQuery
from gateway.feed.tokens import PATH, FeedTokens
from gateway.http import envelope
from gateway.http.conditional import tags

_TAG_BYTES = 12
_PLAIN_TAG = re.compile(rb'"(?P<end>[0-9]{1,19})\.(?P<more>[me])[\w-]+"')
READ_ON = "continue at next.poll_url"


class PageView(NamedTuple):
    """A page as a reader sees it, with its metadata. The last three fields are only set for a named consumer."""

    page: EventPage
    after: Position
    """The position after which the page begins."""
    filters: Filters
    dropped: int = 0
    """Positions that retention removed between the reader's position and the start of this page."""
    unread: int | None = None
    restarted_from: Position | None = None


def fragment(view: PageView, query: FeedQuery, tokens: FeedTokens, base_url: str) -> bytes:
    """Return the part of the response that several requests can share (spec 2.8)."""
    page = view.page
    texts = event_texts(page, tokens)
    ends_there = bool(texts) and page.items[-1].pos == page.end.pos
    next_cursor = texts[-1][0] if ends_there else tokens.seal(page.end)
    data: dict[str, Any] = {
        "items": [orjson.Fragment(text) for _, text in texts],
        "retained_from": _iso(page.head.first_at) if page.head.last_pos >= page.head.first_pos else None,
        "next_step": _next_step(page, is_consumer=query.consumer is not None),
        "next": _next(query, next_cursor, base_url),
        "dropped": view.dropped,
    }
    if query.consumer is not None:
        data["unread"] = view.unread
        if view.restarted_from is not None:
            data["restarted_from"] = tokens.seal(view.restarted_from)
    pagination = {"next_cursor": next_cursor, "has_more": page.has_more, "page_size": len(page.items)}
    return envelope.fragment("account", PATH, data, pagination)


def event_texts(page: EventPage, tokens: FeedTokens) -> list[tuple[str, bytes]]:
    """Return each event's cursor, and the serialized event, which includes that cursor."""
    cursors = [tokens.seal(Position(item.pos, item.at)) for item in page.items]
    return [
        (cursor, b'%b,"cursor":"%b"}' % (item.body[:-1], cursor.encode()))
        for cursor, item in zip(cursors, page.items, strict=True)
    ]


_iso = lru_cache(maxsize=1_000)(iso)
"""Cached, because all readers of a log use the same `begin`."""


def _next(query: FeedQuery, next_cursor: str, base_url: str) -> Mapping[str, str]:
    """Return the URLs for the next read and, for a consumer, for the acknowledgement."""
    # Cursors and names of consumers need no escaping.
    place = f"cursor={next_cursor}" if query.consumer is None else f"consumer={query.consumer}"
    chosen = f"&{urlencode(query.sent, safe=',*')}" if query.sent else ""
    addresses = {"poll_url": f"{base_url}{PATH}?{place}{chosen}&limit={query.limit}&wait_s={WAIT_S_MAX}"}
    if query.consumer is not None:
        addresses["ack_url"] = f"{base_url}{PATH}/consumers/{query.consumer}/ack"
    return addresses


def _next_step(page: EventPage, *, is_consumer: bool) -> str:
    if not page.items:
        return f"No new events; {READ_ON}{', which searches more events' if page.has_more else ''}."
    done = "acknowledge pagination.next_cursor at next.ack_url, " if is_consumer else ""
    return f"Process the items, {done}then {READ_ON}, which {'has more' if page.has_more else 'waits for new'} events."


def tag(view: PageView, query: FeedQuery, key_id: str) -> bytes:
    """Return the entity tag. An equal tag means equal items, next_cursor, unread and restart report.

    The tag begins with the position of the page's end, so that only the log's head is needed to check it later
    (`still_holding`).
    """
    page = view.page
    return _tag(
        query,
        key_id,
        view.after.pos,
        view.filters,
        end=page.end.pos,
        has_more=page.has_more,
        unread=view.unread,
        restarted=view.restarted_from is not None,
    )


def still_holding(sent: bytes, query: FeedQuery, key_id: str, *, after: int, head: LogHead) -> bytes | None:
    """Return the tag in `If-None-Match` that matches the current page of a read by cursor, without reading the page.

    A page that was cut short never changes. Any other page ends at the end of the log, and its tag is valid until the
    log grows. Return None if no tag matches.
    """
    if query.consumer is not None or after < head.first_pos - 1:
        return None
    for one in tags(sent):
        found = _PLAIN_TAG.fullmatch(one)
        if found is None:
            continue
        end, has_more = int(found["end"]), found["more"] == b"m"
        if not (has_more or (end == head.last_pos and not query.wait_s)):
            continue
        if one == _tag(query, key_id, after, query.filters or ALL, end=end, has_more=has_more):
            return one
    return None


def _tag(
    query: FeedQuery,
    key_id: str,
    after: int,
    filters: Filters,
    *,
    end: int,
    has_more: bool,
    unread: int | None = None,
    restarted: bool = False,
) -> bytes:
    chosen = [None if one is None else sorted(one) for one in (filters.types, filters.subjects)]
    read = orjson.dumps([key_id, query.consumer, after, chosen, query.limit, end, has_more, unread, restarted])
    digest = urlsafe_b64encode(blake2b(read, digest_size=_TAG_BYTES).digest())
    return b'"%d.%b%b"' % (end, b"m" if has_more else b"e", digest)
