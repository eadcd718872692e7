"""All of events on one store, with a predictable clock and predictable ids."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from events.consumers.consumers import Consumers
from events.filters import AppendedEvent, Filters
from events.log.kinds import CreditsExhausted, CreditsLow, KeyRevoked, MonitorAlert
from events.log.log import EventLog, Fact, Subject
from events.log.pages import EventPage, PageQuery, read_head, read_page
from events.migrations import MIGRATIONS
from events.positions import LogHead
from storage.opening import open_store
from storage.store import Store, Tx

EPOCH = 1_750_000_000.0
ACCOUNT, KEY = "acc_1", "key_1"


class Desk:
    """Events as a node sets them up. Tests move the clock `time`. `told` collects the events that waiters receive."""

    def __init__(self, store: Any, node: str = "") -> None:
        self.time = EPOCH
        self.store: Store = store
        self.told: list[AppendedEvent] = []
        self._node = node
        self._numbers = itertools.count(1)
        self.log = EventLog(
            now=self.now, make_id=self.make_id, base_url="https://api.example.com/", publish=self.told.extend
        )
        self.consumers = Consumers(self.store, self.now)

    def now(self) -> float:
        return self.time

    def make_id(self, prefix: str) -> str:
        return f"{prefix}{self._node}{next(self._numbers):08d}"

    async def append(self, *facts: Fact) -> None:
        await self.store.write(lambda tx: self.log.append(tx, facts))

    async def head(self, account_id: str = ACCOUNT) -> LogHead:
        return await self.store.read(lambda tx: read_head(tx, account_id))

    async def page(
        self,
        after: int = 0,
        *,
        account_id: str = ACCOUNT,
        key_id: str = KEY,
        limit: int = 100,
        filters: Filters | None = None,
        upto: int | None = None,
        scan_max: int = 20_000,
    ) -> EventPage:
        ask = PageQuery(account_id, key_id, after, limit, filters or Filters(), upto)
        return await self.store.read(lambda tx: read_page(tx, ask, scan_max=scan_max))


def alert(
    subject_id: str = "run_1", *, account_id: str = ACCOUNT, key_id: str | None = KEY, parent_id: str | None = "mon_1"
) -> Fact:
    data = MonitorAlert(monitor_id="mon_1", run_id=subject_id, scheduled_for="2026-01-01T00:00:00Z", alerts_fired=1)
    links = {"run": f"/v1/monitors/mon_1/runs/{subject_id}"}
    subject = Subject("run", subject_id, "My runs")
    return Fact(account_id, "monitor.alert_fired", subject, data, key_id=key_id, parent_id=parent_id, links=links)


def low(account_id: str = ACCOUNT) -> Fact:
    data = CreditsLow(
        balance=20, held=1, pack_credits=100, threshold_credits=20, credits_per_day=None, exhausted_at=None
    )
    return Fact(account_id, "credits.low", Subject("account", account_id), data)


def exhausted(account_id: str = ACCOUNT) -> Fact:
    data = CreditsExhausted(balance=0, pack_credits=100)
    return Fact(account_id, "credits.exhausted", Subject("account", account_id), data)


def revoked(key_id: str, account_id: str = ACCOUNT) -> Fact:
    return Fact(account_id, "key.revoked", Subject("key", key_id), KeyRevoked(key_id=key_id, last4="abcd"))


def places(page: EventPage) -> list[int]:
    return [item.pos for item in page.items]


def all_rows(tx: Tx) -> Sequence[tuple[Any, ...]]:
    return tx.all("SELECT account_id, pos, id, created_at FROM events ORDER BY account_id, pos")


@asynccontextmanager
async def open_desk(url: str, node: str = "") -> AsyncIterator[Desk]:
    with trio.fail_after(60):
        async with open_store(url, [MIGRATIONS]) as store:
            yield Desk(store, node)
