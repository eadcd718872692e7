"""The bench's orders about monitors, obeyed by a real node; see `bench.orders`."""

from functools import partial
from typing import Any

import msgspec
import orjson

from bench.histogram import Histogram
from bench.orders import PLANT, RAN, Plant, Ran
from gateway.node import Node
from gateway.operations import Nothing, Operation
from scheduler.monitors import store
from scheduler.monitors.records import Monitor
from storage.store import Tx

DAY_S = 86_400.0
CREDITS = 1_000_000
A_WRITE = 2_000
"""Monitors of one transaction."""
OPEN = "SELECT COUNT(*) FROM runs WHERE status IN ('pending', 'running')"
ENDED = "SELECT status, started_at - start_at, finished_at FROM runs WHERE finished_at IS NOT NULL"


class ObeyingMonitors:
    """Plants monitors as rows, past the plan's limits, and tells how their runs went."""

    def __init__(self, node: Node) -> None:
        """Nothing is planted yet."""
        self._node = node
        self._planted = 0
        node.operations.add(PLANT, Operation(Plant, self._plant))
        node.operations.add(RAN, Operation(Nothing, self._ran))

    async def _plant(self, args: Plant) -> Any:
        accounts = self._node.books.accounts
        owners = [(await accounts.create("bench", plan="enterprise", credits=CREDITS)).id for _ in range(args.accounts)]
        made = [
            _monitor(self._planted + nth, owners[nth % args.accounts], args.slot, args.stagger_s * nth)
            for nth in range(args.count)
        ]
        for first in range(0, args.count, A_WRITE):
            await self._node.books.store.write(partial(_add, monitors=made[first : first + A_WRITE]))
        self._planted += args.count
        self._node.monitors.clock.wake()
        return {}

    async def _ran(self, _args: Nothing) -> Any:
        return msgspec.to_builtins(await self._node.books.store.read(_read), str_keys=True)


def _read(tx: Tx) -> Ran:
    """While some are under way only how many."""
    waiting = tx.one(OPEN)
    assert waiting is not None, "a count is always there"
    if waiting[0]:
        return Ran(waiting[0], 0, 0, 0.0, {})
    lags, ended_at, statuses = Histogram(), 0.0, list[str]()
    for status, lag_s, finished_at in tx.all(ENDED):
        statuses.append(status)
        lags.record(round((lag_s or 0.0) * 1e9))
        ended_at = max(ended_at, finished_at)
    return Ran(0, len(statuses), statuses.count("ok"), ended_at, dict(lags.counts))


def _add(tx: Tx, monitors: list[Monitor]) -> None:
    for monitor in monitors:
        store.add_monitor(tx, monitor)


def _monitor(number: int, account_id: str, slot: float, later_s: float) -> Monitor:
    """One that is due each day, for the first time at `slot` and so much later."""
    due_at = slot + later_s
    return Monitor(
        id=f"mon_{number:032x}",
        account_id=account_id,
        key_id=None,
        name=f"bench {number}",
        recipe="github/profile",
        params=orjson.dumps({"handle": f"user{number}"}).decode(),
        cadence='"daily"',
        track=None,
        alert_rules="[]",
        webhook_format="full",
        suppress=False,
        status="active",
        next_slot_at=due_at,
        rule_state="{}",
        baseline_run_id=None,
        runs_total=0,
        credits_spent=0,
        created_at=due_at - DAY_S,
        updated_at=due_at - DAY_S,
        version=0,
    )
