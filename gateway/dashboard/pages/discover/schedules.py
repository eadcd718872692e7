"""Discover schedules: next occurrence, past occurrences, and changes (decisions 19)."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson
from quart import Response, request
from quart_trio import QuartTrio

from gateway.dashboard.address import PREFIX
from gateway.dashboard.forms import fields
from gateway.dashboard.frame import Frame, ObjectMissing, account_id
from gateway.dashboard.services import Services
from scheduler.errors import MonitorInvalid, ScheduleUnknown
from scheduler.jobs.discover.schedules.records import DiscoverSchedule, RunBound, SchedulePatchBody
from scheduler.jobs.discover.schedules.service import ALL_MAX

SCHEDULES: Final = f"{PREFIX}/discover/schedules"
OCCURRENCES: Final = 25
_NAMES: Final = {
    "run.max_credits": "max_credits",
    "cadence": "cron",
    "cadence.cron": "cron",
    "cadence.timezone": "cron",
}
"""Form fields by the path in the body that an error names."""


class SchedulePages:
    """The list of an account's schedules, and the page of each schedule."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._schedules = services.schedules
        self._frame = frame

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        one = f"{SCHEDULES}/<schedule_id>"
        app.add_url_rule(SCHEDULES, "schedules", self.page)
        app.add_url_rule(one, "schedule", self.show)
        for deed in (self.status, self.save, self.delete):
            app.add_url_rule(f"{one}/{deed.__name__}", f"schedule_{deed.__name__}", deed, methods=["POST"])

    async def page(self) -> Response:
        """List all schedules, newest first."""
        found = await self._schedules.page(account_id(), before=None, limit=ALL_MAX)
        return await self._frame.shown("schedules.html", "Schedules", schedules=[_view(one) for one in found])

    async def show(self, schedule_id: str) -> Response:
        """Show one schedule."""
        return await self._shown(schedule_id)

    async def status(self, schedule_id: str) -> Response:
        """Pause a schedule, or resume it, which resets its count of skipped slots."""
        status = "active" if (await fields()).get("status") == "active" else "paused"
        return await self._change(schedule_id, SchedulePatchBody(status=status), {}, done=f"schedule_{status}")

    async def save(self, schedule_id: str) -> Response:
        """Change the schedule's name, cadence and maximum cost per occurrence."""
        sent = await fields()
        cadence = {"cron": sent.get("cron", "")} if sent.get("cadence") == "cron" else sent.get("cadence") or None
        if sent.get("cadence") == "cron" and sent.get("timezone"):
            cadence = {"cron": sent.get("cron", ""), "timezone": sent["timezone"]}
        credits_ = sent.get("max_credits", "").replace(",", "")
        bound = RunBound(int(credits_[:9]) if credits_.isascii() and credits_.isdigit() else 0)
        patch = SchedulePatchBody(cadence=cadence, name=sent.get("name", ""), run=bound)
        return await self._change(schedule_id, patch, sent, done="schedule_saved")

    async def delete(self, schedule_id: str) -> Response:
        """Ask for confirmation, then delete the schedule."""
        schedule = await self._found(schedule_id)
        if (ask := self._frame.fresh()) is not None:
            return ask
        if (await fields()).get("sure") != "yes":
            return await self._frame.shown("delete_schedule.html", "Delete this schedule?", schedule=_view(schedule))
        try:
            await self._schedules.delete(account_id(), schedule_id)
        except ScheduleUnknown as exc:
            raise ObjectMissing from exc
        return self._frame.to_page(SCHEDULES, done="schedule_deleted")

    async def _change(self, schedule_id: str, patch: SchedulePatchBody, sent: dict[str, str], *, done: str) -> Response:
        try:
            await self._schedules.change(account_id(), schedule_id, patch)
        except ScheduleUnknown as exc:
            raise ObjectMissing from exc
        except MonitorInvalid as exc:
            errors = {_NAMES.get(exc.param, exc.param): f"{exc.problem}. {exc.next_step}"}
            return await self._shown(schedule_id, status=400, errors=errors, values=sent)
        return self._frame.to_page(f"{SCHEDULES}/{schedule_id}", done=done)

    async def _found(self, schedule_id: str) -> DiscoverSchedule:
        """Return the account's schedule. Raises ObjectMissing."""
        try:
            return await self._schedules.get(account_id(), schedule_id)
        except ScheduleUnknown as exc:
            raise ObjectMissing from exc

    async def _shown(self, schedule_id: str, *, status: int = 200, **more: Any) -> Response:
        schedule = _view(await self._found(schedule_id))
        before = _instant(request.args.get("before", ""))
        found = await self._schedules.occurrences(account_id(), schedule_id, before=before, limit=OCCURRENCES + 1)
        return await self._frame.shown(
            "schedule.html",
            schedule["name"],
            status=status,
            schedule=schedule,
            occurrences=found[:OCCURRENCES],
            older=repr(found[OCCURRENCES - 1].scheduled_for) if len(found) > OCCURRENCES else "",
            is_first=before is None,
            **{"values": schedule["form"], **more},
        )


def _view(schedule: DiscoverSchedule) -> dict[str, Any]:
    run, cadence = orjson.loads(schedule.body), orjson.loads(schedule.cadence)
    is_plain = isinstance(cadence, str)
    cron = "" if is_plain else cadence.get("cron", "")
    timezone = "" if is_plain else cadence.get("timezone", "")
    return {
        "id": schedule.id,
        "name": schedule.name,
        "status": schedule.status,
        "paused_because": schedule.paused_because or "",
        "cadence": cadence if is_plain else f"{cron} {timezone}".strip(),
        "run": run,
        "skips": schedule.skips,
        "last_run_id": schedule.last_run_id or "",
        "next_slot_at": schedule.next_slot_at,
        "created_at": schedule.created_at,
        "form": {
            "name": schedule.name,
            "cadence": cadence if is_plain else "cron",
            "cron": cron,
            "timezone": timezone,
            "max_credits": run["max_credits"],
        },
    }


def _instant(text: str) -> float | None:
    """Parse the slot after which a page begins. An invalid value means the first page."""
    try:
        return msgspec.convert(text, float, strict=False) if text else None
    except msgspec.ValidationError:
        return None
