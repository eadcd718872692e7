"""The queue of deliveries in the store: runs add to it, nodes lease from it, and finished attempts update it.

All guarantees come from the database: a leased delivery belongs to one node until the lease expires, and the
transaction that ends an attempt writes nothing if the node has lost the lease.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from events.log.kinds import AccountWebhookPaused, WebhookPaused
from events.log.log import EventLog, Fact, Subject
from scheduler.clock.instants import Instant
from scheduler.webhooks.deliveries import rows
from scheduler.webhooks.deliveries.due_cache import HOST_MAX, Line, QueueLook
from scheduler.webhooks.deliveries.endings import Conclusion, EndedAttempt, conclude, is_held
from scheduler.webhooks.deliveries.rows import QueuedDelivery
from scheduler.webhooks.deliveries.turns import DueDelivery
from scheduler.webhooks.records import Delivery, Leased, Webhook
from scheduler.webhooks.targets import hook_rows
from storage.store import Tx

ID_PREFIX: Final = "whd_"
DUE_AT_ONCE: Final = 500
WALKED_AT_ONCE: Final = 1_000
MONITORS = "SELECT id, key_id, name FROM monitors WHERE id IN {in}"


class Outbox:
    """Adds deliveries to the queue."""

    def __init__(self, instant: Instant, make_id: Callable[[str], str], publish: Callable[[DueDelivery], None]) -> None:
        """`publish` is called with each delivery after the commit that queued it."""
        self._instant = instant
        self._make_id = make_id
        self._publish = publish

    def queue(self, tx: Tx, *, run_id: str | None, monitor_id: str, account_id: str, host: str, body: bytes) -> str:
        """Queue the delivery of a run, or of a job if `run_id` is None, in the transaction that ends it.

        Return the delivery's id. Every attempt sends exactly these bytes, to the URL that the webhook has at the time
        of the attempt. `host` is the webhook's current host.
        """
        queued = QueuedDelivery(self._make_id(ID_PREFIX), run_id, monitor_id, account_id, host, body)
        return self._add(tx, queued, self._instant(tx))

    def queue_batch(
        self,
        tx: Tx,
        *,
        webhook_id: str,
        account_id: str,
        host: str,
        make_body: Callable[[str], bytes],
        is_test: bool = False,
    ) -> str:
        """Queue a batch of events for an account webhook. Return the delivery's id, which `make_body` also receives.

        A test, like every manual delivery, never changes the failure count.
        """
        id_, at = self._make_id(ID_PREFIX), self._instant(tx)
        self._add(tx, QueuedDelivery(id_, None, webhook_id, account_id, host, make_body(id_)), at)
        if is_test:
            rows.queue_again(tx, id_, host, at=at)
        return id_

    def _add(self, tx: Tx, queued: QueuedDelivery, at: float) -> str:
        rows.add_delivery(tx, queued, at=at)
        tx.on_commit(partial(self._publish, DueDelivery(at, queued.host, queued.account_id, queued.id)))
        return queued.id


@dataclass(frozen=True, slots=True)
class Queue:
    """A node's side of the queue, running on the store's threads. `lease_s` is longer than any attempt."""

    instant: Instant
    node: str
    feed: EventLog
    backoff_s: Sequence[float]
    lease_s: float

    def look(self, tx: Tx, *, after: Line) -> QueueLook:
        """Return ready deliveries: the oldest ones, and if there may be more, also the first ones of each line.

        Thousands of deliveries to an unresponsive host may be older than all others. They are in few lines, however, so
        reading line by line gets past them quickly.
        """
        at = self.instant(tx)
        oldest = rows.due_first(tx, at, limit=DUE_AT_ONCE)
        next_at = rows.next_at(tx, at)
        next_in_s = None if next_at is None else next_at - at
        if len(oldest) < DUE_AT_ONCE:
            return QueueLook(oldest, set(), next_in_s, None)
        walked = rows.walk_lines(tx, after, at, each=HOST_MAX, limit=WALKED_AT_ONCE)
        firsts = [one for one in walked if one.next_at <= at]
        lengths = Counter((one.host, one.account_id) for one in firsts)
        last = (walked[-1].host, walked[-1].account_id) if len(walked) == WALKED_AT_ONCE else None
        truncated = {line for line, length in lengths.items() if length == HOST_MAX or line == last}
        return QueueLook(sorted({*oldest, *firsts}), truncated, next_in_s, last)

    def lease(self, tx: Tx, *, ids: Sequence[str]) -> list[Leased]:
        """Lease and return the given deliveries that no other node has leased first."""
        at = self.instant(tx)
        return rows.lease(tx, ids, self.node, at=at, until=at + self.lease_s)

    def give_back(self, tx: Tx) -> None:
        """Make all deliveries leased by this node ready again."""
        rows.end_leases(tx, self.node, at=self.instant(tx))

    def adopt(self, tx: Tx) -> None:
        """Make all leased deliveries ready again. Only for a store that one process owns and has just opened."""
        rows.end_leases(tx, None, at=self.instant(tx))

    def end(self, tx: Tx, ended: Sequence[EndedAttempt]) -> list[Delivery | None]:
        """Record finished attempts, as the store's batch handler, and return the updated deliveries.

        None means that another node had the delivery or that it was deleted; nothing was written for it. Webhooks are
        locked before deliveries, and feeds last.
        """
        webhooks = dict(hook_rows.read_webhooks(tx, sorted({_monitor(one) for one in ended}), locked=True))
        deliveries = rows.read_locked(tx, sorted({one.leased.delivery.id for one in ended}))
        at = self.instant(tx)
        concluded: list[Conclusion] = []
        outcomes: list[Delivery | None] = []
        for one in ended:
            delivery = deliveries.get(one.leased.delivery.id)
            if delivery is None or not is_held(delivery, one.leased):
                outcomes.append(None)
                continue
            done = conclude(delivery, webhooks.get(_monitor(one)), one, now=at, backoff_s=self.backoff_s)
            concluded.append(done)
            outcomes.append(done.delivery)
            deliveries[delivery.id] = done.delivery
            if done.webhook is not None:
                webhooks[done.webhook.monitor_id] = done.webhook
        self._save(tx, concluded, webhooks, at=at)
        return outcomes

    def _save(self, tx: Tx, concluded: Sequence[Conclusion], webhooks: dict[str, Webhook], *, at: float) -> None:
        rows.save_deliveries(tx, [one.delivery for one in concluded])
        rows.add_attempts(tx, [one.attempt for one in concluded])
        changed = sorted({one.webhook.monitor_id for one in concluded if one.webhook is not None})
        hook_rows.save_webhooks(tx, [webhooks[monitor_id] for monitor_id in changed], at=at)
        self._publish_paused(tx, [one for one in concluded if one.is_paused])

    def _publish_paused(self, tx: Tx, paused: Sequence[Conclusion]) -> None:
        """Append an event for each webhook that was paused."""
        makers = {id_: (key_id, name) for id_, key_id, name in tx.all_in(MONITORS, [_paused(one)[0] for one in paused])}
        facts = [
            _account_fact(one) if one.delivery.run_id is None else _fact(one, *makers[_paused(one)[0]])
            for one in paused
        ]
        self.feed.append(tx, facts)


def _monitor(ended: EndedAttempt) -> str:
    return ended.leased.delivery.monitor_id


def _paused(one: Conclusion) -> tuple[str, int]:
    assert one.webhook is not None, "only paused webhooks are selected"
    return one.webhook.monitor_id, one.webhook.failures


def _account_fact(one: Conclusion) -> Fact:
    webhook_id, failures = _paused(one)
    data = AccountWebhookPaused(webhook_id=webhook_id, delivery_id=one.delivery.id, failures_in_a_row=failures)
    path = f"/v1/webhooks/{webhook_id}"
    links = {"webhook": path, "delivery": f"{path}/deliveries/{one.delivery.id}", "deliveries": f"{path}/deliveries"}
    return Fact(one.delivery.account_id, "webhook.paused", Subject("webhook", webhook_id), data, links=links)


def _fact(one: Conclusion, key_id: str | None, name: str) -> Fact:
    monitor_id, failures = _paused(one)
    data = WebhookPaused(monitor_id=monitor_id, delivery_id=one.delivery.id, failures_in_a_row=failures)
    path = f"/v1/monitors/{monitor_id}"
    links = {"monitor": path, "delivery": f"{path}/deliveries/{one.delivery.id}", "deliveries": f"{path}/deliveries"}
    subject = Subject("monitor", monitor_id, name)
    return Fact(one.delivery.account_id, "monitor.webhook_paused", subject, data, key_id=key_id, links=links)
