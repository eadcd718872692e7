"""Leased work of one node: monitor runs, jobs and browser sessions.

The store holds a lease for each piece of work. The node that has the lease renews it while it works. Once a lease has
expired, another node may begin the next attempt.

This module contains the parts that all kinds of work share: a task for each piece, the renewal of leases, and
supervision, which ensures that one failing piece ends neither another piece nor the node. Each kind finds and leases
its own work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import trio

from scheduler.clock.catch_up import Ready, in_turn
from scheduler.log import OperatorLog
from storage.errors import StorageError

T = TypeVar("T")


class WorkLease(NamedTuple):
    """The id, the owner and the attempt of leased work."""

    id: str
    account_id: str
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class LeasedKind(Generic[T]):
    """One kind of leased work. `name` is its noun, which also begins the names of its log events."""

    name: str
    lease_of: Callable[[T], WorkLease]
    run: Callable[[T], Awaitable[object]]
    """Do the work. It may raise `StorageError`, in which case the work waits until its lease has expired."""
    fail: Callable[[T], Awaitable[object]]
    """End work whose `run` raised any other exception."""
    renew: Callable[[list[str]], Awaitable[object]]
    """Renew the leases of the work with these ids."""
    renew_every_s: float
    is_private: Callable[[T], bool] = lambda _: False
    """Returns whether the text of the work's errors is kept out of the log."""
    ended: Callable[[], None] = lambda: None
    """Called after each piece of work."""


class LeasedWorkers(Generic[T]):
    """Runs leased work of one kind in `nursery`, which owns a task for each piece of work."""

    def __init__(self, kind: LeasedKind[T], nursery: trio.Nursery, log: OperatorLog) -> None:
        self._kind = kind
        self._nursery = nursery
        self._log = log
        self._in_flight: dict[str, T] = {}

    def __len__(self) -> int:
        return len(self._in_flight)

    def __contains__(self, work_id: object) -> bool:
        return work_id in self._in_flight

    def get(self, work_id: str) -> T | None:
        """Return the work with this id, or None if it is not in progress on this node."""
        return self._in_flight.get(work_id)

    def choose(self, ready: Iterable[Ready], *, at_once: int, each_max: int) -> list[Ready]:
        """Return the work to lease next, round robin over accounts.

        At most `at_once` pieces are in progress, and at most `each_max` of one account. Work in progress on this node
        is never chosen again, even if its lease has expired.
        """
        busy = Counter(self._kind.lease_of(one).account_id for one in self._in_flight.values())
        others = (one for one in ready if one.run_id not in self._in_flight)
        return in_turn(others, busy, free=at_once - len(self._in_flight), each_max=each_max)

    def start(self, leased: Iterable[T]) -> None:
        """Start work that this node has leased."""
        for work in leased:
            self._in_flight[self._kind.lease_of(work).id] = work
            self._nursery.start_soon(self._supervise, work)

    async def keep_renewing(self) -> None:
        """Renew the leases of all work in progress, until cancelled."""
        while True:
            await trio.sleep(self._kind.renew_every_s)
            if not self._in_flight:
                continue
            try:
                await self._kind.renew(list(self._in_flight))
            except StorageError as exc:
                self._log.event("warning", f"{self._kind.name}_leases_not_renewed", error=str(exc))

    async def _supervise(self, work: T) -> None:
        """Run one piece of work. Exceptions are logged, never raised."""
        lease = self._kind.lease_of(work)
        try:
            await self._run(work, lease)
        finally:
            self._in_flight.pop(lease.id, None)
            self._kind.ended()

    async def _run(self, work: T, lease: WorkLease) -> None:
        try:
            await self._kind.run(work)
        except StorageError as exc:
            self._log_storage_error(lease, exc)
        except Exception as exc:  # noqa: BLE001 - a failure of one piece of work must not end the others
            self._log_failure("failed", work, lease, exc)
            await self._fail(work, lease)

    async def _fail(self, work: T, lease: WorkLease) -> None:
        try:
            await self._kind.fail(work)
        except StorageError as exc:
            self._log_storage_error(lease, exc)
        except Exception as exc:  # noqa: BLE001 - as above; its lease expires, and another attempt begins
            self._log_failure("not_ended", work, lease, exc)

    def _log_storage_error(self, lease: WorkLease, exc: StorageError) -> None:
        name = self._kind.name
        self._log.event("warning", f"{name}_cut_short", **{name: lease.id}, attempt=lease.attempt, error=str(exc))

    def _log_failure(self, what: str, work: T, lease: WorkLease, exc: Exception) -> None:
        event, fields = f"{self._kind.name}_{what}", {self._kind.name: lease.id, "attempt": lease.attempt}
        if self._kind.is_private(work):
            self._log.event("error", event, error=type(exc).__name__, **fields)
        else:
            self._log.failure(event, exc, **fields)
