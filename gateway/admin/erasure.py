"""Remove the data of a deleted account, such as Monitors, webhooks, jobs, events, sessions, stored replies and users.

The ledger, the usage, and the account's row without its name remain. Data is removed in small batches, so that other
writes wait only briefly. If a removal is interrupted, a node's maintenance continues it. The account stays `deleting`
until no data is left and no open charge could still add data.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from billing.accounts.accounts import read_account
from billing.accounts.lifecycle import end_deletion, list_deleting
from billing.users.users import forget_users_of
from events.consumers.rows import forget_consumers_of
from events.log.retention import clear
from gateway.admin.operation_records import forget_operations_of
from limits.stored_replies import forget_replies_of
from scheduler.account_webhooks.rows import forget_webhooks_of
from scheduler.errors import MonitorUnknown
from scheduler.jobs.discover.schedules.schedule_rows import forget_schedules_of
from scheduler.jobs.job_rows import forget_jobs_of
from scheduler.monitors.model.store import monitors_of
from scheduler.monitors.removal import forget_monitor
from scheduler.sessions.session_rows import forget_sessions_of
from storage.store import Store, Tx

PAUSE_S: Final = 0.02
RemoveSome = Callable[[Tx, str], int]
"""Remove some of an account's rows. Return the number of removed rows; 0 if none are left."""
REMOVES: Final[tuple[RemoveSome, ...]] = (
    forget_schedules_of,
    forget_jobs_of,
    forget_sessions_of,
    forget_webhooks_of,
    forget_consumers_of,
    forget_replies_of,
    forget_operations_of,
    forget_users_of,
)


async def erase(store: Store, cancel_jobs: RemoveSome, account_id: str) -> bool:
    """Remove all data of a deleted account. Return False if an open charge could still add data.

    Each call of `cancel_jobs` cancels some of the account's jobs, and refunds their reserved credits.
    """
    await _repeat(store, cancel_jobs, account_id)
    had_no_open_charges = (await store.read(partial(read_account, account_id=account_id))).held == 0
    for monitor_id in await store.read(partial(monitors_of, account_id=account_id)):
        with suppress(MonitorUnknown):  # another node has already removed the Monitor
            await forget_monitor(store, account_id, monitor_id)
    for remove in REMOVES:
        await _repeat(store, remove, account_id)
    await clear(store, account_id)
    return had_no_open_charges and await store.write(partial(end_deletion, account_id=account_id))


async def _repeat(store: Store, remove: RemoveSome, account_id: str) -> None:
    """Call `remove` in separate writes until it removes nothing, with pauses in which other writes can run."""
    removed = 1
    while removed:
        removed = await store.write(partial(_remove, remove, account_id))
        await trio.sleep(PAUSE_S)


def _remove(remove: RemoveSome, account_id: str, tx: Tx) -> int:
    return remove(tx, account_id)


async def erase_all(store: Store, cancel_jobs: RemoveSome) -> int:
    """Continue the removal for all accounts that are `deleting`. Return how many are now completely removed."""
    return sum([await erase(store, cancel_jobs, account_id) for account_id in await store.read(list_deleting)])
