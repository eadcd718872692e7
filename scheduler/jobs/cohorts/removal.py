"""The end of a cohort: its key is destroyed at once, and what it sealed is removed some at a time (decisions 20).

A key is gone from the store when the transaction ends. Then the store is scrubbed, so that no copy of it is left in
freed pages or in the log of commits; until that was done, the cohort's row stays as a reminder.
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
"""The table of the keys."""
EXPIRED_S: Final = 30 * 86_400.0
"""For how long a query tells that it has expired."""
MEMBERS_AT_ONCE: Final = 500
RESULTS_AT_ONCE: Final = 10
"""Results are long, and freeing their pages is what takes time."""
COHORTS_AT_ONCE: Final = 100
PAUSE_S: Final = 0.02
_BECAUSE: Final[dict[Gone, str]] = {"deleted": "cohort_deleted", "expired": "cohort_expired"}


def destroy(tx: Tx, charges: Charges, account_id: str, cohort_id: str, now: float, *, gone: Gone) -> bool:
    """Destroy the key of a cohort, and end its queries: what they have read is paid for. False: it was destroyed."""
    tx.all_in(READ_ACCOUNTS, [account_id])  # accounts are locked before what is theirs
    if not cohort_rows.lock_any(tx, cohort_id):
        return False
    for query_id in query_rows.live_queries(tx, cohort_id):
        settle(tx, charges, query_id, now, Stop("cancelled", _BECAUSE[gone]))
    query_rows.leave(tx, cohort_id, gone, now)
    cohort_rows.destroy_key(tx, cohort_id, now)
    return True


async def scrub(store: Store) -> bool:
    """Leave no copy of destroyed keys in the store's files; False: somebody was reading them, so try again later."""
    with suppress(StorageError):
        return await store.scrub(KEYS)
    return False


def destroy_one_of(tx: Tx, account_id: str, *, charges: Charges, now: float) -> int:
    """Destroy a cohort of a deleted account; 0 when there is none left."""
    cohort_id = cohort_rows.cohort_of(tx, account_id)
    if cohort_id is None:
        return 0
    return int(destroy(tx, charges, account_id, cohort_id, now, gone="deleted"))


def has_expired(tx: Tx, now: float) -> bool:
    """Whether the retention of a cohort has passed, or the time for which a query tells that."""
    return cohort_rows.next_expired(tx, now) is not None or query_rows.next_expired(tx, now - EXPIRED_S) is not None


def is_left(tx: Tx) -> bool:
    """Whether something is left of what was destroyed."""
    return bool(cohort_rows.destroyed_cohorts(tx, 1)) or query_rows.is_left(tx)


async def expire(store: Store, charges: Charges, at: float) -> int:
    """Destroy the cohorts whose retention has passed by `at`, and forget old queries; how many cohorts.

    Raises:
        StorageError: the rest is destroyed later.
    """
    expired = await _repeat(store, partial(_expire_next, charges=charges, at=at))
    await _repeat(store, partial(query_rows.drop_expired, before=at - EXPIRED_S, limit=DROPPED_AT_ONCE))
    return expired


async def clear(store: Store) -> None:
    """Remove what is left of what was destroyed, its key in the store's files too.

    Raises:
        StorageError: the rest is removed later.
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
    """Remove some a write until none are left, so that other writes do not wait; how many."""
    total, removed = 0, 1
    while removed:
        removed = await store.write(remove_some)
        total += removed
        await trio.sleep(PAUSE_S)
    return total
