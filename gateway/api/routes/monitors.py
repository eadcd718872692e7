"""Monitors over HTTP: create, list, read, change, delete, run now, and the history of runs (spec 2.6, 4.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, get_args

import orjson
import trio

from gateway.api.changes import Changes, text_of
from gateway.api.monitor_changes import MonitorChanges
from gateway.api.monitor_records import run_record
from gateway.api.paging import Lists, position_after
from gateway.api.responses import Replies, account_fragment
from gateway.api.windows import WINDOW, window_of
from gateway.calls.idempotency import idempotency_key
from gateway.docs.account import monitors as docs
from gateway.http.bodies import NoFields, read_json
from gateway.http.errors import InvalidParam
from gateway.http.params import CURSOR, DRY_RUN, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from gateway.server.http1.fields import joined
from limits.idempotency import StoredReply
from limits.long_reads import LongReads
from scheduler.errors import MonitorUnknown
from scheduler.json_input import nearest
from scheduler.monitors.history.lists import RunEntry, StatusFilter, unpacked_entries
from scheduler.monitors.model.draft import CreateBody
from scheduler.monitors.model.patch import PatchBody
from scheduler.monitors.model.records import RunStatus
from scheduler.monitors.runs.run_rows import DataPart
from scheduler.monitors.service import MonitorService
from scheduler.monitors.view import with_cost_warning
from scheduler.monitors.web.watch import ID_PREFIX
from scheduler.packing import Unpacker
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import Param, limit

MONITORS: Final = "/v1/monitors"
MONITOR: Final = f"{MONITORS}/{{monitor_id}}"
_INCLUDES: Final = ("result", "numbers")
_LIST: Final = (
    Param("status", "The status of the monitors to list.", "all", default="active", choices=get_args(StatusFilter)),
    limit(100),
    CURSOR,
)
_RUN: Final = (Param("include", "The parts of each run to include: result, numbers or both.", "numbers"),)
_RUNS: Final = (
    Param("status", "Only runs with this status.", "ok", choices=get_args(RunStatus)),
    *_RUN,
    *WINDOW,
    limit(100),
    CURSOR,
)


class MonitorRoutes:
    """Serves the monitors of the caller's account."""

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
        self._lists = Lists(signer, replies)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the monitor endpoints."""
        return (
            Route(MONITORS, self.page, doc=docs.LIST, params=_LIST),
            Route(MONITORS, self.create, ("POST",), doc=docs.CREATE, params=(DRY_RUN,), body=CreateBody),
            Route(MONITOR, self.show, doc=docs.SHOW),
            Route(MONITOR, self.change, ("PATCH",), doc=docs.CHANGE, body=PatchBody),
            Route(MONITOR, self.delete, ("DELETE",), doc=docs.DELETE),
            Route(f"{MONITOR}/run", self.run, ("POST",), doc=docs.RUN, body=NoFields),
            Route(f"{MONITOR}/runs", self.runs, doc=docs.RUNS, params=_RUNS),
            Route(f"{MONITOR}/runs/{{run_id}}", self.show_run, doc=docs.SHOW_RUN, params=_RUN),
        )

    async def create(self, request: Request, caller: Caller) -> Reply:
        """Create a monitor. Return 201; the webhook's secret is next to the envelope's own fields (decisions 2)."""
        is_dry = read_free(request.query, (DRY_RUN,)).get("dry_run")
        sent = await read_json(request, CreateBody)
        draft, account_id = self._monitors.draft(sent), caller.key.account_id
        if is_dry:
            # Rejects an invalid idempotency key, even with `dry_run`.
            idempotency_key(request.headers.get(b"idempotency-key"))
            preview = {**await self._monitors.preview(draft, account_id), "id": None}
            return await self._free(request, caller, {"valid": True, "monitor": preview})
        made, made_view, secret = await self._making.make(request, caller, sent, draft)
        monitor = with_cost_warning(self._monitors.to_json(made_view))
        body = {"platform": "account", "endpoint": MONITORS, "monitor": monitor, "webhook_secret": secret}
        reply = await self._changes.answer(request, caller, orjson.dumps(body)[1:-1], made, status=201)
        reply.headers = joined(reply.headers, ((b"location",), (_place(made_view.monitor.id),)))
        return reply

    async def page(self, request: Request, caller: Caller) -> Reply:
        """Return a page of monitors, newest first."""
        values = read_free(request.query, _LIST)
        size, status = int(values["limit"]), values["status"]
        place = self._lists.position(request, caller, values, status)
        found = await self._monitors.list(caller.key.account_id, filter_of(status), before=place.before, limit=size + 1)
        views = found[:size]
        last = views[-1].monitor if len(found) > size else None
        more = None if last is None else position_after(last.created_at, last.id)
        items = []
        for view in views:  # Each takes up to 1 ms, so let other tasks run in between.
            items.append(self._monitors.to_json(view))
            await trio.lowlevel.checkpoint()
        return await self._lists.page(request, caller, items, place=place, more=more)

    async def show(self, request: Request, caller: Caller) -> Reply:
        """Return one monitor."""
        read_free(request.query, ())
        view = await self._monitors.get(caller.key.account_id, plain_id_of(request))
        return await self._free(request, caller, {"monitor": self._monitors.to_json(view)})

    async def change(self, request: Request, caller: Caller) -> Reply:
        """Change a monitor and return it. The secret is included only if the change adds the first webhook."""
        read_free(request.query, ())
        sent = await read_json(request, PatchBody)
        saved = await self._monitors.change(caller.key.account_id, plain_id_of(request), sent)
        data: dict[str, Any] = {"monitor": self._monitors.to_json(saved.view)}
        if saved.secret is not None:
            data["webhook_secret"] = saved.secret
        return await self._free(request, caller, data)

    async def delete(self, request: Request, caller: Caller) -> Reply:
        """Delete a monitor. It no longer runs and is no longer billed."""
        read_free(request.query, ())
        await self._monitors.delete(caller.key.account_id, plain_id_of(request))
        return await self._replies.bare(caller, Reply(204, b""))

    async def run(self, request: Request, caller: Caller) -> Reply:
        """Start a run now. Return 202 with the run. The client reads the outcome from the run's own path."""
        read_free(request.query, ())
        account_id, monitor_id = caller.key.account_id, plain_id_of(request)
        made = await self._making.open_run(request, caller, monitor_id)
        if isinstance(made, StoredReply):  # A repeated request gets the run's current state.
            found = await self._monitors.run(account_id, monitor_id, text_of(made))
            run = run_record(found.run, found.delivery)
        else:
            run = run_record(made)
        fragment = account_fragment(request.path, {"run": run})
        return await self._changes.answer(request, caller, fragment, made, status=202)

    async def show_run(self, request: Request, caller: Caller) -> Reply:
        """Return one run of the monitor."""
        include = _includes(read_free(request.query, _RUN).get("include"))
        assert request.named is not None, "the route declares this path parameter"
        if include:
            caller.hold(await self._reads.take(caller.key.account_id))
        found = await self._monitors.run(
            caller.key.account_id, plain_id_of(request), request.named["run_id"], parts=_parts_of(include)
        )

        def make() -> bytes:
            (shown,) = _shown_runs([found], include)
            return account_fragment(request.path, {"run": shown})

        fragment = await self._reads.run(caller.key.account_id, make) if include else make()
        return await self._replies.free(request, caller, fragment)

    async def runs(self, request: Request, caller: Caller) -> Reply:
        """Return a page of the monitor's runs, newest first."""
        caller.hold(await self._reads.take(caller.key.account_id))
        values = read_free(request.query, _RUNS)
        window, include = window_of(values), _includes(values.get("include"))
        status = str(values["status"]) if "status" in values else None
        place = self._lists.position(request, caller, values, status, *window.bounds)
        if place.state is not None:
            window = window._replace(until=float(place.state["at"]))
        page = await self._monitors.runs(
            caller.key.account_id,
            plain_id_of(request),
            status=status,
            window=window,
            limit=int(values["limit"]),
            parts=_parts_of(include),
        )

        def make() -> bytes:
            items = _shown_runs(page.entries, include)
            has_more = page.has_more or len(items) < len(page.entries)
            more = {"at": repr(page.entries[len(items) - 1].run.scheduled_for)} if has_more else None
            return self._lists.fragment(request, items, place=place, more=more)

        return await self._replies.free(request, caller, await self._reads.run(caller.key.account_id, make))

    async def _free(self, request: Request, caller: Caller, data: dict[str, Any]) -> Reply:
        return await self._replies.free(request, caller, account_fragment(request.path, data))


def filter_of(status: object) -> StatusFilter:
    """Return the status filter of a list. Any unknown value means all."""
    return "active" if status == "active" else "paused" if status == "paused" else "all"


def monitor_id_of(request: Request) -> str:
    """Return the monitor in the path."""
    assert request.named is not None, "the route declares this path parameter"
    return request.named["monitor_id"]


def plain_id_of(request: Request) -> str:
    """Return the monitor in the path. Web watches are excluded, because they have their own routes.

    Raises:
        MonitorUnknown: the monitor is a watch.
    """
    monitor_id = monitor_id_of(request)
    if monitor_id.startswith(ID_PREFIX):
        raise MonitorUnknown(monitor_id)
    return monitor_id


def _place(monitor_id: str) -> bytes:
    return f"{MONITORS}/{monitor_id}".encode()


def _includes(sent: object) -> tuple[str, ...]:
    names = tuple(str(sent).split(",")) if sent is not None else ()
    for name in names:
        if name not in _INCLUDES:
            problem = f"must be result, numbers or both, separated by a comma, not {name[:100]}"
            raise InvalidParam("include", problem, meant=nearest(name.lower(), _INCLUDES))
    return names


def _parts_of(include: tuple[str, ...]) -> tuple[DataPart, ...]:
    result: tuple[DataPart, ...] = ("result",) if "result" in include else ()
    return (*result, "numbers", "deltas") if "numbers" in include else result


def _shown_runs(entries: Iterable[RunEntry], include: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return as many of the first runs as fit in a page."""
    return [_shown_run(entry, include) for entry in unpacked_entries(entries, Unpacker())]


def _shown_run(entry: RunEntry, include: tuple[str, ...]) -> dict[str, Any]:
    """Return a run with its stored result unchanged. If only `numbers` are included, the result is null (spec 2.6)."""
    shown, data = run_record(entry.run, entry.delivery), entry.data
    if include:
        shown["result"] = _stored(data.result if "result" in include else None)
    if "numbers" in include:
        shown |= {"numbers": _stored(data.numbers), "deltas": _stored(data.deltas)}
    return shown


def _stored(body: bytes | None) -> orjson.Fragment | None:
    return None if body is None else orjson.Fragment(body)
