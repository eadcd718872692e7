"""Acknowledgements of named consumers, by request or over a WebSocket (spec 4.4, decisions 13)."""

from __future__ import annotations

from typing import Any

from billing.keys.cache import Key
from events.errors import EventsError
from gateway.feed import refusals
from gateway.feed.reading import Readers, position_of
from gateway.feed.tokens import FeedTokens
from storage.errors import StorageError


async def acknowledge(cursor: str, *, readers: Readers, key: Key, name: str, tokens: FeedTokens) -> dict[str, Any]:
    """Move the key's consumer `name` forward to a position that it received. Return the `data` of the reply.

    A consumer never moves back.

    Raises:
        Refused: 400, also for a cursor past the last page that the consumer received; 404, 410, 503.
    """
    try:
        position = await position_of(readers, cursor, key, tokens, source=refusals.ACK)
        acked = await readers.consumers.ack(key.id, name, position)
    except EventsError as exc:
        raise refusals.of_consumer(exc, tokens) from exc
    except StorageError as exc:
        raise refusals.store_away() from exc
    return {
        "consumer": name,
        "cursor": tokens.seal(acked.committed),
        "advanced": acked.advanced,
        "unread": acked.unread,
    }
