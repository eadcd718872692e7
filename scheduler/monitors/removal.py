"""Removing a Monitor with all that belongs to it: for its owner, and where its account is deleted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from scheduler.monitors.history import lists
from scheduler.monitors.model.store import owned, remove_monitor
from storage.store import Store, Tx

DROPPED_AT_ONCE: Final = 25


async def forget_monitor(store: Store, account_id: str, monitor_id: str) -> None:
    """Unschedule a monitor, then remove it with all that belongs to it, a few runs a write.

    Raises:
        MonitorUnknown: the account has no such monitor.
    """
    await store.write(partial(_unschedule, account_id=account_id, monitor_id=monitor_id))
    drop = partial(lists.drop_runs, monitor_id=monitor_id, limit=DROPPED_AT_ONCE)
    while await store.write(drop) == DROPPED_AT_ONCE:
        pass
    await store.write(lambda tx: remove_monitor(tx, monitor_id, account_id))


def _unschedule(tx: Tx, account_id: str, monitor_id: str) -> None:
    """Let it run no more. Raises MonitorUnknown."""
    lists.save_monitor(tx, replace(owned(tx, account_id, monitor_id, locked=True), status="paused", next_slot_at=None))
    lists.drop_pending(tx, monitor_id)
