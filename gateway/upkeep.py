"""What a node does now and then, for as long as it runs."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import trio

from gateway.admin.operation_records import forget_operations
from gateway.books import Books
from gateway.logs import Log
from limits.idempotency import forget_old
from scheduler.instants import Instant
from scheduler.retention import Retention, sweep
from storage.errors import StorageError
from storage.store import Store

FINISH_EVERY_S = 1.0
FORGET_EVERY_S = 600.0
SWEEP_EVERY_S = 3_600.0
SWEEP_FIRST_S = 300.0
"""A machine that started with a wrong clock has put it right by then: what is swept does not come back."""


async def finish_charges(books: Books, log: Log) -> None:
    """Close what could not be closed in time, again and again until the store takes it."""
    while True:
        await trio.sleep(FINISH_EVERY_S)
        if not books.charges.unfinished():
            continue
        try:
            finished = await books.charges.finish()
            log.event("warning", "charges_finished", charges=finished)
        except StorageError as exc:
            log.event("error", "charges_unfinished", charges=books.charges.unfinished(), error=str(exc))


async def forget_old_claims(books: Books, log: Log, now: Callable[[], float]) -> None:
    """Drop the outcomes of idempotency keys whose day has passed, and of operation ids whose month has."""
    while True:
        await trio.sleep(FORGET_EVERY_S)
        try:
            await books.store.write(lambda tx: forget_old(tx, now()))
            await books.store.write(lambda tx: forget_operations(tx, now()))
        except StorageError as exc:
            log.event("warning", "claims_kept", error=str(exc))


async def sweep_monitors(store: Store, retention: Retention, log: Log, *, instant: Instant, rng: Random) -> None:
    """Remove what is kept of monitors' runs no longer; nodes that share a store take their turns by chance."""
    await trio.sleep(SWEEP_FIRST_S)
    while True:
        try:
            swept = await sweep(store, await store.read(instant), retention)
            if any(swept):
                log.event("info", "monitors_swept", **swept._asdict())
        except StorageError as exc:
            log.event("warning", "monitors_not_swept", error=str(exc))
        await trio.sleep(SWEEP_EVERY_S * rng.uniform(0.5, 1.5))
