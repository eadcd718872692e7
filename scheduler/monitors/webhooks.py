"""The owner's operations on a webhook, of a monitor, a job or the account, and on its deliveries (decisions 12, 22)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

from billing.keys.sealing import Cipher
from scheduler.clock.instants import Instant
from scheduler.errors import MonitorUnknown
from scheduler.monitors.changes import PREVIOUS_S
from scheduler.monitors.model import store as monitors
from scheduler.webhooks.deliveries import rows
from scheduler.webhooks.errors import DeliveryUnknown, RedeliveryRefused, WebhookUnknown
from scheduler.webhooks.records import AttemptRow, Delivery, Webhook
from scheduler.webhooks.signature import new_secret
from scheduler.webhooks.targets import hook_rows
from scheduler.webhooks.targets.urls import OpenedWebhook, host_of, opened, sealed_for
from storage.store import Store, Tx, Write

PAGE_CHARACTERS: Final = 1_000_000
"""A page of deliveries ends early when what receivers have answered reaches this size."""
ATTEMPTS_MAX: Final = 60
"""Attempts of a delivery after which it cannot be sent again: the log of them is bounded."""


class Logged(NamedTuple):
    """A delivery and its attempts, oldest first."""

    delivery: Delivery
    attempts: Sequence[AttemptRow]


class LoggedPage(NamedTuple):
    """A page of deliveries, and whether there are older ones behind it."""

    entries: list[Logged]
    has_more: bool


@dataclass(frozen=True, slots=True)
class Rotated:
    """A webhook's new secret, told this once, and until when the one before it signs too."""

    secret: str
    previous_until: float


def check_monitor(tx: Tx, account_id: str, monitor_id: str, *, locked: bool = False) -> None:
    """Refuse a monitor that is not the account's. Raises MonitorUnknown."""
    monitor = monitors.read_monitor(tx, monitor_id, locked=locked)
    if monitor is None or monitor.account_id != account_id:
        raise MonitorUnknown(monitor_id)


class CheckOwner(Protocol):
    """Refuses what does not belong to the account; `locked` until the end of the transaction."""

    def __call__(self, tx: Tx, account_id: str, monitor_id: str, /, *, locked: bool = False) -> None:
        """Raises SchedulerError."""
        ...


class WebhookOwner(NamedTuple):
    """The kind of thing that webhooks belong to, and how to go on with one."""

    check: CheckOwner
    source: str
    """Whence the owner reads itself what a delivery tells of."""
    resume: str = ""
    """The call that resumes a webhook, with the id in place of `{}`; empty where none is ever paused."""


OF_MONITORS: Final = WebhookOwner(check_monitor, "run", "POST /v1/monitors/{}/webhook/resume")


class Webhooks:
    """Every method takes the account: what belongs to another one is unknown.

    Where the owner is a job or the account itself, the job's id or the webhook's own stands in place of the monitor's.
    """

    def __init__(
        self,
        store: Store,
        cipher: Cipher,
        *,
        now: Callable[[], float],
        instant: Instant,
        wake: Callable[[], None],
        owner: WebhookOwner = OF_MONITORS,
    ) -> None:
        """`instant` is the clock of deliveries, and `wake` tells that one is due (`Deliveries` has both)."""
        self._store = store
        self._cipher = cipher
        self._now = now
        self._instant = instant
        self._wake = wake
        self._owner = owner

    async def rotate(
        self, account_id: str, monitor_id: str, *, secret: str | None = None, write: Write | None = None
    ) -> Rotated:
        """Sign with a new secret; for a day with the one before too, whose signature then comes last.

        `secret` is one of the owner's own. `write` stands for the store's, to record there what came of it.

        Raises:
            MonitorUnknown, WebhookUnknown: nothing was changed.
        """
        rotated = Rotated(secret or new_secret(), self._now() + PREVIOUS_S)
        sealed = self._cipher.seal(rotated.secret, bound_to=sealed_for(monitor_id))

        def rotate(tx: Tx) -> Rotated:
            self._owner.check(tx, account_id, monitor_id, locked=True)
            if not hook_rows.rotate(tx, monitor_id, sealed, previous_until=rotated.previous_until):
                raise WebhookUnknown(monitor_id)
            return rotated

        return await (write or self._store.write)(rotate)

    async def resume(self, account_id: str, monitor_id: str, *, write: Write | None = None) -> OpenedWebhook:
        """Deliver what runs bring from now on, with a new count of failures; one that was not paused counts anew too.

        Raises:
            MonitorUnknown, WebhookUnknown: nothing was changed.
        """

        def resume(tx: Tx) -> OpenedWebhook:
            self._owner.check(tx, account_id, monitor_id, locked=True)
            if not hook_rows.resume(tx, monitor_id):
                raise WebhookUnknown(monitor_id)
            return opened(self._cipher, hook_rows.read_webhooks(tx, [monitor_id])[monitor_id])

        return await (write or self._store.write)(resume)

    async def webhook(self, account_id: str, monitor_id: str) -> OpenedWebhook:
        """A monitor's webhook.

        Raises:
            MonitorUnknown, WebhookUnknown: the account has no such monitor, or the monitor no webhook.
        """

        def read(tx: Tx) -> OpenedWebhook:
            self._owner.check(tx, account_id, monitor_id)
            found = hook_rows.read_webhooks(tx, [monitor_id]).get(monitor_id)
            if found is None:
                raise WebhookUnknown(monitor_id)
            return opened(self._cipher, found)

        return await self._store.read(read)

    async def redeliver(
        self, account_id: str, monitor_id: str, delivery_id: str, *, write: Write | None = None
    ) -> Logged:
        """Send a delivery again, the same bytes, to the URL that the webhook has now: a new series of attempts.

        It never moves the count of failures. One with an attempt under way is given as it is.

        Raises:
            MonitorUnknown, DeliveryUnknown, WebhookUnknown, RedeliveryRefused: nothing was changed.
        """
        redeliver = partial(self._redeliver, account_id=account_id, monitor_id=monitor_id, delivery_id=delivery_id)
        return await (write or self._store.write)(redeliver)

    async def delivery(self, account_id: str, monitor_id: str, delivery_id: str) -> Logged:
        """One of a monitor's deliveries.

        Raises:
            MonitorUnknown, DeliveryUnknown: the account has no such monitor, or the monitor no such delivery.
        """

        def read(tx: Tx) -> Logged:
            self._owner.check(tx, account_id, monitor_id)
            found = rows.read_delivery(tx, delivery_id)
            if found is None or found.monitor_id != monitor_id:
                raise DeliveryUnknown(delivery_id)
            return _logged(tx, found)

        return await self._store.read(read)

    async def deliveries(
        self, account_id: str, monitor_id: str, *, before: tuple[float, str] | None, limit: int
    ) -> LoggedPage:
        """At most `limit` of a monitor's deliveries, newest first; `before` is where the page before ended.

        Raises:
            MonitorUnknown: the account has no such monitor.
        """

        def read(tx: Tx) -> LoggedPage:
            self._owner.check(tx, account_id, monitor_id)
            return _page(tx, rows.deliveries_of(tx, monitor_id, before=before, limit=limit + 1), limit)

        return await self._store.read(read)

    def _redeliver(self, tx: Tx, account_id: str, monitor_id: str, delivery_id: str) -> Logged:
        """Locks monitors first, then webhooks and deliveries."""
        self._owner.check(tx, account_id, monitor_id, locked=True)
        webhook = hook_rows.read_webhooks(tx, [monitor_id], locked=True).get(monitor_id)
        delivery = rows.read_delivery(tx, delivery_id, locked=True)
        if delivery is None or delivery.monitor_id != monitor_id:
            raise DeliveryUnknown(delivery_id)
        if webhook is None:
            raise WebhookUnknown(monitor_id)
        at = self._instant(tx)
        if delivery.lease_until is None or delivery.lease_until <= at:
            _check_redelivery(delivery, webhook, self._owner)
            rows.queue_again(tx, delivery_id, host_of(webhook), at=at)
            tx.on_commit(self._wake)
        found = rows.read_delivery(tx, delivery_id)
        assert found is not None, "it is locked"
        return _logged(tx, found)


def _check_redelivery(delivery: Delivery, webhook: Webhook, owner: WebhookOwner) -> None:
    if webhook.status == "paused":
        how = f"Resume it first: {owner.resume.format(webhook.monitor_id)}."
        raise RedeliveryRefused("webhook_paused", "the webhook is paused", how)
    if delivery.attempts >= ATTEMPTS_MAX:
        problem = f"{delivery.attempts} attempts have been made of this delivery"
        raise RedeliveryRefused(
            "attempts_limit_reached", problem, f"Read what it tells from the {owner.source} itself."
        )


def _page(tx: Tx, found: Sequence[Delivery], limit: int) -> LoggedPage:
    """The first of these, as many as a page holds."""
    sizes = rows.answer_sizes(tx, [one.id for one in found[:limit]])
    shown: list[Delivery] = []
    size = 0
    for delivery in found[:limit]:
        if size >= PAGE_CHARACTERS:
            break
        shown.append(delivery)
        size += sizes.get(delivery.id, 0)
    attempts = rows.attempts_of(tx, [one.id for one in shown])
    entries = [Logged(one, attempts.get(one.id, [])) for one in shown]
    return LoggedPage(entries, len(found) > len(entries))


def _logged(tx: Tx, delivery: Delivery) -> Logged:
    return Logged(delivery, rows.attempts_of(tx, [delivery.id]).get(delivery.id, []))
