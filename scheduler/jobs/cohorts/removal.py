"""Removal of cohorts: the key is destroyed immediately, the data is deleted in batches (decisions 20).

A key is deleted from the store when the transaction commits. Then the store is scrubbed, so that no copy remains in
free pages or in the write-ahead log. The cohort's row is kept until the scrub has succeeded.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from billing.charges.charge_rows import READ_ACCOUNTS
from billing.charges.charges import Charges
from scheduler.jobs.cohorts import cohort_rows, query_rows
from scheduler.jobs.cohorts.query_rows import Gone
from scheduler.jobs.job_rows import DROPPED_AT_ONCE
from scheduler.jobs.job_runs import settle
from scheduler.jobs.records import Stop
from storage.errors import StorageError
from storage.store import Store, Tx

KEYS: Final = "cohort_keys"
"""The table of cohort keys."""
EXPIRED_S: Final = 30 * 86_400.0
"""How many seconds an expired query is still reported as expired."""
MEMBERS_AT_ONCE: Final = 500
RESULTS_AT_ONCE: Final = 10
"""How many results to delete per write. Results are long, and freeing their pages takes most of the time."""
COHORTS_AT_ONCE: Final = 100
PAUSE_S: Final = 0.02
_REASON: Final[dict[Gone, str]] = {"deleted": "cohort_deleted", "expired": "cohort_expired"}


def destroy(tx: Tx, charges: Charges, account_id: str, cohort_id: str, now: float, *, gone: Gone) -> bool:
    """Destroy the key of a cohort, and end its queries. The pages that they have read are charged.

    Return False if the key was already destroyed.
    """
    tx.all_in(READ_ACCOUNTS, [account_id])  # lock the account before its rows
    if not cohort_rows.lock_any(tx, cohort_id):
        return False
    for query_id in query_rows.live_queries(tx, cohort_id):
        settle(tx, charges, query_id, now, Stop("cancelled", _REASON[gone]))
    query_rows.leave(tx, cohort_id, gone, now)
    cohort_rows.destroy_key(tx, cohort_id, now)
    return True


async def scrub(store: Store) -> bool:
    """Remove all copies of destroyed keys from the store's files.

    Return False if a reader prevents this and it must be retried later.
    """
    with suppress(StorageError):
        return await store.scrub(KEYS)
    return False


def destroy_one_of(tx: Tx, account_id: str, *, charges: Charges, now: float) -> int:
    """Destroy one cohort of a deleted account. Return 0 if the account has no cohorts left."""
    cohort_id = cohort_rows.cohort_of(tx, account_id)
    if cohort_id is None:
        return 0
    return int(destroy(tx, charges, account_id, cohort_id, now, gone="deleted"))


def has_expired(tx: Tx, now: float) -> bool:
    """Return whether a cohort's retention period has ended, or an expired query can be deleted."""
    return cohort_rows.next_expired(tx, now) is not None or query_rows.next_expired(tx, now - EXPIRED_S) is not None


def is_left(tx: Tx) -> bool:
    """Return whether destroyed cohorts still have rows."""
    return bool(cohort_rows.destroyed_cohorts(tx, 1)) or query_rows.is_left(tx)


async def expire(store: Store, charges: Charges, at: float) -> int:
    """Destroy the cohorts whose retention period has ended by `at`, and delete old queries.

    Return the number of destroyed cohorts.

    Raises:
        StorageError: the remaining cohorts are destroyed later.
    """
    expired = await _repeat(store, partial(_expire_next, charges=charges, at=at))
    await _repeat(store, partial(query_rows.drop_expired, before=at - EXPIRED_S, limit=DROPPED_AT_ONCE))
    return expired


async def clear(store: Store) -> None:
    """Delete the remaining data of destroyed cohorts, and the copies of their keys in the store's files.

    Raises:
        StorageError: the remaining rows are deleted later.
    """
    cohorts = await store.read(partial(cohort_rows.destroyed_cohorts, limit=COHORTS_AT_ONCE))
    for cohort_id in cohorts:
        await _repeat(store, partial(cohort_rows.drop_members, cohort_id=cohort_id, limit=MEMBERS_AT_ONCE))
    await _repeat(store, partial(query_rows.drop_results, limit=RESULTS_AT_ONCE))
    await _repeat(store, partial(query_rows.drop_deleted, limit=DROPPED_AT_ONCE))
    if cohorts and await scrub(store):
        await store.write(partial(cohort_rows.drop_cohorts, cohort_ids=cohorts))


def _expire_next(tx: Tx, charges: Charges, at: float) -> int:
    found = cohort_rows.next_expired(tx, at)
    return int(found is not None and destroy(tx, charges, found[1], found[0], at, gone="expired"))


async def _repeat(store: Store, remove_some: Callable[[Tx], int]) -> int:
    """Delete rows in small transactions until none are left, so that other writes do not wait. Return their number."""
    total, removed = 0, 1
    while removed:
        removed = await store.write(remove_some)
        total += removed
        await trio.sleep(PAUSE_S)
    return total
