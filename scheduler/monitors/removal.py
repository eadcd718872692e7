"""Deletes a monitor with its data, for its owner or together with its account."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from scheduler.monitors.history import lists
from scheduler.monitors.model.store import owned, remove_monitor
from storage.store import Store, Tx

DROPPED_AT_ONCE: Final = 25


async def forget_monitor(store: Store, account_id: str, monitor_id: str) -> None:
    """Pause a monitor, then delete it with its data, a few runs per transaction.

    Raises:
        MonitorUnknown: the account has no such monitor.
    """
    await store.write(partial(_unschedule, account_id=account_id, monitor_id=monitor_id))
    drop = partial(lists.drop_runs, monitor_id=monitor_id, limit=DROPPED_AT_ONCE)
    while await store.write(drop) == DROPPED_AT_ONCE:
        pass
    await store.write(lambda tx: remove_monitor(tx, monitor_id, account_id))


def _unschedule(tx: Tx, account_id: str, monitor_id: str) -> None:
    """Pause the monitor permanently. Raises MonitorUnknown."""
    lists.save_monitor(tx, replace(owned(tx, account_id, monitor_id, locked=True), status="paused", next_slot_at=None))
    lists.drop_pending(tx, monitor_id)
