"""Idempotent changes to monitors and page watches: create a monitor, and start a run now."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gateway.api.changes import Changes, text_of
from gateway.http.bodies import NoFields, read_json
from gateway.http.request import Caller, Request
from limits.idempotency import StoredReply
from scheduler.monitors.changes import Saved, View
from scheduler.monitors.model.draft import Draft
from scheduler.monitors.model.records import Run
from scheduler.monitors.service import MonitorService


@dataclass(frozen=True, slots=True)
class MonitorChanges:
    """Creates monitors and starts runs, for both kinds of monitors."""

    monitors: MonitorService
    changes: Changes

    async def make(
        self, request: Request, caller: Caller, sent: msgspec.Struct, draft: Draft
    ) -> tuple[Saved | StoredReply, View, str | None]:
        """Create a monitor.

        Return the outcome, the current monitor, and its webhook's secret (None for a repeated request).
        """
        account_id = caller.key.account_id
        made = await self.changes.make(
            request,
            caller,
            sent,
            lambda write: self.monitors.create(draft, account_id, caller.key.id, write=write),
            keep=lambda view: view.monitor.id,
        )
        if isinstance(made, StoredReply):
            return made, await self.monitors.get(account_id, text_of(made)), None
        return made, made.view, made.secret

    async def open_run(self, request: Request, caller: Caller, monitor_id: str) -> Run | StoredReply:
        """Start a run. Return it, or the stored text of the run that an earlier request started."""
        return await self.changes.make(
            request,
            caller,
            await read_json(request, NoFields, may_be_empty=True),
            lambda write: self.monitors.run_now(caller.key.account_id, monitor_id, write=write),
            keep=lambda run: run.id,
        )
