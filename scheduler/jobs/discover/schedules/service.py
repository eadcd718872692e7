"""The operations on discover schedules: create, list, change and delete (decisions 19)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec
import orjson
import trio

from billing.accounts.accounts import read_account
from scheduler.clock.cadence import cadence_of, next_slot, read_cadence
from scheduler.errors import JobInvalid, MonitorLimitReached
from scheduler.jobs.discover.schedules import schedule_rows
from scheduler.jobs.discover.schedules.records import (
    DiscoverSchedule,
    Occurrence,
    ScheduleBody,
    SchedulePatchBody,
)
from scheduler.jobs.discover.searches import Searches
from scheduler.jobs.discover.spec import CREDITS_MAX, SearchBody, read_body
from scheduler.json_input import nearest, quoted
from storage.store import Store, Tx, Write

ALL_MAX: Final = 100
"""The maximum number of schedules of an account."""
NAME_MAX: Final = 100
PAUSE_S: Final = 0.02


class ScheduleService:
    """Discover schedules. Every method takes an account id, and treats schedules of other accounts as unknown."""

    def __init__(
        self,
        store: Store,
        searches: Callable[[], Searches],
        *,
        now: Callable[[], float],
        make_id: Callable[[str], str],
        wake: Callable[[], None],
    ) -> None:
        """`wake` makes the clock look for slots that are earlier than the one it waits for."""
        self._store = store
        self._searches = searches
        self._now = now
        self._make_id = make_id
        self._wake = wake

    def draft(self, sent: ScheduleBody, account_id: str, key_id: str | None) -> DiscoverSchedule:
        """Validate a new schedule without storing it.

        Raises:
            JobInvalid, CadenceInvalid: names the first invalid field.
        """
        now = self._now()
        read_body(sent.run, self._searches(), at="run.")
        cadence = read_cadence(sent.cadence, now)
        return DiscoverSchedule(
            id=self._make_id("ds_"),
            account_id=account_id,
            key_id=key_id,
            name="discover schedule" if sent.name is None else _checked_name(sent.name),
            body=msgspec.json.encode(sent.run).decode(),
            cadence=orjson.dumps(cadence.to_json()).decode(),
            status="active",
            paused_because=None,
            next_slot_at=next_slot(cadence, now, now),
            skips=0,
            last_run_id=None,
            created_at=now,
            updated_at=now,
        )

    async def create(self, schedule: DiscoverSchedule, *, write: Write | None = None) -> DiscoverSchedule:
        """Store a new schedule.

        `write` replaces the store's own write, so that the caller can record the result in the same transaction.

        Raises:
            MonitorLimitReached: the account has too many schedules; nothing was created.
        """

        def add(tx: Tx) -> DiscoverSchedule:
            # Locks the account, so that the count is exact even with several nodes.
            read_account(tx, schedule.account_id)
            if schedule_rows.count_schedules(tx, schedule.account_id) >= ALL_MAX:
                raise MonitorLimitReached("of every account", ALL_MAX, "discover schedules, including paused ones")
            schedule_rows.add_schedule(tx, schedule)
            return schedule

        made = await (write or self._store.write)(add)
        self._wake()
        return made

    async def page(self, account_id: str, *, before: tuple[float, str] | None, limit: int) -> list[DiscoverSchedule]:
        """Return a page of schedules, newest first."""
        return await self._store.read(
            partial(schedule_rows.schedules_page, account_id=account_id, before=before, limit=limit)
        )

    async def get(self, account_id: str, schedule_id: str) -> DiscoverSchedule:
        """Return one schedule.

        Raises:
            ScheduleUnknown: the account has no such schedule.
        """
        return await self._store.read(partial(schedule_rows.owned, account_id=account_id, schedule_id=schedule_id))

    async def occurrences(
        self, account_id: str, schedule_id: str, *, before: float | None, limit: int
    ) -> list[Occurrence]:
        """Return a page of the schedule's occurrences, newest first.

        Raises:
            ScheduleUnknown: the account has no such schedule.
        """

        def read(tx: Tx) -> list[Occurrence]:
            schedule_rows.owned(tx, account_id, schedule_id)
            return schedule_rows.occurrences_page(tx, schedule_id, before=before, limit=limit)

        return await self._store.read(read)

    async def change(self, account_id: str, schedule_id: str, sent: SchedulePatchBody) -> DiscoverSchedule:
        """Change the fields that were sent. Resuming a schedule resets its count of skipped occurrences.

        Raises:
            ScheduleUnknown, JobInvalid, CadenceInvalid: nothing was changed.
        """
        now = self._now()

        def change(tx: Tx) -> DiscoverSchedule:
            schedule = patched(schedule_rows.owned(tx, account_id, schedule_id, locked=True), sent, now)
            schedule_rows.save_schedule(tx, schedule)
            return schedule

        changed = await self._store.write(change)
        self._wake()
        return changed

    async def delete(self, account_id: str, schedule_id: str) -> None:
        """Pause a schedule, then delete its rows in small transactions, so that other writes do not wait.

        Its runs are kept.

        Raises:
            ScheduleUnknown: the account has no such schedule.
        """

        def halt(tx: Tx) -> bool:
            schedule_rows.owned(tx, account_id, schedule_id, locked=True)
            schedule_rows.halt(tx, schedule_id)
            return False

        is_gone = await self._store.write(halt)
        while not is_gone:
            is_gone = await self._store.write(partial(schedule_rows.drop_some, schedule_id=schedule_id))
            await trio.sleep(PAUSE_S)


def patched(schedule: DiscoverSchedule, sent: SchedulePatchBody, now: float) -> DiscoverSchedule:
    """Return a schedule with a change applied.

    Raises:
        JobInvalid, CadenceInvalid: names the first invalid field.
    """
    if sent == SchedulePatchBody():
        raise JobInvalid("body", "changes nothing", "Send status, cadence, name or run.max_credits.")
    changed = replace(schedule, updated_at=now)
    if sent.name is not None:
        changed = replace(changed, name=_checked_name(sent.name))
    if sent.run is not None:
        body = msgspec.json.decode(schedule.body, type=SearchBody)
        bound = msgspec.structs.replace(body, max_credits=_checked_bound(sent.run.max_credits))
        changed = replace(changed, body=msgspec.json.encode(bound).decode())
    if sent.cadence is not None:
        cadence = read_cadence(sent.cadence, now)
        changed = replace(changed, cadence=orjson.dumps(cadence.to_json()).decode())
    return _scheduled(schedule, changed, sent.status, now)


def _scheduled(before: DiscoverSchedule, changed: DiscoverSchedule, status: str | None, now: float) -> DiscoverSchedule:
    if status not in (None, "active", "paused"):
        problem = f"must be active or paused, not {quoted(status)}"
        meant = nearest(status.lower(), ("active", "paused"))
        raise JobInvalid("status", problem, "Send active or paused.", did_you_mean=meant)
    if status == "paused":
        return replace(changed, status="paused", paused_because="owner", next_slot_at=None)
    if status == "active" and before.status == "paused":
        changed = replace(changed, status="active", paused_because=None, skips=0)
    if changed.status == "paused":
        return changed
    if (changed.status, changed.cadence) == (before.status, before.cadence):
        return changed
    return replace(changed, next_slot_at=next_slot(cadence_of(changed.cadence), now, changed.created_at))


def _checked_name(name: str) -> str:
    if not 1 <= len(name.strip()) <= NAME_MAX or "\0" in name:
        raise JobInvalid("name", f"must have 1 to {NAME_MAX} characters", "Send a few words.")
    return name.strip()


def _checked_bound(max_credits: int) -> int:
    if not 1 <= max_credits <= CREDITS_MAX:
        raise JobInvalid("run.max_credits", f"must be 1 to {CREDITS_MAX}", f"Send 1 to {CREDITS_MAX}.")
    return max_credits
