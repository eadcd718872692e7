"""The form of discover runs and their rows in responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from msgspec.structs import asdict

from events.instants import iso, iso_or_none
from scheduler.jobs.discover.merging import sightings_of
from scheduler.jobs.discover.records import DiscoverRecord, DiscoverRow, DiscoverView, FailedLeg
from scheduler.jobs.discover.run_events import RUNS_PATH, legs_of
from scheduler.jobs.discover.service import RunChanges, is_settled
from scheduler.jobs.discover.spec import spec_of
from scheduler.jobs.records import JobRecord
from scheduler.packing import PIECE_BYTES, Unpacker


def run_data(view: DiscoverView, failed: list[FailedLeg], base_url: str) -> dict[str, Any]:
    """Return a run as JSON data. Its links begin with `base_url`."""
    (job, run), spec, own = view, spec_of(view.job.spec), f"{base_url}{RUNS_PATH}/{view.run.run_id}"
    return {
        "run_id": run.run_id,
        "status": job.status,
        "stopped_because": job.stopped_because,
        "view": run.view,
        "keywords": spec.keywords,
        "searches": [one.id for one in spec.searches],
        "unavailable": spec.unavailable,
        "counts": {
            "legs": asdict(legs_of(job, run)),
            "rows_kept": run.rows_kept,
            "rows_new": None if run.schedule_id is None else run.rows_new,
        },
        "credits": _money(job, run),
        "max_rows": run.max_rows,
        "version": run.version,
        "schedule_id": run.schedule_id,
        "failed_legs": [_failed(one, view) for one in failed],
        "created_at": iso(job.created_at),
        "started_at": iso_or_none(job.started_at),
        "finished_at": iso_or_none(job.finished_at),
        "links": {"run": own, "results": f"{own}/results.jsonl", "changes": f"{own}?changes_since=0"},
    }


def _money(job: JobRecord, run: DiscoverRecord) -> dict[str, int]:
    return {
        "max": run.max_credits,
        "reserved": job.held_credits,
        "spent": job.used_credits,
        "refunded": job.held_credits - job.used_credits if is_settled(job) else job.returned_credits,
    }


def _failed(leg: FailedLeg, view: DiscoverView) -> dict[str, str]:
    keyword, search = spec_of(view.job.spec).leg(leg.number)
    return {"keyword": keyword, "endpoint": search.id, "error": leg.error}


def lines_of(rows: Sequence[DiscoverRow]) -> tuple[bytes, int]:
    """Return as many of the first rows as fit in one piece, as JSON lines, and the number of the last of these rows."""
    unpacker, lines, last = Unpacker(PIECE_BYTES), list[bytes](), 0
    for row in rows:
        if (data := shown_row(row, unpacker)) is None:
            break
        lines.append(orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE))
        last = row.number
    return b"".join(lines), last


def changes_data(changes: RunChanges, since: int) -> dict[str, Any]:
    """Return as many rows changed since a version as fit in a page. Their `version` is the last one included."""
    unpacker, run = Unpacker(), changes.view.run
    added, changed, gone = list[dict[str, Any]](), list[dict[str, Any]](), list[str]()
    version, has_more = since, changes.has_more
    for row in changes.rows:
        is_new = row.first_version > since
        if row.is_gone:
            gone += [] if is_new else [row.row_id]
        elif (data := shown_row(row, unpacker)) is None:
            has_more = True
            break
        else:
            (added if is_new else changed).append(data)
        version = row.version
    return {
        "version": version if has_more else run.version,
        "added": added,
        "changed": changed,
        "gone": gone,
        "has_more": has_more,
    }


def shown_row(row: DiscoverRow, unpacker: Unpacker) -> dict[str, Any] | None:
    """Return a row with its stored record, or None if it does not fit in the unpacker's remaining size."""
    bodies = unpacker.take(row.record)
    return None if bodies is None else row_data(row, orjson.Fragment(bodies[0] or b"null"))


def row_data(row: DiscoverRow, record: Any) -> dict[str, Any]:
    """Return a row with its record as JSON data."""
    found = sightings_of(row)
    data = {
        "row_id": row.row_id,
        "version": row.version,
        "kind": row.kind,
        "platform": row.platform,
        "endpoint": row.endpoint,
        "keywords": list(dict.fromkeys(one.keyword for one in found)),
        "found_in": [one._asdict() for one in found],
        "rank": min(one.rank for one in found),
        "record": record,
        "is_new": None if row.is_new is None else bool(row.is_new),
        "first_seen_at": iso(row.first_seen_at),
    }
    return data if row.judged is None else {**data, "match": orjson.loads(row.judged)}
