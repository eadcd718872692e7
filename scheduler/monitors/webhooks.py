"""The owner's operations on webhooks of a monitor, a job or the account, and on their deliveries (decisions 12, 22)."""

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
"""A page of deliveries ends early when the stored responses of receivers reach this size, in characters."""
ATTEMPTS_MAX: Final = 60
"""A delivery with this many attempts cannot be sent again, which limits the size of its log."""


class Logged(NamedTuple):
    """A delivery and its attempts, oldest first."""

    delivery: Delivery
    attempts: Sequence[AttemptRow]


class LoggedPage(NamedTuple):
    """A page of deliveries, and whether there are older ones."""

    entries: list[Logged]
    has_more: bool


@dataclass(frozen=True, slots=True)
class Rotated:
    """A webhook's new secret, which is shown only once.

    Until `previous_until`, deliveries are also signed with the previous secret.
    """

    secret: str
    previous_until: float


def check_monitor(tx: Tx, account_id: str, monitor_id: str, *, locked: bool = False) -> None:
    """Check that a monitor belongs to the account. Raises MonitorUnknown."""
    monitor = monitors.read_monitor(tx, monitor_id, locked=locked)
    if monitor is None or monitor.account_id != account_id:
        raise MonitorUnknown(monitor_id)


class CheckOwner(Protocol):
    """Checks that an object belongs to the account. `locked` locks it until the end of the transaction."""

    def __call__(self, tx: Tx, account_id: str, monitor_id: str, /, *, locked: bool = False) -> None:
        """Raise SchedulerError if the object does not belong to the account."""
        ...


class WebhookOwner(NamedTuple):
    """A kind of webhook owner, and how to resume its webhooks."""

    check: CheckOwner
    source: str
    """Where the owner can read the data of a delivery."""
    resume: str = ""
    """The call that resumes a webhook, with `{}` for the id. Empty if such webhooks are never paused."""


OF_MONITORS: Final = WebhookOwner(check_monitor, "run", "POST /v1/monitors/{}/webhook/resume")


class Webhooks:
    """Webhooks. Every method takes an account id, and treats webhooks of other accounts as unknown.

    If the owner is a job or the account, `monitor_id` is the id of the job or of the webhook.
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
        """`instant` is the clock for deliveries, and `wake` announces a new delivery. `Deliveries` provides both."""
        self._store = store
        self._cipher = cipher
        self._now = now
        self._instant = instant
        self._wake = wake
        self._owner = owner

    async def rotate(
        self, account_id: str, monitor_id: str, *, secret: str | None = None, write: Write | None = None
    ) -> Rotated:
        """Set a new signing secret.

        For one day, deliveries are also signed with the previous secret, whose signature comes last.

        `secret` is the one that the owner sent, if any. `write` replaces the store's own write, so that the caller can
        record the result in the same transaction.

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
        """Resume a paused webhook and reset its failure count. If the webhook is active, only reset the count.

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
        """Return a monitor's webhook.

        Raises:
            MonitorUnknown, WebhookUnknown: the account has no such monitor, or the monitor has no webhook.
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
        """Send a delivery's bytes again, unchanged, to the webhook's current URL, in a new series of attempts.

        The failure count never changes. If an attempt is in progress, the delivery is returned unchanged.

        Raises:
            MonitorUnknown, DeliveryUnknown, WebhookUnknown, RedeliveryRefused: nothing was changed.
        """
        redeliver = partial(self._redeliver, account_id=account_id, monitor_id=monitor_id, delivery_id=delivery_id)
        return await (write or self._store.write)(redeliver)

    async def delivery(self, account_id: str, monitor_id: str, delivery_id: str) -> Logged:
        """Return one of a monitor's deliveries.

        Raises:
            MonitorUnknown, DeliveryUnknown: the account has no such monitor, or the monitor has no such delivery.
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
        """Return at most `limit` of a monitor's deliveries, newest first. `before` is the end of the previous page.

        Raises:
            MonitorUnknown: the account has no such monitor.
        """

        def read(tx: Tx) -> LoggedPage:
            self._owner.check(tx, account_id, monitor_id)
            return _page(tx, rows.deliveries_of(tx, monitor_id, before=before, limit=limit + 1), limit)

        return await self._store.read(read)

    def _redeliver(self, tx: Tx, account_id: str, monitor_id: str, delivery_id: str) -> Logged:
        """Queue the delivery again. Monitors are locked first, then webhooks and deliveries."""
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
        assert found is not None, "the delivery is locked"
        return _logged(tx, found)


def _check_redelivery(delivery: Delivery, webhook: Webhook, owner: WebhookOwner) -> None:
    if webhook.status == "paused":
        how = f"Resume it first: {owner.resume.format(webhook.monitor_id)}."
        raise RedeliveryRefused("webhook_paused", "the webhook is paused", how)
    if delivery.attempts >= ATTEMPTS_MAX:
        problem = f"it already had {delivery.attempts} attempts"
        raise RedeliveryRefused("attempts_limit_reached", problem, f"Read the data from the {owner.source} instead.")


def _page(tx: Tx, found: Sequence[Delivery], limit: int) -> LoggedPage:
    """Return a page with the first of the given deliveries, as many as fit."""
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
