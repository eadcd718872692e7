"""The clock: opens slots on time, leases their runs, and runs them (architecture 6, decisions 12).

The store guarantees that a slot is run at most once, so any number of nodes can tick. `scheduler.leased_workers`
explains how runs are leased.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import trio

from scheduler.clock.alarm import Alarm
from scheduler.clock.catch_up import Ready
from scheduler.clock.instants import SlotSource, instant_of
from scheduler.leased_workers import LeasedKind, LeasedWorkers, WorkLease
from scheduler.log import OperatorLog
from scheduler.monitors.model import store
from scheduler.monitors.model.records import Run
from scheduler.monitors.runs import run_rows
from scheduler.monitors.runs.clock_skew import reset_late
from scheduler.monitors.runs.run_rows import RunLease
from scheduler.monitors.runs.runs import Runs
from scheduler.monitors.runs.slots import Opened, Slots
from scheduler.pressure import NO_PRESSURE, Pressure
from storage.errors import StorageError, StoreUnavailable
from storage.store import Store, Tx
from storage.supervision import Keep

TICK_S: Final = 0.5
MARGIN_S: Final = 0.001
APART_S: Final = 0.1
"""The shortest pause in seconds between two polls, so that runs that start in short succession are started together."""
CHECK_S: Final = 1.0
"""The pause in seconds between polls for changes by other nodes.

If there is only one node, `CHECK_ALONE_S` applies instead.
"""
CHECK_ALONE_S: Final = 30.0
RENEW_S: Final = 10.0
JUMP_S: Final = 60.0
RESET_EVERY_S: Final = 60.0
"""The pause in seconds between checks for slots that a fast clock has put into the future."""
SLOTS_AT_ONCE: Final = 500
"""How many monitors' slots to open per transaction."""
ROUNDS_MAX: Final = 500
READY_MAX: Final = 5_000
"""The maximum number of candidates read before choosing the next runs."""
IN_FLIGHT_MAX: Final = 200
YIELDING_MAX: Final = 2
"""The maximum number of runs in progress while the node is too busy with requests.

Runs are delayed then, but never skipped.
"""
EACH_MAX: Final = 20
"""The maximum number of one account's runs in progress on a node."""


@dataclass(frozen=True, slots=True)
class ClockSetting:
    """The dependencies of a clock. `is_alone` means that no other process runs the work of this store.

    `stopping` returns True once no more runs may start. `ticks` is False in a command, which only runs specific slots.
    """

    store: Store
    slots: Slots
    runs: Runs
    node: str
    log: OperatorLog
    keep: Keep
    now: Callable[[], float]
    is_alone: bool
    stopping: Callable[[], bool]
    ticks: bool = True
    pressure: Pressure = NO_PRESSURE
    alarm: Alarm = field(default_factory=Alarm)
    """Rings when a monitor or schedule was created or changed, or a slot was opened."""
    others: Sequence[SlotSource] = ()
    """Additional slot sources."""


class _Poll(NamedTuple):
    """The work found by one poll.

    This is the number of monitors per open slot, the runs that can start, and the time of the next known work.
    """

    crowds: Mapping[float, int]
    ready: list[Ready]
    due_at: float | None
    others: list[SlotSource]
    """Sources with an open slot."""


class Clock:
    """Runs slots in `nursery`, which owns every run of this node."""

    def __init__(self, setting: ClockSetting, nursery: trio.Nursery) -> None:
        self._store = setting.store
        self._slots = setting.slots
        self._node = setting.node
        self._log = setting.log
        self._now = setting.now
        self._is_alone = setting.is_alone
        self._leases_at = instant_of(setting.now, is_alone=setting.is_alone)
        self._stopping = setting.stopping
        self._pressure = setting.pressure
        self._alarm = setting.alarm
        self.wake = setting.alarm.ring
        self._others = setting.others
        self._look_every_s = CHECK_ALONE_S if setting.is_alone else CHECK_S
        kind = LeasedKind(
            name="run",
            lease_of=_lease_of,
            run=setting.runs.run,
            fail=setting.runs.fail,
            renew=self._renew,
            renew_every_s=RENEW_S,
        )
        self._leased = LeasedWorkers(kind, nursery, setting.log)
        self.keep_renewing = self._leased.keep_renewing
        self._is_behind = False
        self._due_at: float | None = 0.0
        self._looked_at = trio.current_time()
        self._seen = self._now(), trio.current_time()
        self.begun_total = 0
        """How many attempts this node has started."""
        self.skipped_total = 0
        """How many slots this node has skipped."""

    def in_flight(self) -> int:
        """Return the number of runs in progress."""
        return len(self._leased)

    async def run_slot(self, monitor_id: str, slot: float | None = None) -> tuple[Run, bool]:
        """Start one slot now, by default the slot of the current second.

        Return its run and whether this call started it.

        Raises:
            MonitorUnknown: the monitor does not exist.
            StorageError: the store is unavailable, or no run may start.
        """
        if (why := self._pressure.refusal()) is not None:
            raise StoreUnavailable(why)
        run, leases = await self._store.write(partial(self._open_one, monitor_id=monitor_id, slot=slot))
        self._start(leases)
        return (leases[0].run, True) if leases else (run, False)

    async def keep_ticking(self) -> None:
        """Open and start scheduled work until the node stops."""
        while not self._stopping():
            if self._alarm.reset():
                self._due_at = 0.0
            if self._must_poll() and self._pressure.refusal() is None:
                await self._turn()
            with trio.move_on_after(self._pause_s()):
                await self._alarm.wait()

    async def keep_resetting(self) -> None:
        """Reset what a fast clock of this node or another one has scheduled too far ahead.

        The check uses the later of this node's clock and the database's, so that a slow clock does no harm.
        """
        while True:
            try:
                resets = await reset_late(self._store, self._latest)
                for source in self._others:
                    resets += await self._store.write(partial(source.reset_late, instant=self._latest))
                if resets:
                    self._log.event("warning", "slots_brought_back", count=resets)
                    self.wake()
            except StorageError as exc:
                self._log.event("warning", "slots_not_brought_back", error=str(exc))
            await trio.sleep(RESET_EVERY_S)

    async def adopt(self) -> None:
        """Take over all runs of an earlier process. Only for a store that one process owns."""
        if self._is_alone:
            await self._store.write(lambda tx: run_rows.orphan_runs(tx, self._leases_at(tx)))

    def _must_poll(self) -> bool:
        now, at = self._now(), trio.current_time()
        jumped_s = (now - self._seen[0]) - (at - self._seen[1])
        self._seen = now, at
        if abs(jumped_s) > JUMP_S:
            self._log.event("warning", "clock_jumped", seconds=round(jumped_s, 1))
            return True
        return at - self._looked_at >= self._look_every_s or (self._due_at is not None and self._due_at <= now)

    def _pause_s(self) -> float:
        """Return the time until the next known work, plus a margin, because the two clocks differ by microseconds."""
        return TICK_S if self._due_at is None else min(TICK_S, max(APART_S, self._due_at - self._now() + MARGIN_S))

    async def _turn(self) -> None:
        """Open slots and start runs until none are left or no more may start now."""
        crowds: dict[float, int] = {}
        try:
            for _ in range(ROUNDS_MAX):
                look = await self._store.read(self._poll)
                crowds = {**look.crowds, **crowds}  # the count from a slot's first poll is kept
                if look.crowds:
                    opening = partial(self._slots.open_due, limit=SLOTS_AT_ONCE, crowds=crowds)
                    self._log_opened(await self._store.write(opening))
                for source in look.others:
                    await self._store.write(source.open_due)
                has_all = await self._begin(look.ready)
                if has_all and not look.crowds and not look.others:
                    break
        except StorageError as exc:
            self._log.event("warning", "clock_waits", error=str(exc))
            self._due_at = self._now() + TICK_S
            return
        self._looked_at = trio.current_time()
        coming = [look.due_at, self._now() + TICK_S if self._is_behind else None]
        self._due_at = min((at for at in coming if at is not None), default=None)

    def _poll(self, tx: Tx) -> _Poll:
        now, leases_at = self._now(), self._leases_at(tx)
        ready = run_rows.ready_runs(tx, now, leases_at=leases_at, limit=READY_MAX)
        others = [(source, source.due_at(tx)) for source in self._others]
        coming = (store.next_slot_at(tx), run_rows.next_start_at(tx, now), *(at for _, at in others))
        due = [source for source, at in others if at is not None and at <= now]
        return _Poll(store.crowds(tx, now), ready, min((at for at in coming if at is not None), default=None), due)

    async def _begin(self, ready: list[Ready]) -> bool:
        """Start as many runs as there is room for.

        Return False if another node leased some of them first, so that there may be more to start.
        """
        at_once = YIELDING_MAX if self._pressure.is_yielding() else IN_FLIGHT_MAX
        others = [one for one in ready if one.run_id not in self._leased]
        chosen = self._leased.choose(others, at_once=at_once, each_max=EACH_MAX)
        self._is_behind = len(chosen) < len(others)
        if not chosen or self._stopping():
            return True
        leases = await self._store.write(partial(self._lease, run_ids=[one.run_id for one in chosen]))
        self._start(leases)
        return len(leases) == len(chosen)

    def _start(self, leases: list[RunLease]) -> None:
        self.begun_total += len(leases)
        self._leased.start(leases)

    def _log_opened(self, opened: Opened) -> None:
        self.skipped_total += sum(run.status == "skipped" for run in opened.runs)
        for monitor_id in opened.unreadable:
            self._log.event("error", "cadence_unreadable", monitor=monitor_id)

    def _latest(self, tx: Tx) -> float:
        """Return the later of this node's clock and the database's."""
        return max(self._now(), self._leases_at(tx))

    def _open_one(self, tx: Tx, monitor_id: str, slot: float | None) -> tuple[Run, list[RunLease]]:
        run = self._slots.open_one(tx, monitor_id, slot)
        return run, self._lease(tx, [run.id]) if run.status == "pending" else []

    def _lease(self, tx: Tx, run_ids: list[str]) -> list[RunLease]:
        return run_rows.lease_runs(tx, run_ids, self._node, now=self._now(), leases_at=self._leases_at(tx))

    async def _renew(self, run_ids: list[str]) -> None:
        renew = partial(run_rows.renew_leases, run_ids=run_ids, node=self._node)
        await self._store.write(lambda tx: renew(tx, leases_at=self._leases_at(tx)))


def _lease_of(lease: RunLease) -> WorkLease:
    return WorkLease(lease.run.id, lease.run.account_id, lease.run.attempt)


@asynccontextmanager
async def open_clock(setting: ClockSetting) -> AsyncIterator[Clock]:
    """Run a clock while the block runs.

    Runs still in progress when the block ends are refunded and left to the next node.

    Raises:
        StorageError: the store is unavailable.
    """
    async with trio.open_nursery() as nursery:
        clock = Clock(setting, nursery)
        await clock.adopt()
        nursery.start_soon(setting.keep, "run_leases", clock.keep_renewing)
        if setting.ticks:
            nursery.start_soon(setting.keep, "clock", clock.keep_ticking)
            nursery.start_soon(setting.keep, "clock_skew", clock.keep_resetting)
        yield clock
        nursery.cancel_scope.cancel()
