"""Runs the bench's commands about deliveries in a real node; see `bench.control.control_protocol`."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, cycle, islice
from typing import Any, NamedTuple

import msgspec

from bench.control.control_protocol import (
    HOOK,
    LEFT,
    POST,
    POSTED,
    TRUST,
    UNHOOK,
    Hook,
    Posted,
    Posting,
    PostWebhooks,
    QueuedAt,
    Trust,
    Unhook,
    Waiting,
)
from bench.control.monitor_control import CREDITS, add_hook, bench_monitor
from gateway.admin.operations import Nothing, Operation
from gateway.node.node import Node
from scheduler.monitors.model import store
from scheduler.monitors.model.records import Run
from scheduler.monitors.runs import run_rows
from scheduler.webhooks.targets.urls import host_in
from storage.store import Tx

BODY = msgspec.json.encode({"result": {"text": "As long as a run's result usually is. " * 50}})
POSTED_SINCE = "SELECT id, created_at FROM deliveries WHERE created_at >= ?"
NOT_ENDED = "SELECT COUNT(*) FROM deliveries WHERE status = 'queued'"
DELETE = "DELETE FROM monitors WHERE id = ?"


class Hooked(NamedTuple):
    """A monitor that never runs."""

    monitor_id: str
    account_id: str
    url: str


class DeliveryOperations:
    """Creates monitors with webhooks, and queues deliveries as the transactions of runs do."""

    def __init__(self, node: Node) -> None:
        """Start without webhooks."""
        self._node = node
        self._store = node.stores.store
        self._numbers = count(1)
        self._hooked: dict[str, list[Hooked]] = {}
        self._turns: dict[str, Iterator[Hooked]] = {}
        for name, operation in (
            (HOOK, Operation(Hook, self._hook)),
            (UNHOOK, Operation(Unhook, self._unhook)),
            (POST, Operation(PostWebhooks, self._post)),
            (POSTED, Operation(Posted, self._posted)),
            (LEFT, Operation(Nothing, self._left)),
            (TRUST, Operation(Trust, self._trust)),
        ):
            node.operations.add(name, operation)

    async def _hook(self, args: Hook) -> Any:
        accounts = self._node.stores.billing.accounts
        owners = [(await accounts.create("bench", credits=CREDITS)).id for _ in range(args.accounts)]
        for url in args.urls:
            made = [Hooked(f"mon_hook{next(self._numbers):028x}", owner, url) for owner in owners]
            await self._store.write(partial(self._add, made=made))
            self._hooked[url], self._turns[url] = made, cycle(made)
        return {}

    def _add(self, tx: Tx, made: Sequence[Hooked]) -> None:
        for one in made:
            store.add_monitor(tx, bench_monitor(one.monitor_id, one.account_id, next_slot_at=None))
            add_hook(tx, self._node.stores.cipher, one.monitor_id, one.url)

    async def _unhook(self, args: Unhook) -> Any:
        for one in self._hooked.pop(args.url):
            await self._store.write(partial(_delete, monitor_id=one.monitor_id))
        return {}

    async def _post(self, args: PostWebhooks) -> Any:
        chosen = [next(self._turns[url]) for url in islice(cycle(args.urls), args.count)]
        committed: list[Posting] = []
        await self._store.write(partial(self._queue, chosen=chosen, note=committed.append))
        return msgspec.to_builtins(committed[-1])

    def _queue(self, tx: Tx, chosen: Sequence[Hooked], note: Callable[[Posting], None]) -> None:
        tx.on_commit(lambda: note(Posting(time.time(), time.process_time())))
        runs = [(one, _ended_run(one, next(self._numbers))) for one in chosen]
        run_rows.add_runs(tx, [run for _, run in runs])
        deliveries = self._node.monitors.deliveries
        assert deliveries is not None, "a node in a benchmark sends deliveries"
        for one, run in runs:
            deliveries.outbox.queue(
                tx,
                run_id=run.id,
                monitor_id=one.monitor_id,
                account_id=one.account_id,
                host=host_in(one.url),
                body=BODY,
            )

    async def _posted(self, args: Posted) -> Any:
        return msgspec.to_builtins(await self._store.read(partial(_read, since=args.since)))

    async def _left(self, _args: Nothing) -> Any:
        return msgspec.to_builtins(await self._store.read(_count))

    async def _trust(self, args: Trust) -> Any:
        os.environ["SSL_CERT_FILE"] = args.file  # the file is read when the first TLS connection is made
        return {}


def _ended_run(hooked: Hooked, number: int) -> Run:
    """Return a finished run whose delivery can be queued. Each run has its own slot."""
    id_, slot = f"run_post{number:028x}", float(number)
    return Run(id_, hooked.monitor_id, hooked.account_id, slot, "ok", slot, finished_at=slot)


def _delete(tx: Tx, monitor_id: str) -> None:
    tx.run(DELETE, (monitor_id,))


def _read(tx: Tx, since: float) -> QueuedAt:
    return QueuedAt(dict(tx.all(POSTED_SINCE, (since,))))


def _count(tx: Tx) -> Waiting:
    found = tx.one(NOT_ENDED)
    assert found is not None, "COUNT returns one row"
    return Waiting(found[0])
