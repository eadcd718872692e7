"""Discover schedules over HTTP: create, list, read, change, delete, and their occurrences (decisions 19)."""

from __future__ import annotations

from typing import Any, Final

import orjson

from events.instants import iso, iso_or_none
from gateway.api.changes import Changes, text_of
from gateway.api.paging import Lists, position_after
from gateway.api.responses import Replies
from gateway.docs.account import schedules as docs
from gateway.http import envelope
from gateway.http.bodies import read_json
from gateway.http.params import CURSOR, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from limits.idempotency import StoredReply
from scheduler.jobs.discover.run_drafts import PLATFORM
from scheduler.jobs.discover.run_events import SCHEDULES_PATH
from scheduler.jobs.discover.schedules.records import (
    DiscoverSchedule,
    Occurrence,
    ScheduleBody,
    SchedulePatchBody,
)
from scheduler.jobs.discover.schedules.service import ScheduleService
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import limit

SCHEDULE: Final = f"{SCHEDULES_PATH}/{{schedule_id}}"
_LIST: Final = (limit(100, default=20), CURSOR)


class ScheduleRoutes:
    """Serves the discover schedules of the caller's account."""

    def __init__(self, schedules: ScheduleService, *, signer: CursorSigner, replies: Replies, changes: Changes) -> None:
        self._schedules = schedules
        self._replies = replies
        self._changes = changes
        self._lists = Lists(signer, replies, PLATFORM)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the schedule endpoints."""
        return (
            Route(SCHEDULES_PATH, self.page, doc=docs.LIST, params=_LIST),
            Route(SCHEDULES_PATH, self.create, ("POST",), doc=docs.CREATE, body=ScheduleBody),
            Route(SCHEDULE, self.show, doc=docs.SHOW),
            Route(SCHEDULE, self.change, ("PATCH",), doc=docs.CHANGE, body=SchedulePatchBody),
            Route(SCHEDULE, self.delete, ("DELETE",), doc=docs.DELETE),
            Route(f"{SCHEDULE}/occurrences", self.occurrences, doc=docs.OCCURRENCES, params=_LIST),
        )

    async def create(self, request: Request, caller: Caller) -> Reply:
        """Create a schedule, and return it with status 201."""
        read_free(request.query, ())
        sent = await read_json(request, ScheduleBody)
        account_id = caller.key.account_id
        draft = self._schedules.draft(sent, account_id, caller.key.id)
        made = await self._changes.make(
            request, caller, sent, lambda write: self._schedules.create(draft, write=write), keep=lambda one: one.id
        )
        schedule = await self._schedules.get(account_id, text_of(made)) if isinstance(made, StoredReply) else made
        return await self._changes.answer(request, caller, self._fragment(request, schedule), made, status=201)

    async def page(self, request: Request, caller: Caller) -> Reply:
        """Return a page of schedules, newest first."""
        values = read_free(request.query, _LIST)
        size, place = int(values["limit"]), self._lists.position(request, caller, values)
        found = await self._schedules.page(caller.key.account_id, before=place.before, limit=size + 1)
        more = position_after(found[size - 1].created_at, found[size - 1].id) if len(found) > size else None
        items = [self._data(request, one) for one in found[:size]]
        return await self._lists.page(request, caller, items, place=place, more=more)

    async def show(self, request: Request, caller: Caller) -> Reply:
        """Return one schedule."""
        read_free(request.query, ())
        schedule = await self._schedules.get(caller.key.account_id, _schedule_id(request))
        return await self._replies.free(request, caller, self._fragment(request, schedule))

    async def change(self, request: Request, caller: Caller) -> Reply:
        """Change a schedule and return it."""
        read_free(request.query, ())
        sent = await read_json(request, SchedulePatchBody)
        schedule = await self._schedules.change(caller.key.account_id, _schedule_id(request), sent)
        return await self._replies.free(request, caller, self._fragment(request, schedule))

    async def delete(self, request: Request, caller: Caller) -> Reply:
        """Delete a schedule, so that it starts no more runs."""
        read_free(request.query, ())
        await self._schedules.delete(caller.key.account_id, _schedule_id(request))
        return await self._replies.bare(caller, Reply(204, b""))

    async def occurrences(self, request: Request, caller: Caller) -> Reply:
        """Return a page of the schedule's slots, newest first."""
        values = read_free(request.query, _LIST)
        size, place = int(values["limit"]), self._lists.position(request, caller, values)
        before = None if place.state is None else float(place.state["at"])
        found = await self._schedules.occurrences(
            caller.key.account_id, _schedule_id(request), before=before, limit=size + 1
        )
        more = {"at": repr(found[size - 1].scheduled_for)} if len(found) > size else None
        items = [_occurrence(one) for one in found[:size]]
        return await self._lists.page(request, caller, items, place=place, more=more)

    def _fragment(self, request: Request, schedule: DiscoverSchedule) -> bytes:
        return envelope.fragment(PLATFORM, request.path, self._data(request, schedule))

    def _data(self, request: Request, schedule: DiscoverSchedule) -> dict[str, Any]:
        own = f"{self._replies.base_url_for(request)}{SCHEDULES_PATH}/{schedule.id}"
        return {
            "schedule_id": schedule.id,
            "name": schedule.name,
            "status": schedule.status,
            "paused_because": schedule.paused_because,
            "cadence": orjson.loads(schedule.cadence),
            "run": orjson.loads(schedule.body),
            "skips_in_a_row": schedule.skips,
            "last_run_id": schedule.last_run_id,
            "next_run_at": iso_or_none(schedule.next_slot_at),
            "created_at": iso(schedule.created_at),
            "updated_at": iso(schedule.updated_at),
            "links": {"schedule": own, "occurrences": f"{own}/occurrences"},
        }


def _schedule_id(request: Request) -> str:
    """Return the schedule in the path."""
    assert request.named is not None, "the route declares this path parameter"
    return request.named["schedule_id"]


def _occurrence(one: Occurrence) -> dict[str, Any]:
    return {
        "scheduled_for": iso(one.scheduled_for),
        "run_id": one.run_id,
        "skip_reason": one.skip_reason,
        "at": iso(one.at),
    }
