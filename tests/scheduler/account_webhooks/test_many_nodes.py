"""Nodes that share a store queue for the same webhooks concurrently, and each event is still in exactly one batch."""

from __future__ import annotations

import json
import time

import trio

from storage.opening import open_store
from tests.scheduler.account_webhooks.hooked import Hooked, subjects
from tests.scheduler.desk import MIGRATIONS, Desk
from tests.scheduler.webhooks.office import Office, Receivers
from tests.servers.postgres import PostgresServer

NODES, ROUNDS = 3, 20


async def test_nodes_queue_each_event_once_in_feed_order(postgres: PostgresServer) -> None:
    """Method: three nodes append events, which wake the feeders of all; one of them delivers."""
    url = postgres.fresh()
    receivers = Receivers()
    with trio.fail_after(60):
        async with (
            open_store(url, MIGRATIONS) as s1,
            open_store(url, MIGRATIONS) as s2,
            open_store(url, MIGRATIONS) as s3,
        ):
            nodes = [
                Hooked(Office(Desk(kept, f"n{number}", is_alone=False), is_alone=False, now=time.time))
                for number, kept in enumerate((s1, s2, s3))
            ]
            first = nodes[0]
            account = await first.office.desk.account()
            ids = [await first.make(account) for _ in range(2)]
            async with trio.open_nursery() as nursery:
                for node in nodes:
                    nursery.start_soon(node.feeder.keep_feeding)

                async def happen(node: Hooked, number: int) -> None:
                    for turn in range(ROUNDS):
                        await node.happen(account, 5, first=(number * ROUNDS + turn) * 5)
                        await trio.sleep(0.02)

                async with trio.open_nursery() as appending:
                    for number, node in enumerate(nodes):
                        appending.start_soon(happen, node, number)
                async with first.office.open(receivers):
                    await first.fed(50)
                nursery.cancel_scope.cancel()
            happened = [
                id_ for (id_,) in await s1.read(lambda tx: tx.all("SELECT subject_id FROM events ORDER BY pos"))
            ]
            sql = "SELECT monitor_id, body FROM deliveries ORDER BY created_at, id"
            queued = await s1.read(lambda tx: tx.all(sql))
    assert len(happened) == NODES * ROUNDS * 5
    for id_ in ids:
        events = [one["subject"]["id"] for owner, body in queued if owner == id_ for one in json.loads(body)["events"]]
        assert events == happened
    assert sorted(subjects(receivers.sent)) == sorted(happened * len(ids))
