"""Deliveries whose nodes are interrupted, and nodes that share a store."""

from __future__ import annotations

import time

import trio

from scheduler.webhooks.deliveries.due_cache import HOST_MAX
from scheduler.webhooks.deliveries.sender import Attempt
from storage.opening import open_store
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.patient_clock import VIRTUALLY
from tests.fakes.upstream_server import until
from tests.scheduler.desk import MIGRATIONS, Desk
from tests.scheduler.webhooks.office import BROKEN, OK, Office, Receivers, Sent
from tests.servers.postgres import PostgresServer

HOSTS = 10


@VIRTUALLY
async def test_node_stopped_at_any_step_loses_nothing_and_counts_once(virtual: Office) -> None:
    """Goal: a delivery has an attempt, one end and a correct failure count, wherever the service is cancelled."""
    account = await virtual.desk.account()
    receivers = Receivers()

    async def script(sent: Sent) -> Attempt:
        await trio.sleep(0.1)
        return OK if b"good" in sent.body else BROKEN

    receivers.script = script
    turns = 0

    async def once() -> None:
        nonlocal monitor, good, bad
        monitor = await virtual.monitor(account)
        (good,) = await virtual.queue(monitor, body=b"good")
        (bad,) = await virtual.queue(monitor, body=b"bad")
        async with virtual.open(receivers, backoff_s=(5.0,)):
            await trio.sleep(7)

    async def check(got_through: bool) -> None:
        nonlocal turns
        turns += 1
        async with virtual.open(receivers, backoff_s=(5.0,)):
            await trio.sleep(20)
        for id_, least in ((good, 1), (bad, 2)):
            if id_:
                delivery = await virtual.delivery(id_)
                made = [sent for sent in receivers.sent if sent.id == id_]
                assert delivery.status == ("delivered" if id_ == good else "failed")
                assert least == delivery.attempts <= len(made) <= least + (not got_through)
                assert [one.number for one in await virtual.attempts(id_)] == list(range(1, least + 1))
        if bad:
            assert (await virtual.webhook(monitor)).failures == 1

    monitor, good, bad = await virtual.monitor(account), "", ""
    await cancel_everywhere(once, check)
    assert turns > 10


async def test_leased_deliveries_are_ready_when_the_only_node_restarts(office: Office) -> None:
    """Method: a lease is written as if by a node that has died since."""
    monitor = await office.monitor(await office.desk.account())
    (id_,) = await office.queue(monitor)
    until_ = office.now() + 1_000
    lease = "UPDATE deliveries SET node = 'dead', lease_until = ?, next_at = ? WHERE id = ?"
    await office.store.write(lambda tx: tx.run(lease, (until_, until_, id_)))
    receivers = Receivers()
    async with office.open(receivers):
        await office.settled()
    assert (await office.delivery(id_)).status == "delivered"


@VIRTUALLY
async def test_delivery_with_an_expired_lease_is_taken_over_by_another_node(virtual: Office) -> None:
    """Goal: an attempt that ends after its lease has expired writes nothing; the other node's attempt counts."""
    monitor = await virtual.monitor(await virtual.desk.account())
    (id_,) = await virtual.queue(monitor)
    receivers = Receivers()

    async def script(_sent: Sent) -> Attempt:
        if len(receivers.sent) > 1:
            return OK
        await virtual.store.write(lambda tx: tx.run("UPDATE deliveries SET node = 'other'"))
        await trio.sleep(1)
        return BROKEN

    receivers.script = script
    async with virtual.open(receivers):
        await trio.sleep(100)
    delivery = await virtual.delivery(id_)
    assert (delivery.status, delivery.attempts, len(receivers.sent)) == ("delivered", 1, 2)
    assert "delivery_was_anothers" in [name for name, _ in virtual.desk.log.events]


async def test_nodes_never_attempt_a_delivery_concurrently(postgres: PostgresServer) -> None:
    """Method: three nodes deliver to receivers that sometimes fail. One node is cancelled during its attempts.

    The attempts that were in progress on the cancelled node, at most the limit per host, were sent but are not counted.
    """
    url = postgres.fresh()
    receivers = Receivers()

    async def script(sent: Sent) -> Attempt:
        await trio.sleep(0.02)
        return BROKEN if (len(receivers.sent) + len(sent.id)) % 5 == 0 else OK

    receivers.script = script
    with trio.fail_after(60):
        async with (
            open_store(url, MIGRATIONS) as s1,
            open_store(url, MIGRATIONS) as s2,
            open_store(url, MIGRATIONS) as s3,
        ):
            nodes = [
                Office(Desk(kept, f"n{number}", is_alone=False), is_alone=False, now=time.time)
                for number, kept in enumerate((s1, s2, s3))
            ]
            first = nodes[0]
            ids: list[str] = []
            for number in range(HOSTS):
                target = f"https://h{number}.example.com/in"
                monitor = await first.monitor(await first.desk.account(), target)
                ids += await first.queue(monitor, 40, url=target)
            async with trio.open_nursery() as nursery:
                scopes = [trio.CancelScope() for _ in nodes]

                async def serve(node: Office, scope: trio.CancelScope) -> None:
                    with scope:
                        async with node.open(receivers, backoff_s=(0.1,) * 10):
                            await trio.sleep_forever()

                for node, scope in zip(nodes, scopes, strict=True):
                    nursery.start_soon(serve, node, scope)
                await until(lambda: len(receivers.sent) > 100)
                scopes[2].cancel()
                await first.settled(50)
                nursery.cancel_scope.cancel()
            found = [await first.delivery(id_) for id_ in ids]
    assert {one.status for one in found} == {"delivered"}
    assert max(receivers.most_at_once[id_] for id_ in ids) == 1
    counted = sum(one.attempts for one in found)
    assert counted <= len(receivers.sent) <= counted + HOSTS * HOST_MAX
