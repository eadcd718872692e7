"""A post office: monitors with webhooks on one store, the delivery service, and scripted receivers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import trio

from billing.keys.sealing import Cipher
from scheduler.clock.instants import instant_of
from scheduler.monitors.model.records import Monitor
from scheduler.monitors.webhooks import Webhooks
from scheduler.webhooks.deliveries import rows
from scheduler.webhooks.deliveries.queue import Outbox
from scheduler.webhooks.deliveries.sender import Attempt
from scheduler.webhooks.deliveries.service import Deliveries, DeliverySetting, open_deliveries
from scheduler.webhooks.deliveries.turns import DueDelivery
from scheduler.webhooks.records import AttemptRow, Delivery, Webhook
from scheduler.webhooks.signature import Headers
from scheduler.webhooks.targets import hook_rows
from scheduler.webhooks.targets.urls import host_in, new_webhook
from storage.store import Tx
from storage.supervision import unsupervised
from tests.fakes.inline_store import InlineStore
from tests.scheduler.desk import EPOCH, MIGRATIONS, Desk

URL = "https://hooks.example.com/in"
HEADER = "x-sluice-signature"
OK = Attempt(200, None, "", 0.0, answer="thanks")
BROKEN = Attempt(500, None, "", 0.0, answer="no")
GONE = Attempt(410, None, "", 0.0)
SILENT = Attempt(None, "timed_out", "no answer came", 0.0)


@dataclass(frozen=True, slots=True)
class Sent:
    """An attempt as seen by the receiver; `at` is on Trio's clock."""

    url: str
    body: bytes
    headers: Headers
    at: float

    @property
    def id(self) -> str:
        return dict(self.headers)["webhook-id"]

    @property
    def signature(self) -> str:
        return dict(self.headers)[HEADER]


Script = Callable[[Sent], Awaitable[Attempt]]
"""The response of a receiver to an attempt."""


class Receivers:
    """A replacement for the network: it records attempts, and responds as scripted."""

    def __init__(self, *answers: Attempt) -> None:
        """`answers` are the responses to the attempts, in order; the last one is repeated.

        `script` can replace them later.
        """
        self._answers = list(answers) or [OK]
        self.script: Script = self._answer
        self.sent: list[Sent] = []
        self.under_way: defaultdict[str, int] = defaultdict(int)
        self.most_at_once: defaultdict[str, int] = defaultdict(int)

    async def attempt(self, url: str, body: bytes, *, headers: Headers, deadline_at: float) -> Attempt:
        began_at = trio.current_time()
        sent = Sent(url, body, headers, began_at)
        self.sent.append(sent)
        marks = [url, sent.id]
        for mark in marks:
            self.under_way[mark] += 1
            self.most_at_once[mark] = max(self.most_at_once[mark], self.under_way[mark])
        try:
            with trio.move_on_at(deadline_at):
                made = await self.script(sent)
                return replace(made, latency_s=trio.current_time() - began_at)
            return replace(SILENT, latency_s=trio.current_time() - began_at)
        finally:
            for mark in marks:
                self.under_way[mark] -= 1

    def at(self, url: str = URL) -> list[Sent]:
        return [one for one in self.sent if one.url == url]

    async def _answer(self, _sent: Sent) -> Attempt:
        await trio.lowlevel.checkpoint()
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class Office:
    """One node's deliveries, on a store that it may share."""

    def __init__(self, desk: Desk, *, is_alone: bool = True, now: Callable[[], float] | None = None) -> None:
        self.desk = desk
        self.now = now or desk.now
        self.store = desk.store
        self.cipher = Cipher(bytes(32))
        self.is_alone = is_alone
        self.stopping = False
        self.rng = Random(1)
        self.woken = 0
        self._service: Deliveries | None = None
        self._slots: defaultdict[str, int] = defaultdict(int)
        self.instant = instant_of(self.now, is_alone=is_alone)
        self.webhooks = Webhooks(self.store, self.cipher, now=self.now, instant=self.instant, wake=self.wake)
        self.outbox = Outbox(self.instant, desk.make_id, self.notify)

    def wake(self) -> None:
        self.woken += 1
        if self._service is not None:
            self._service.wake()

    def notify(self, due: DueDelivery) -> None:
        if self._service is not None:
            self._service.notify(due)

    @asynccontextmanager
    async def open(self, receivers: Receivers, **terms: Any) -> AsyncIterator[Deliveries]:
        """Run the delivery service. Changes that are made through this office wake the service."""
        setting = DeliverySetting(
            store=self.store,
            feed=self.desk.feed,
            cipher=self.cipher,
            sender=receivers,
            node=self.desk.node,
            log=self.desk.log,
            keep=unsupervised,
            now=self.now,
            make_id=self.desk.make_id,
            rng=self.rng,
            is_alone=self.is_alone,
            stopping=lambda: self.stopping,
            header_name=HEADER,
        )
        async with open_deliveries(replace(setting, **terms)) as self._service:
            yield self._service

    async def monitor(self, account: str, url: str = URL, secret: str = "whsec_c2VjcmV0") -> Monitor:
        """Create a monitor with a webhook and without a schedule."""
        monitor = await self.desk.monitor(account, status="paused")
        webhook = new_webhook(self.cipher, monitor.id, url, secret)
        await self.store.write(lambda tx: hook_rows.add_webhook(tx, webhook))
        return monitor

    async def queue(self, monitor: Monitor, count: int = 1, *, url: str = URL, body: bytes = b"{}") -> list[str]:
        """Store runs of a monitor, each with a delivery, in one transaction."""

        def queue(tx: Tx) -> list[str]:
            return [self.queue_in(tx, monitor, url=url, body=body) for _ in range(count)]

        ids: list[str] = await self.store.write(queue)
        return ids

    def queue_in(self, tx: Tx, monitor: Monitor, *, url: str = URL, body: bytes = b"{}") -> str:
        self._slots[monitor.id] += 1
        run_id, slot = self.desk.make_id("run_"), EPOCH + self._slots[monitor.id]
        tx.run(
            "INSERT INTO runs (id, monitor_id, account_id, scheduled_for, status, start_at, attempt, finished_at, "
            "credits_used, legs, alerts, warnings) VALUES (?, ?, ?, ?, 'ok', ?, 1, ?, 0, '[]', '[]', '[]')",
            (run_id, monitor.id, monitor.account_id, slot, slot, slot),
        )
        return self.outbox.queue(
            tx, run_id=run_id, monitor_id=monitor.id, account_id=monitor.account_id, host=host_in(url), body=body
        )

    async def delivery(self, delivery_id: str) -> Delivery:
        found = await self.store.read(lambda tx: rows.read_delivery(tx, delivery_id))
        assert isinstance(found, Delivery)
        return found

    async def attempts(self, delivery_id: str) -> list[AttemptRow]:
        found = await self.store.read(lambda tx: rows.attempts_of(tx, [delivery_id]))
        return found.get(delivery_id, [])

    async def webhook(self, monitor: Monitor) -> Webhook:
        found = await self.store.read(lambda tx: hook_rows.read_webhooks(tx, [monitor.id]))
        webhook = found[monitor.id]
        assert isinstance(webhook, Webhook)
        return webhook

    async def settled(self, within_s: float = 30.0) -> None:
        """Wait until nothing is queued."""
        sql = "SELECT COUNT(*) FROM deliveries WHERE status = 'queued'"
        with trio.fail_after(within_s):
            while (await self.store.read(lambda tx: tx.one(sql)))[0]:  # noqa: ASYNC110 - a database sets no event
                await trio.sleep(0.02)


def quick_office() -> Office:
    """A post office on an in-memory database with Trio's clock."""
    desk = Desk(InlineStore(MIGRATIONS))
    desk.starts_at = EPOCH
    return Office(desk)
