"""Runs the bench's commands about monitors in a real node; see `bench.control.control_protocol`."""

from collections.abc import Sequence
from functools import partial
from itertools import cycle
from math import floor
from typing import Any

import msgspec
import orjson

from bench.control.control_protocol import PLANT, RAN, Plant, Ran
from bench.load.histogram import Histogram
from billing.keys.sealing import Cipher
from gateway.admin.operations import Nothing, Operation
from gateway.node.node import Node
from scheduler.monitors.model import store
from scheduler.monitors.model.records import Monitor
from scheduler.webhooks.targets import hook_rows
from scheduler.webhooks.targets.urls import new_webhook
from storage.store import Tx

DAY_S = 86_400.0
CREDITS = 1_000_000
SECRET = "whsec_c2VjcmV0IG9mIHRoZSBiZW5jaA=="
A_WRITE = 2_000
"""The number of monitors per transaction."""
OPEN = "SELECT COUNT(*) FROM runs WHERE status IN ('pending', 'running')"
ENDED = "SELECT status, started_at - start_at, finished_at FROM runs WHERE finished_at IS NOT NULL"


class MonitorOperations:
    """Inserts monitors as rows, even beyond the plan's limits, and reports the results of their runs."""

    def __init__(self, node: Node) -> None:
        """Start without monitors."""
        self._node = node
        self._planted = 0
        node.operations.add(PLANT, Operation(Plant, self._plant))
        node.operations.add(RAN, Operation(Nothing, self._ran))

    async def _plant(self, args: Plant) -> Any:
        accounts = self._node.stores.billing.accounts
        owners = [(await accounts.create("bench", plan="enterprise", credits=CREDITS)).id for _ in range(args.accounts)]
        numbers = range(self._planted, self._planted + args.count)
        made = [
            bench_monitor(f"mon_{number:032x}", owners[nth % args.accounts], next_slot_at=_slot(args, nth))
            for nth, number in enumerate(numbers)
        ]
        for first in range(0, args.count, A_WRITE):
            await self._node.stores.store.write(
                partial(self._add, monitors=made[first : first + A_WRITE], urls=args.urls)
            )
        self._planted += args.count
        self._node.monitors.clock.wake()
        return {}

    def _add(self, tx: Tx, monitors: Sequence[Monitor], urls: Sequence[str]) -> None:
        for monitor in monitors:
            store.add_monitor(tx, monitor)
        for monitor, url in zip(monitors, cycle(urls), strict=False):
            add_hook(tx, self._node.stores.cipher, monitor.id, url)

    async def _ran(self, _args: Nothing) -> Any:
        return msgspec.to_builtins(await self._node.stores.store.read(_read), str_keys=True)


def _slot(args: Plant, nth: int) -> float:
    """Return a slot, rounded to a whole second."""
    return float(floor(args.slot + args.stagger_s * nth))


def _read(tx: Tx) -> Ran:
    """Return the results of the runs. While runs are active, return only their number."""
    waiting = tx.one(OPEN)
    assert waiting is not None, "COUNT returns one row"
    if waiting[0]:
        return Ran(waiting[0], 0, 0, 0.0, {})
    lags, ended_at, statuses = Histogram(), 0.0, list[str]()
    for status, lag_s, finished_at in tx.all(ENDED):
        statuses.append(status)
        lags.record(round((lag_s or 0.0) * 1e9))
        ended_at = max(ended_at, finished_at)
    return Ran(0, len(statuses), statuses.count("ok"), ended_at, dict(lags.counts))


def add_hook(tx: Tx, cipher: Cipher, monitor_id: str, url: str) -> None:
    """Make a monitor deliver to `url`."""
    hook_rows.add_webhook(tx, new_webhook(cipher, monitor_id, url, SECRET))


def bench_monitor(monitor_id: str, account_id: str, *, next_slot_at: float | None) -> Monitor:
    """Return a daily monitor whose first slot is `next_slot_at`; if None, it never runs."""
    made_at = (next_slot_at or DAY_S) - DAY_S
    return Monitor(
        id=monitor_id,
        account_id=account_id,
        key_id=None,
        name="bench",
        recipe="github/profile",
        params=orjson.dumps({"handle": f"user{monitor_id[-8:]}"}).decode(),
        cadence='"daily"',
        track=None,
        alert_rules="[]",
        webhook_format="full",
        suppress=False,
        status="active",
        next_slot_at=next_slot_at,
        rule_state="{}",
        baseline_run_id=None,
        runs_total=0,
        credits_spent=0,
        created_at=made_at,
        updated_at=made_at,
        version=0,
    )
