"""The clock: opens slots when they are due, leases their runs, and runs them (architecture 6, decisions 12).

The store holds everything that is promised about slots, so any number of nodes may tick. `scheduler.leased_workers`
explains how runs are leased.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import trio

from scheduler.clock.catch_up import Ready
from scheduler.clock.instants import SlotSource, instant_of
from scheduler.leased_workers import LeasedKind, LeasedWorkers, WorkLease
from scheduler.log import OperatorLog
from scheduler.monitors.model import store
from scheduler.monitors.model.records import Run
from scheduler.monitors.runs import run_rows
from scheduler.monitors.runs.clock_skew import come_back
from scheduler.monitors.runs.run_rows import RunLease
from scheduler.monitors.runs.runs import Runs
from scheduler.monitors.runs.slots import Opened, Slots
from storage.errors import StorageError, StoreUnavailable
from storage.store import Store, Tx
from storage.supervision import Keep

TICK_S: Final = 0.5
HAIR_S: Final = 0.001
APART_S: Final = 0.1
"""Between two looks, so that runs which start one after the other are begun together."""
LOOK_S: Final = 1.0
"""The pause between looks for other nodes' changes, and between looks where there are no others."""
LOOK_ALONE_S: Final = 30.0
RENEW_S: Final = 10.0
JUMP_S: Final = 60.0
COME_BACK_S: Final = 60.0
"""The pause between looks for slots that were made due while a clock stood ahead."""
SLOTS_AT_ONCE: Final = 500
"""Monitors of one transaction."""
ROUNDS_MAX: Final = 500
READY_MAX: Final = 5_000
"""Runs among which the next ones are chosen."""
IN_FLIGHT_MAX: Final = 200
YIELDING_MAX: Final = 2
"""As many while the node has too much to do for those who wait for it: runs are delayed then, never skipped for it."""
EACH_MAX: Final = 20
"""Runs of one account that a node has under way."""


@dataclass(frozen=True, slots=True)
class ClockSetting:
    """The parts of a clock. `is_alone`: no other process runs what is in the store.

    `stopping` returns True once no more runs are begun. `ticks` is false in a command, which only runs what it is told
    to.
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


class _Look(NamedTuple):
    """The work that a look found: the sharers of each due slot, the runs that may start, and when to look again."""

    crowds: Mapping[float, int]
    ready: list[Ready]
    due_at: float | None
    others: list[SlotSource]
    """Sources of which a slot is due."""


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
        self.is_yielding: Callable[[], bool] = lambda: False
        """Whether runs stand back behind requests; whoever knows that may set another."""
        self.refusal: Callable[[], str | None] = lambda: None
        """Why no run may begin, if so, as where the store is away; whoever knows that may set another."""
        self._look_every_s = LOOK_ALONE_S if setting.is_alone else LOOK_S
        self.others: Sequence[SlotSource] = ()
        """Further sources of slots; whoever has some may set them."""
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
        self._woken = trio.Event()
        self._is_behind = False
        self._due_at: float | None = 0.0
        self._looked_at = trio.current_time()
        self._seen = self._now(), trio.current_time()
        self.begun_total = 0
        """Attempts that this node has begun."""
        self.skipped_total = 0
        """Slots that this node has opened to skip them."""

    def wake(self) -> None:
        """Something may be due earlier than was known: a monitor was made or changed, a slot was opened."""
        self._due_at = 0.0
        self._woken.set()

    def in_flight(self) -> int:
        """Return the number of runs under way."""
        return len(self._leased)

    async def run_slot(self, monitor_id: str, slot: float | None = None) -> tuple[Run, bool]:
        """Begin one slot now, by default that of this second; its run as it stands, and whether it was begun now.

        Raises:
            MonitorUnknown: there is no such monitor.
            StorageError: the store is away, or no run may begin.
        """
        if (why := self.refusal()) is not None:
            raise StoreUnavailable(why)
        run, leases = await self._store.write(partial(self._open_one, monitor_id=monitor_id, slot=slot))
        self._start(leases)
        return (leases[0].run, True) if leases else (run, False)

    async def keep_ticking(self) -> None:
        """Open and begin what is due, until the node stops."""
        while not self._stopping():
            self._woken = trio.Event()
            if self._is_time() and self.refusal() is None:
                await self._turn()
            with trio.move_on_after(self._pause_s()):
                await self._woken.wait()

    async def keep_coming_back(self) -> None:
        """Bring back what a clock that stood ahead has made due too far off, this node's or another's.

        Of this node's clock and the database's the later one judges: neither that stands behind does harm.
        """
        while True:
            try:
                brought = await come_back(self._store, self._latest)
                for source in self.others:
                    brought += await self._store.write(partial(source.bring_back, instant=self._latest))
                if brought:
                    self._log.event("warning", "slots_brought_back", count=brought)
                    self.wake()
            except StorageError as exc:
                self._log.event("warning", "slots_not_brought_back", error=str(exc))
            await trio.sleep(COME_BACK_S)

    async def adopt(self) -> None:
        """Take over all that an earlier process has left, on a store that one process owns."""
        if self._is_alone:
            await self._store.write(lambda tx: run_rows.orphan_runs(tx, self._leases_at(tx)))

    def _is_time(self) -> bool:
        now, at = self._now(), trio.current_time()
        jumped_s = (now - self._seen[0]) - (at - self._seen[1])
        self._seen = now, at
        if abs(jumped_s) > JUMP_S:
            self._log.event("warning", "clock_jumped", seconds=round(jumped_s, 1))
            return True
        return at - self._looked_at >= self._look_every_s or (self._due_at is not None and self._due_at <= now)

    def _pause_s(self) -> float:
        """Until what is known to come, and a hair longer: the two clocks do not agree to the microsecond."""
        return TICK_S if self._due_at is None else min(TICK_S, max(APART_S, self._due_at - self._now() + HAIR_S))

    async def _turn(self) -> None:
        """Open slots and begin runs until nothing more is due, or may be begun now."""
        self._due_at = None  # whoever wakes the clock from here on says so again
        crowds: dict[float, int] = {}
        try:
            for _ in range(ROUNDS_MAX):
                look = await self._store.read(self._look)
                crowds = {**look.crowds, **crowds}  # as many as there were at first
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
        if self._due_at is None:
            coming = [look.due_at, self._now() + TICK_S if self._is_behind else None]
            self._due_at = min((at for at in coming if at is not None), default=None)

    def _look(self, tx: Tx) -> _Look:
        now, leases_at = self._now(), self._leases_at(tx)
        ready = run_rows.ready_runs(tx, now, leases_at=leases_at, limit=READY_MAX)
        others = [(source, source.due_at(tx)) for source in self.others]
        coming = (store.next_slot_at(tx), run_rows.next_start_at(tx, now), *(at for _, at in others))
        due = [source for source, at in others if at is not None and at <= now]
        return _Look(store.crowds(tx, now), ready, min((at for at in coming if at is not None), default=None), due)

    async def _begin(self, ready: list[Ready]) -> bool:
        """Begin as many runs as there is room for.

        Return False if another node leased some of them first, so that there may be more to begin.
        """
        at_once = YIELDING_MAX if self.is_yielding() else IN_FLIGHT_MAX
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
        """The later one of this node's clock and the database's."""
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
    """A clock that ticks while the block runs; what is under way at its end is refunded and left to the next node.

    Raises:
        StorageError: the store is away.
    """
    async with trio.open_nursery() as nursery:
        clock = Clock(setting, nursery)
        await clock.adopt()
        nursery.start_soon(setting.keep, "run_leases", clock.keep_renewing)
        if setting.ticks:
            nursery.start_soon(setting.keep, "clock", clock.keep_ticking)
            nursery.start_soon(setting.keep, "clock_skew", clock.keep_coming_back)
        yield clock
        nursery.cancel_scope.cancel()
