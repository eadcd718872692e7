"""The service that sends deliveries: it leases ready deliveries, makes the attempts, and records the outcomes.

Over all nodes, at most one attempt of a delivery is in progress, because each attempt ends by its deadline, before its
lease does. An interrupted attempt is not counted: the delivery becomes ready again, and its receiver may get it twice
(spec 6.1).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from random import Random
from typing import Final, Protocol

import trio

from billing.keys.sealing import Cipher
from events.log.log import EventLog as Feed
from scheduler.clock.instants import instant_of
from scheduler.log import OperatorLog
from scheduler.webhooks.deliveries.due_cache import DueCache
from scheduler.webhooks.deliveries.endings import EndedAttempt
from scheduler.webhooks.deliveries.queue import Outbox, Queue
from scheduler.webhooks.deliveries.schedule import BACKOFF_S
from scheduler.webhooks.deliveries.sender import Attempt
from scheduler.webhooks.deliveries.turns import DueDelivery
from scheduler.webhooks.records import Leased
from scheduler.webhooks.signature import Headers, signed_headers
from scheduler.webhooks.targets.urls import sealed_for, url_of
from storage.errors import StorageError
from storage.store import Store
from storage.supervision import Keep

CHECK_S: Final = 0.5
"""The pause in seconds between polls for deliveries that other nodes queued.

If there is only one node, `CHECK_ALONE_S` applies instead.
"""
CHECK_ALONE_S: Final = 30.0
IN_FLIGHT_MAX: Final = 256
LEASED_AT_ONCE: Final = 64
LEASE_MARGIN_S: Final = 15.0
"""How many seconds longer a lease is than the attempts that it covers."""
LATE_S: Final = 5.0
"""If leasing took longer than this many seconds, the node does not use the leases."""
CLOSE_S: Final = 3.0
SETTLE_S: Final = 5.0
FROM_START: Final = ("", "")
"""The position before the first line."""
RESULTS: Final = ("delivered", "queued", "failed")
UNEXPECTED: Final = "internal_error: an unexpected error of this server"


class Sends(Protocol):
    """Makes attempts; see `sender.Sender`."""

    async def attempt(self, url: str, body: bytes, *, headers: Headers, deadline_at: float) -> Attempt:
        """POST `body` to `url` by `deadline_at` on Trio's clock. Return the outcome, which includes any error."""
        ...


@dataclass(frozen=True, slots=True)
class DeliverySetting:
    """The dependencies of the service. `is_alone` means that no other process sends the deliveries of this store.

    `node` is the name of this process, and `stopping` returns True once no more attempts may start.
    """

    store: Store
    feed: Feed
    cipher: Cipher
    sender: Sends
    node: str
    log: OperatorLog
    keep: Keep
    now: Callable[[], float]
    make_id: Callable[[str], str]
    rng: Random
    is_alone: bool
    stopping: Callable[[], bool]
    header_name: str
    timeout_s: float = 15.0
    backoff_s: Sequence[float] = BACKOFF_S


class Deliveries:
    """Sends deliveries."""

    def __init__(self, setting: DeliverySetting) -> None:
        self._setting = setting
        self._store = setting.store
        self.instant = instant_of(setting.now, is_alone=setting.is_alone)
        self.outbox = Outbox(self.instant, setting.make_id, self.notify)
        """The queue to which runs, jobs and account webhooks add their deliveries."""
        self._queue = Queue(
            self.instant, setting.node, setting.feed, setting.backoff_s, setting.timeout_s + LEASE_MARGIN_S
        )
        self._look_every_s = CHECK_ALONE_S if setting.is_alone else CHECK_S
        self._in_flight: dict[str, DueDelivery] = {}
        self._due_cache = DueCache()
        self._read_to = FROM_START
        self._look_at = -inf
        self._is_closing = False
        self.ended = dict.fromkeys(RESULTS, 0)
        """How many attempts this node has made, by the resulting status of their delivery."""
        self._woken = trio.Event()

    def notify(self, due: DueDelivery) -> None:
        """Start this delivery soon. A commit that has just queued it calls this method."""
        self._due_cache.add_queued(due)
        self._woken.set()

    def wake(self) -> None:
        """Read the queue again, because deliveries that `notify` did not report may be ready."""
        self._look_at = -inf
        self._woken.set()

    def in_flight(self) -> int:
        """Return the number of attempts in progress."""
        return len(self._in_flight)

    async def open(self) -> None:
        """Take over all deliveries of an earlier process. Only for a store that one process owns."""
        if self._setting.is_alone:
            await self._store.write(self._queue.adopt)

    async def keep_sending(self, nursery: trio.Nursery) -> None:
        """Start attempts in `nursery`, which owns all attempts of this node, until the node stops."""
        while not self._is_stopping():
            self._woken = trio.Event()
            pause_s = CHECK_S
            try:
                pause_s = await self._turn(nursery)
            except StorageError as exc:
                self._setting.log.event("warning", "deliveries_wait", error=str(exc))
                self._look_at = -inf
            with trio.move_on_after(pause_s):
                await self._woken.wait()

    async def finish(self) -> None:
        """Start no more attempts, and wait for those in progress."""
        self._is_closing = True
        while self._in_flight:
            self._woken = trio.Event()
            await self._woken.wait()

    async def give_back(self) -> None:
        """Return interrupted deliveries to the queue. If that fails, they become ready once their leases expire."""
        with trio.move_on_after(SETTLE_S, shield=True), suppress(StorageError):
            await self._store.write(self._queue.give_back)

    def _is_stopping(self) -> bool:
        return self._is_closing or self._setting.stopping()

    async def _turn(self, nursery: trio.Nursery) -> float:
        """Start as many attempts as there is room for, and return the seconds until the next turn."""
        under_way, free = self._in_flight.values(), min(IN_FLIGHT_MAX - len(self._in_flight), LEASED_AT_ONCE)
        if free <= 0:
            return CHECK_S
        if self._look_at <= trio.current_time():
            await self._look()
        chosen = self._due_cache.choose(under_way, free=free)
        has_all = await self._begin(nursery, chosen)
        if not has_all or self._due_cache.is_short(under_way):
            self._look_at = -inf
        return 0.0 if len(chosen) == LEASED_AT_ONCE else max(0.0, self._look_at - trio.current_time())

    async def _look(self) -> None:
        """Read ready deliveries. If the previous read could not return all of them, continue after its last line."""
        self._look_at, look = inf, None  # from now on, `wake` requests another read
        is_from_start = self._read_to == FROM_START
        self._due_cache.begin_look()
        try:
            look = await self._store.read(partial(self._queue.look, after=self._read_to))
        finally:
            self._due_cache.end_look(look, self._in_flight.values(), from_start=is_from_start)
        self._read_to = look.after or FROM_START
        # A continued read misses lines before its start that become ready in the meantime.
        every_s = self._look_every_s if is_from_start else CHECK_S
        again_s = every_s if look.next_in_s is None else min(every_s, look.next_in_s)
        self._look_at = min(self._look_at, -inf if look.after else trio.current_time() + again_s)

    async def _begin(self, nursery: trio.Nursery, chosen: Sequence[DueDelivery]) -> bool:
        """Lease and start the chosen deliveries.

        Return False if other nodes leased some of them first, or if some had no webhook.
        """
        if not chosen or self._is_stopping():
            return True
        asked_at = trio.current_time()
        leased = await self._store.write(partial(self._queue.lease, ids=[one.id for one in chosen]))
        if trio.current_time() - asked_at > LATE_S:
            self._setting.log.event("warning", "deliveries_leased_late", count=len(leased))
            return True
        for one in leased:
            delivery = one.delivery  # the webhook's host may have changed since the read
            self._in_flight[delivery.id] = DueDelivery(0.0, delivery.host, delivery.account_id, delivery.id)
            nursery.start_soon(self._deliver, one)
        return len(leased) == len(chosen)

    async def _deliver(self, leased: Leased) -> None:
        """Make one attempt and record its outcome. Errors are logged, never raised."""
        try:
            ended = await self._attempt(leased)
            delivery = await self._store.submit(self._queue.end, ended)
            if delivery is None:
                self._setting.log.event("info", "delivery_was_anothers", delivery=leased.delivery.id)
            else:
                self.ended[delivery.status] += 1
                if delivery.next_at is not None:
                    self._look_by(delivery.next_at)
        except StorageError as exc:
            self._setting.log.event("warning", "delivery_not_settled", delivery=leased.delivery.id, error=str(exc))
        except Exception as exc:  # noqa: BLE001 - one failed attempt must not end the others; its lease expires
            self._setting.log.failure("delivery_not_settled", exc, delivery=leased.delivery.id)
        finally:
            is_awaited = self._due_cache.has_more() or len(self._in_flight) == IN_FLIGHT_MAX or self._is_closing
            del self._in_flight[leased.delivery.id]
            if is_awaited:
                self._woken.set()

    def _look_by(self, next_at: float) -> None:
        """Read the queue again at `next_at`, when a delivery is retried."""
        self._look_at = min(self._look_at, trio.current_time() + next_at - self._setting.now())
        self._woken.set()

    async def _attempt(self, leased: Leased) -> EndedAttempt:
        setting, began_at, at = self._setting, trio.current_time(), self._setting.now()
        deadline_at = began_at + setting.timeout_s
        try:
            headers = self._headers(leased, at)
            url = url_of(setting.cipher, leased.webhook)
            made = await setting.sender.attempt(url, leased.body, headers=headers, deadline_at=deadline_at)
        except Exception as exc:  # noqa: BLE001 - one failed attempt must not end the others
            setting.log.failure("delivery_failed", exc, delivery=leased.delivery.id)
            latency_s = trio.current_time() - began_at
            return EndedAttempt(leased, at, None, UNEXPECTED, latency_s, "", None, setting.rng.random())
        error = None if made.error is None else f"{made.error}: {made.problem}"
        return EndedAttempt(
            leased, at, made.status, error, made.latency_s, made.answer, made.retry_after_s, setting.rng.random()
        )

    def _headers(self, leased: Leased, at: float) -> Headers:
        """Return the signature headers, signed with the secret, and during a rotation also with the previous one."""
        webhook, sealed = leased.webhook, [leased.webhook.secret]
        if webhook.previous_secret is not None and (webhook.previous_until or 0.0) > at:
            sealed.append(webhook.previous_secret)
        keys = [self._setting.cipher.unseal(one, bound_to=sealed_for(webhook.monitor_id)) for one in sealed]
        return signed_headers(
            leased.body, delivery_id=leased.delivery.id, keys=keys, at=at, header_name=self._setting.header_name
        )


@asynccontextmanager
async def open_deliveries(setting: DeliverySetting) -> AsyncIterator[Deliveries]:
    """Send deliveries while the block runs. Attempts in progress when the block ends get a short time to finish.

    Raises:
        StorageError: the store is unavailable.
    """
    deliveries = Deliveries(setting)
    await deliveries.open()
    async with AsyncExitStack() as at_end, trio.open_nursery() as nursery:
        at_end.push_async_callback(deliveries.give_back)
        nursery.start_soon(setting.keep, "deliveries", partial(deliveries.keep_sending, nursery))
        yield deliveries
        with trio.move_on_after(CLOSE_S):
            await deliveries.finish()
        nursery.cancel_scope.cancel()
