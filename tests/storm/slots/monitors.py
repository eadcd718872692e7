"""The owners and the recipes of a storm's monitors, created before any node starts."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

import orjson

from gateway.config.ids import id_maker
from gateway.node.stores import MIGRATIONS
from scheduler.clock.cadence import next_slot, read_cadence
from scheduler.monitors.metrics.tracking import Track
from scheduler.monitors.model import store
from scheduler.monitors.model.records import Monitor
from storage.opening import open_store
from storage.store import Tx
from tests.scheduler.desk import Desk
from tests.storm.slots.clock import SharedClock
from tests.storm.slots.judge import MonitorRow

CADENCE: Final = {"cron": "*/5 * * * *"}
PERIOD_S: Final = 300.0
RULES: Final = [{"metric": "author.followers", "op": "gt", "value": 0}]
POOR_CREDITS, CREDITS = 50, 10_000_000
MISSING_EACH, RULED_EACH, WALKING_EACH = 10, 5, 4
"""One in `MISSING_EACH` monitors requests a missing profile, one in `RULED_EACH` has a rule that fires, and one in
`WALKING_EACH` reads two pages."""
PAGE_ROWS: Final = 100
WALKED: Final = Track(("items[].post.engagement.likes",), "post.id", 2 * PAGE_ROWS, is_named=True)


async def make_monitors(url: str, clock: SharedClock, *, accounts: int, monitors: int) -> None:
    """Create accounts, the last one with few credits, and monitors that run every five minutes."""
    make_id = id_maker(clock.now, Random())
    async with open_store(url, MIGRATIONS) as kept:
        desk = Desk(kept, "maker")
        given = [CREDITS] * (accounts - 1) + [POOR_CREDITS]
        owners = [(await desk.accounts.create("storm", plan="enterprise", credits=each)).id for each in given]
        made = [_monitor(make_id("mon_"), owners[n % accounts], n, clock.now()) for n in range(monitors)]
        await kept.write(partial(_add, monitors=made))


def handle_of(monitor: MonitorRow) -> str:
    """Return the monitor's own profile or tag."""
    (handle,) = orjson.loads(monitor.params).values()
    return str(handle)


def is_missing(handle: str) -> bool:
    """Return whether this name does not exist."""
    return handle.startswith("missing")


def _add(tx: Tx, monitors: list[Monitor]) -> None:
    for monitor in monitors:
        store.add_monitor(tx, monitor)


def _monitor(id_: str, account_id: str, number: int, now: float) -> Monitor:
    is_walk = number % WALKING_EACH == 3
    handle = f"{'tag' if is_walk else 'missing' if number % MISSING_EACH == 0 else 'user'}{number}"
    return Monitor(
        id=id_,
        account_id=account_id,
        key_id=None,
        name=handle,
        recipe="stackexchange/questions" if is_walk else "github/profile",
        params=orjson.dumps({"tagged" if is_walk else "handle": handle}).decode(),
        cadence=orjson.dumps(CADENCE).decode(),
        track=WALKED.stored() if is_walk else None,
        alert_rules=orjson.dumps(RULES if number % RULED_EACH == 1 and not is_walk else []).decode(),
        webhook_format="full",
        suppress=False,
        status="active",
        next_slot_at=next_slot(read_cadence(CADENCE, now), now, now),
        rule_state="{}",
        baseline_run_id=None,
        runs_total=0,
        credits_spent=0,
        created_at=now,
        updated_at=now,
        version=0,
    )
