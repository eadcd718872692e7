"""What a node does now and then, for as long as it runs."""

from __future__ import annotations

from collections.abc import Callable

import trio

from gateway.books import Books
from gateway.logs import Log
from limits.idempotency import forget_old
from storage.errors import StorageError

FINISH_EVERY_S = 1.0
FORGET_EVERY_S = 600.0


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
    """Drop the outcomes of idempotency keys whose day has passed."""
    while True:
        await trio.sleep(FORGET_EVERY_S)
        try:
            await books.store.write(lambda tx: forget_old(tx, now()))
        except StorageError as exc:
            log.event("warning", "claims_kept", error=str(exc))
