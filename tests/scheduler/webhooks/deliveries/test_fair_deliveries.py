"""Unresponsive receivers and accounts with thousands of deliveries must not delay others.

The deliveries run in virtual time; the queries run on both engines.
"""

from collections.abc import Callable
from math import ceil
from typing import Any

import pytest
import trio

from scheduler.monitors.model.records import Monitor
from scheduler.webhooks.deliveries import rows
from scheduler.webhooks.deliveries.due_cache import ACCOUNT_MAX, HOST_MAX
from scheduler.webhooks.deliveries.queue import DUE_AT_ONCE, WALKED_AT_ONCE
from scheduler.webhooks.deliveries.sender import Attempt
from scheduler.webhooks.deliveries.service import IN_FLIGHT_MAX
from storage.store import Tx
from tests.fakes.inline_store import InlineStore
from tests.fakes.patient_clock import VIRTUALLY
from tests.fakes.upstream_server import until
from tests.scheduler.desk import EPOCH, MIGRATIONS, Desk
from tests.scheduler.webhooks.office import OK, Office, Receivers, Sent

HOLE = "https://hole.example.com/in"
_ANSWER_S = 0.2


async def _receive(sent: Sent) -> Attempt:
    if "hole" in sent.url:
        await trio.sleep_forever()
    await trio.sleep(_ANSWER_S)
    return OK


async def _latencies(office: Office, *, holes: int, good_hosts: int = 20, rounds: int = 30) -> list[float]:
    """Return the time from queueing to first byte, and then to the end, of each delivery to a responsive receiver."""
    receivers = Receivers()
    receivers.script = _receive
    account = await office.desk.account()
    hole = await office.monitor(account, HOLE)
    urls = [f"https://good{number}.example.com/in" for number in range(good_hosts)]
    good = [await office.monitor(await office.desk.account(), url) for url in urls]
    queued_at: dict[str, float] = {}
    async with office.open(receivers):
        for _ in range(holes // 1_000):
            await office.queue(hole, 1_000, url=HOLE)
        await trio.sleep(1)
        for _ in range(rounds):
            for monitor, url in zip(good, urls, strict=True):
                (id_,) = await office.queue(monitor, url=url)
                queued_at[id_] = trio.current_time()
            await trio.sleep(0.7)
        await trio.sleep(5)
        assert receivers.most_at_once[HOLE] == (HOST_MAX if holes else 0)
        delivered = [await office.delivery(id_) for id_ in queued_at]
        office.stopping = True
    assert {one.status for one in delivered} == {"delivered"}
    starts = {sent.id: sent.at for sent in receivers.sent}
    return sorted(starts[id_] + _ANSWER_S - at for id_, at in queued_at.items())


@VIRTUALLY
async def test_unresponsive_host_with_10000_deliveries_does_not_slow_others(virtual: Office) -> None:
    alone = await _latencies(virtual, holes=0)
    virtual.stopping = False
    beside = await _latencies(virtual, holes=10_000)
    p99 = ceil(len(alone) * 0.99) - 1
    assert beside[p99] <= alone[p99] * 1.1


class _CountingStore(InlineStore):
    """A store that counts its reads."""

    reads = 0

    async def read(self, fn: Callable[[Tx], Any]) -> Any:
        self.reads += 1
        return await super().read(fn)


@VIRTUALLY
async def test_new_delivery_starts_without_reading_the_queue() -> None:
    store = _CountingStore(MIGRATIONS)
    desk = Desk(store)
    desk.starts_at = EPOCH
    office, receivers = Office(desk), Receivers()
    receivers.script = _receive
    account = await desk.account()
    await office.queue(await office.monitor(account, HOLE), 1_000, url=HOLE)
    good = await office.monitor(account)
    async with office.open(receivers):
        await trio.sleep(1)
        reads = store.reads
        for _ in range(50):
            await office.queue(good)
            await trio.sleep(0.1)
        assert len(receivers.at()) == 50
        assert store.reads == reads
        office.stopping = True
    store.close()


@VIRTUALLY
async def test_unresponsive_hosts_of_one_account_leave_room_for_others(virtual: Office) -> None:
    receivers = Receivers()
    receivers.script = _receive
    bad = await virtual.desk.account()
    for number in range(100):
        url = f"https://hole{number}.example.com/in"
        await virtual.queue(await virtual.monitor(bad, url), 20, url=url)
    good = await virtual.monitor(await virtual.desk.account())
    async with virtual.open(receivers) as service:
        await trio.sleep(1)
        assert service.in_flight() == ACCOUNT_MAX < IN_FLIGHT_MAX
        began_at = trio.current_time()
        (id_,) = await virtual.queue(good)
        await trio.sleep(1)
        virtual.stopping = True
    assert (await virtual.delivery(id_)).status == "delivered"
    assert next(sent.at for sent in receivers.sent if sent.id == id_) == pytest.approx(began_at)


@VIRTUALLY
async def test_accounts_that_share_a_host_take_turns(virtual: Office) -> None:
    """Goal: the second account waits for a few of the first account's thousand deliveries, not for all of them."""
    receivers = Receivers()
    receivers.script = _receive
    first = await virtual.monitor(await virtual.desk.account())
    second = await virtual.monitor(await virtual.desk.account())
    await virtual.queue(first, 1_000)
    async with virtual.open(receivers):
        await trio.sleep(1.1)
        ids = await virtual.queue(second, 4)
        began_at = trio.current_time()
        await trio.sleep(10)
        virtual.stopping = True
    ends = [next(sent.at for sent in receivers.sent if sent.id == id_) - began_at for id_ in ids]
    assert max(ends) <= 2 * _ANSWER_S


@VIRTUALLY
async def test_lines_beyond_one_walk_are_read_in_turn(virtual: Office) -> None:
    """Method: a full line is older than all other lines, so only a walk finds the others."""
    receivers = Receivers()
    receivers.script = _receive
    account = await virtual.desk.account()
    await virtual.queue(await virtual.monitor(account, HOLE), DUE_AT_ONCE + HOST_MAX, url=HOLE)
    await trio.sleep(1)
    ids: list[str] = []
    for number in range(WALKED_AT_ONCE + 100):
        url = f"https://h{number}.example.com/in"
        ids += await virtual.queue(await virtual.monitor(account, url), url=url)
    async with virtual.open(receivers, timeout_s=60.0):
        await trio.sleep(_ANSWER_S * len(ids) / (ACCOUNT_MAX - HOST_MAX) + 1)
        virtual.stopping = True
    assert {sent.id for sent in receivers.sent} > set(ids)


async def test_walk_reads_the_first_few_deliveries_of_every_line(office: Office) -> None:
    """Method: lines of two hosts and two accounts. One line is not ready yet."""
    one, two = await office.desk.account(), await office.desk.account()
    a, b, c = "https://a.example.com/", "https://b.example.com/", "https://c.example.com/"
    expected: list[str] = []
    for account, url, count in ((one, a, 5), (two, a, 1), (one, b, 2)):
        monitor: Monitor = await office.monitor(account, url)
        expected += (await office.queue(monitor, count, url=url))[:3]
    (later,) = await office.queue(await office.monitor(two, c), url=c)
    at = office.now()
    await office.store.write(lambda tx: tx.run("UPDATE deliveries SET next_at = ? WHERE id = ?", (at + 1_000, later)))

    def walk(tx: Tx) -> tuple[list[str], list[str]]:
        all_ = rows.walk_lines(tx, ("", ""), at, each=3, limit=100)
        behind = rows.walk_lines(tx, ("a.example.com", max(one, two)), at, each=3, limit=2)
        return [found.id for found in all_], [found.id for found in behind]

    found, behind = await office.store.read(walk)
    assert sorted(found) == sorted([*expected, later])
    assert found[-1] == later
    assert behind == expected[-2:]


async def test_responsive_receivers_are_served_despite_a_full_line(office: Office) -> None:
    receivers = Receivers()
    receivers.script = _receive
    account = await office.desk.account()
    hole, good = await office.monitor(account, HOLE), await office.monitor(account)
    await office.queue(hole, 1_000, url=HOLE)
    async with office.open(receivers, timeout_s=30.0):
        ids = await office.queue(good, 5)
        await until(lambda: len(receivers.at()) == 5)
        await trio.sleep(_ANSWER_S + 1)
        office.stopping = True
        assert {(await office.delivery(id_)).status for id_ in ids} == {"delivered"}
        assert receivers.under_way[HOLE] == HOST_MAX
