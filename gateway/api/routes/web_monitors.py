"""Web watches over HTTP: create, list, read, change, delete, check now, and list the checks (decisions 21)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, get_args

import orjson

from events.instants import iso, iso_or_none
from gateway.api.changes import Changes, text_of
from gateway.api.monitor_changes import MonitorChanges
from gateway.api.paging import Lists, position_after
from gateway.api.responses import Replies
from gateway.api.routes.monitors import filter_of, monitor_id_of
from gateway.calls.idempotency import idempotency_key
from gateway.docs.account import watches as docs
from gateway.http import envelope
from gateway.http.bodies import NoFields, read_json
from gateway.http.params import CURSOR, DRY_RUN, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from limits.idempotency import StoredReply
from limits.long_reads import LongReads
from scheduler.errors import MonitorUnknown
from scheduler.monitors.changes import View
from scheduler.monitors.history.lists import RunEntry, SlotSpan, StatusFilter, unpacked_entries
from scheduler.monitors.service import MonitorService
from scheduler.monitors.view import with_cost_warning
from scheduler.monitors.web.draft import WebBody, WebPatch
from scheduler.monitors.web.watch import ID_PREFIX, watch_of
from scheduler.packing import Unpacker
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import Param, limit

WATCHES: Final = "/v1/web/monitors"
WATCH: Final = f"{WATCHES}/{{monitor_id}}"
PLATFORM: Final = "web"
_LIST: Final = (
    Param("status", "The status of the monitors to list.", "all", default="all", choices=get_args(StatusFilter)),
    limit(100, default=20),
    CURSOR,
)
_CHECKS: Final = (limit(100, default=20), CURSOR)


class WebMonitorRoutes:
    """Serves the watches of the caller's account. A watch is another kind of monitor with the same scheduler."""

    def __init__(
        self,
        monitors: MonitorService,
        *,
        signer: CursorSigner,
        replies: Replies,
        changes: Changes,
        reads: LongReads,
    ) -> None:
        self._monitors = monitors
        self._reads = reads
        self._replies = replies
        self._changes = changes
        self._making = MonitorChanges(monitors, changes)
        self._lists = Lists(signer, replies, PLATFORM)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the watch endpoints."""
        return (
            Route(WATCHES, self.page, doc=docs.LIST, params=_LIST),
            Route(WATCHES, self.create, ("POST",), doc=docs.CREATE, params=(DRY_RUN,), body=WebBody),
            Route(WATCH, self.show, doc=docs.SHOW),
            Route(WATCH, self.change, ("PATCH",), doc=docs.CHANGE, body=WebPatch),
            Route(WATCH, self.delete, ("DELETE",), doc=docs.DELETE),
            Route(f"{WATCH}/run", self.run, ("POST",), doc=docs.RUN, body=NoFields),
            Route(f"{WATCH}/checks", self.checks, doc=docs.CHECKS, params=_CHECKS),
        )

    async def create(self, request: Request, caller: Caller) -> Reply:
        """Create a watch. Return 201 with the watch and, only this time, its webhook's secret."""
        is_dry = read_free(request.query, (DRY_RUN,)).get("dry_run")
        sent = await read_json(request, WebBody)
        draft, account_id = self._monitors.web_draft(sent), caller.key.account_id
        if is_dry:
            # Rejects an invalid idempotency key, even with `dry_run`.
            idempotency_key(request.headers.get(b"idempotency-key"))
            preview = _shown(await self._monitors.preview(draft, account_id), draft.web)
            return await self._free(request, caller, {"valid": True, "monitor": {**preview, "monitor_id": None}})
        made, view, secret = await self._making.make(request, caller, sent, draft)
        shown = _shown(with_cost_warning(self._monitors.to_json(view)), view.monitor.web)
        data = {"monitor": shown, "webhook_secret": secret}
        fragment = envelope.fragment(PLATFORM, request.path, data)
        return await self._changes.answer(request, caller, fragment, made, status=201)

    async def page(self, request: Request, caller: Caller) -> Reply:
        """Return a page of watches, newest first."""
        values = read_free(request.query, _LIST)
        size, status = int(values["limit"]), values["status"]
        place = self._lists.position(request, caller, values, status)
        found = await self._monitors.list(
            caller.key.account_id, filter_of(status), before=place.before, limit=size + 1, of_web=True
        )
        last = found[size - 1].monitor if len(found) > size else None
        more = None if last is None else position_after(last.created_at, last.id)
        return await self._lists.page(request, caller, list(map(self._view, found[:size])), place=place, more=more)

    async def show(self, request: Request, caller: Caller) -> Reply:
        """Return one watch."""
        read_free(request.query, ())
        view = await self._monitors.get(caller.key.account_id, _id_of(request))
        return await self._free(request, caller, {"monitor": self._view(view)})

    async def change(self, request: Request, caller: Caller) -> Reply:
        """Change a watch and return it. The secret is included only if the change adds the first webhook."""
        read_free(request.query, ())
        sent = await read_json(request, WebPatch)
        saved = await self._monitors.change_web(caller.key.account_id, _id_of(request), sent)
        data: dict[str, Any] = {"monitor": self._view(saved.view)}
        if saved.secret is not None:
            data["webhook_secret"] = saved.secret
        return await self._free(request, caller, data)

    async def delete(self, request: Request, caller: Caller) -> Reply:
        """Delete a watch and its checks. The page is no longer checked or billed."""
        read_free(request.query, ())
        await self._monitors.delete(caller.key.account_id, _id_of(request))
        return await self._replies.bare(caller, Reply(204, b""))

    async def run(self, request: Request, caller: Caller) -> Reply:
        """Start a check now, and return it with status 202."""
        read_free(request.query, ())
        account_id, monitor_id = caller.key.account_id, _id_of(request)
        made = await self._making.open_run(request, caller, monitor_id)
        run_id = text_of(made) if isinstance(made, StoredReply) else made.id
        entry = await self._monitors.run(account_id, monitor_id, run_id, parts=("deltas",))
        (check,) = _checks_of([entry])
        fragment = envelope.fragment(PLATFORM, request.path, {"check": check})
        return await self._changes.answer(request, caller, fragment, made, status=202)

    async def checks(self, request: Request, caller: Caller) -> Reply:
        """Return a page of the watch's checks, newest first."""
        caller.hold(await self._reads.take(caller.key.account_id))
        values = read_free(request.query, _CHECKS)
        place = self._lists.position(request, caller, values)
        window = SlotSpan() if place.state is None else SlotSpan(until=float(place.state["at"]))
        page = await self._monitors.runs(
            caller.key.account_id,
            _id_of(request),
            status=None,
            window=window,
            limit=int(values["limit"]),
            parts=("deltas",),
        )

        def make() -> bytes:
            items = _checks_of(page.entries)
            has_more = page.has_more or len(items) < len(page.entries)
            more = {"at": repr(page.entries[len(items) - 1].run.scheduled_for)} if has_more else None
            return self._lists.fragment(request, items, place=place, more=more)

        return await self._replies.free(request, caller, await self._reads.run(caller.key.account_id, make))

    def _view(self, view: View) -> dict[str, Any]:
        return _shown(self._monitors.to_json(view), view.monitor.web)

    async def _free(self, request: Request, caller: Caller, data: dict[str, Any]) -> Reply:
        return await self._replies.free(request, caller, envelope.fragment(PLATFORM, request.path, data))


def _id_of(request: Request) -> str:
    """Return the watch in the path.

    Raises:
        MonitorUnknown: the monitor is of another kind.
    """
    monitor_id = monitor_id_of(request)
    if not monitor_id.startswith(ID_PREFIX):
        raise MonitorUnknown(monitor_id)
    return monitor_id


def _shown(monitor: dict[str, Any], stored: str | None) -> dict[str, Any]:
    """Return a watch as its owner sees it, from the JSON data of its monitor."""
    assert stored is not None, "the monitor is a web watch"
    watch, cadence = watch_of(stored), orjson.loads(orjson.dumps(monitor["cadence"]))
    is_cron = "cron" in cadence
    return {
        "monitor_id": monitor["id"],
        "name": monitor["name"],
        "mode": watch.mode,
        "url": watch.url,
        "query": watch.query,
        "status": monitor["status"],
        "cadence_minutes": None if is_cron else cadence["minutes"],
        "schedule_cron": cadence["cron"] if is_cron else None,
        "timezone": cadence.get("timezone") if is_cron else None,
        "ignore": list(watch.ignore),
        "threshold": watch.threshold,
        "retention_days": watch.retention_days,
        "webhook": monitor["webhook"],
        "estimated_cost_per_check": monitor["estimated_cost_per_run"],
        "estimated_monthly_cost": monitor["estimated_monthly_cost"],
        "max_cost_per_check": monitor["max_cost_per_run"],
        "max_monthly_cost": monitor["max_monthly_cost"],
        "credits_booked": monitor["credits_spent"],
        "checks_total": monitor["runs_total"],
        "next_check_at": monitor["next_run_at"],
        "warnings": monitor["warnings"],
        "created_at": monitor["created_at"],
        "updated_at": monitor["updated_at"],
    }


def _checks_of(entries: Iterable[RunEntry]) -> list[dict[str, Any]]:
    """Return as many of the first checks as fit in a page."""
    return [_check(entry) for entry in unpacked_entries(entries, Unpacker())]


def _check(entry: RunEntry) -> dict[str, Any]:
    """Return one check. Its difference is null until the check has ended; it stays null if the check failed."""
    run, delivery = entry.run, entry.delivery
    delta = orjson.loads(entry.data.deltas) if entry.data.deltas is not None else None
    status = run.status if delta is None else "changed" if delta["changed"] else "first" if delta["first"] else "same"
    return {
        "check_id": run.id,
        "status": status,
        "scheduled_for": iso(run.scheduled_for),
        "finished_at": iso_or_none(run.finished_at),
        "credits_used": run.credits_used,
        "reason": run.skip_reason,
        "similarity": delta and delta["similarity"],
        "added": delta["added"] if delta else [],
        "removed": delta["removed"] if delta else [],
        "added_total": delta["added_total"] if delta else 0,
        "removed_total": delta["removed_total"] if delta else 0,
        "delivered_at": None if delivery is None else iso_or_none(delivery.delivered_at),
    }
