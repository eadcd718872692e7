"""Batches of feed events, queued in the transaction that advances a webhook's position (decisions 22).

A node that queues for a webhook locks its row until the commit, so only one node queues for it at a time. Each selected
event is therefore in exactly one batch, in feed order. If the process dies before the commit, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import orjson

from events.instants import iso
from events.log.kinds import API_VERSION
from events.log.pages import Item, PageQuery, read_head, read_page
from events.positions import Position
from scheduler.account_webhooks import rows
from scheduler.webhooks.deliveries.queue import ID_PREFIX, Outbox
from scheduler.webhooks.targets import hook_rows
from scheduler.webhooks.targets.urls import host_of
from storage.store import Tx

BATCH_MAX: Final = 100
"""The maximum number of events in a delivery."""
BATCH_PREFIX: Final = "whb_"
TEST_TYPE: Final = "webhook.test"

SealCursor = Callable[[str, Position], str]
"""Returns an account's feed cursor for the position right after an event."""


class Fed(NamedTuple):
    """The result of one call of `EventBatches.feed`."""

    events: int = 0
    """How many events were queued."""
    has_more: bool = False
    """Whether the feed has more events that can be queued now."""


@dataclass(frozen=True, slots=True)
class EventBatches:
    """Builds batches of events. Every method runs in the caller's transaction."""

    outbox: Outbox
    seal: SealCursor
    make_id: Callable[[str], str]
    now: Callable[[], float]

    def feed(self, tx: Tx, webhook_id: str) -> Fed:
        """Queue the next events that a webhook selects, up to one full batch, and move its position past them.

        Return the number of queued events, and whether there are more.

        Events that were already removed by retention are skipped.
        """
        webhook = rows.read(tx, webhook_id, locked=True)
        target = hook_rows.read_webhooks(tx, [webhook_id], locked=True).get(webhook_id)
        if webhook is None or target is None or target.status == "paused":
            return Fed()
        if (room := rows.QUEUED_MAX - rows.count_queued(tx, webhook_id)) <= 0:
            return Fed()
        account_id, head = webhook.account_id, read_head(tx, webhook.account_id)
        after = min(max(webhook.pos, head.first_pos - 1), head.last_pos)
        page = read_page(tx, PageQuery(account_id, None, after, BATCH_MAX, webhook.filters))
        if page.items:
            self._queue(tx, webhook, host_of(target), [self._event(account_id, item) for item in page.items])
        if page.end.pos != webhook.pos:
            rows.move(tx, webhook_id, page.end.pos)
        return Fed(len(page.items), page.has_more and (room > 1 or not page.items))

    def test(self, tx: Tx, webhook: rows.AccountWebhook, host: str) -> str:
        """Queue a batch with one test event, and return the delivery's id.

        The event is not added to the feed. The batch's cursor points to the end of the feed.
        """
        event = {
            "id": self.make_id("evt_"),
            "type": TEST_TYPE,
            "api_version": API_VERSION,
            "created_at": iso(self.now()),
            "subject": {"kind": "webhook", "id": webhook.id},
            "data": {"webhook_id": webhook.id},
            "links": {},
            "cursor": self.seal(webhook.account_id, read_head(tx, webhook.account_id).end),
        }
        return self._queue(tx, webhook, host, [orjson.dumps(event)], is_test=True)

    def _event(self, account_id: str, item: Item) -> bytes:
        """Return an event as JSON, as the feed shows it: with the cursor of the position after it (spec 2.8)."""
        cursor = self.seal(account_id, Position(item.pos, item.at))
        return b'%b,"cursor":"%b"}' % (item.body[:-1], cursor.encode())

    def _queue(
        self, tx: Tx, webhook: rows.AccountWebhook, host: str, events: Sequence[bytes], *, is_test: bool = False
    ) -> str:
        return self.outbox.queue_batch(
            tx,
            webhook_id=webhook.id,
            account_id=webhook.account_id,
            host=host,
            make_body=lambda delivery_id: _body(delivery_id, events),
            is_test=is_test,
        )


def batch_id(delivery_id: str) -> str:
    """Return the id of a delivery's batch: the delivery's id with the batch prefix instead of its own."""
    return BATCH_PREFIX + delivery_id.removeprefix(ID_PREFIX)


def _body(delivery_id: str, events: Sequence[bytes]) -> bytes:
    batch = {
        "id": batch_id(delivery_id),
        "api_version": API_VERSION,
        "events": [orjson.Fragment(one) for one in events],
    }
    return orjson.dumps(batch)
