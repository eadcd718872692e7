"""Operations that read the state and the rows of discover runs, for any account."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec
import orjson

from events.instants import iso, iso_or_none
from gateway.admin.operations import Operation, OperationRefused, Operations, Text
from scheduler.jobs import job_rows
from scheduler.jobs.discover import run_rows
from scheduler.jobs.discover.merging import sightings_of
from scheduler.jobs.discover.records import DiscoverRow, DiscoverView
from scheduler.jobs.discover.run_events import legs_of
from scheduler.packing import PAGE_BYTES, Unpacker
from storage.store import Store, Tx

ROWS_MAX: Final = 200
"""Maximum number of rows in one response."""


class DiscoverRunName(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `discover.show`."""

    run: Text


class DiscoverRowPage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `discover.results`, which returns the rows with a number above `after`."""

    run: Text
    after: int = 0


class DiscoverOperations:
    """Reads discover runs of any account for an operator."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add_to(self, operations: Operations) -> None:
        """Register the operations."""
        operations.add("discover.show", Operation(DiscoverRunName, self._show))
        operations.add("discover.results", Operation(DiscoverRowPage, self._results))

    async def _show(self, args: DiscoverRunName) -> Any:
        view = await self._store.read(partial(_view, run_id=args.run))
        (job, run), legs = view, legs_of(view.job, view.run)
        return {
            "run_id": run.run_id,
            "account": job.account_id,
            "status": job.status,
            "stopped_because": job.stopped_because,
            "view": run.view,
            "counts": {"legs": msgspec.structs.asdict(legs), "rows_kept": run.rows_kept},
            "credits": {
                "max": run.max_credits,
                "reserved": job.held_credits,
                "spent": job.used_credits,
                "refunded": job.returned_credits,
            },
            "version": run.version,
            "schedule_id": run.schedule_id,
            "node": job.node,
            "attempt": job.attempt,
            "created_at": iso(job.created_at),
            "finished_at": iso_or_none(job.finished_at),
        }

    async def _results(self, args: DiscoverRowPage) -> Any:
        def read(tx: Tx) -> list[DiscoverRow]:
            _view(tx, args.run)
            return run_rows.rows_after(tx, args.run, args.after, limit=ROWS_MAX, only_new=False, bytes_max=PAGE_BYTES)[
                0
            ]

        return [_row(one) for one in run_rows.rows_with_records(await self._store.read(read), Unpacker())]


def _view(tx: Tx, run_id: str) -> DiscoverView:
    job, run = job_rows.read_job(tx, run_id), run_rows.read_run(tx, run_id)
    if job is None or run is None:
        raise OperationRefused(f"unknown discover run {run_id[:200]}")
    return DiscoverView(job, run)


def _row(row: DiscoverRow) -> dict[str, Any]:
    return {
        "number": row.number,
        "row_id": row.row_id,
        "kind": row.kind,
        "platform": row.platform,
        "found_in": [one._asdict() for one in sightings_of(row)],
        "record": orjson.loads(row.record or b"{}"),
        **({} if row.judged is None else {"match": orjson.loads(row.judged)}),
    }
