"""Publishes the events of runs and schedules to the account's feed (spec 2.8, 6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from msgspec.structs import asdict

from events.log.kinds import (
    DiscoverCounts,
    DiscoverCredits,
    DiscoverLegs,
    DiscoverNewCounts,
    DiscoverNewRows,
    DiscoverRun,
)
from events.log.log import Fact, Subject
from scheduler.jobs.discover.records import DiscoverRecord
from scheduler.jobs.records import JobRecord

RUNS_PATH: Final = "/v1/prism/discover/runs"
SCHEDULES_PATH: Final = "/v1/prism/discover/schedules"
NEW: Final[Mapping[str, str]] = MappingProxyType(
    {"posts": "discover.new_rows", "accounts": "discover.new_accounts", "items": "discover.new_items"}
)
SETTLED: Final = ("completed", "partial", "paused", "failed")


def progressed(job: JobRecord, run: DiscoverRecord) -> tuple[DiscoverRecord, list[Fact]]:
    """Return a run, and a progress event if another tenth of its legs has ended since the last event."""
    tenths = 10 * run.legs_ended // run.legs_planned
    if not run.is_told or tenths <= run.told_tenths:
        return run, []
    return replace(run, told_tenths=tenths, told_version=run.version), [_fact(job, run, "discover.progress")]


def settled(job: JobRecord, run: DiscoverRecord) -> tuple[DiscoverRecord, list[Fact]]:
    """Return a run that ended or is paused, with its events. A cancelled run has no events."""
    if not run.is_told or job.status not in SETTLED:
        return run, []
    types = [f"discover.{job.status}"]
    if run.view == "accounts" and job.status in ("completed", "partial"):
        types.insert(0, "discover.accounts_ready")
    if run.schedule_id is not None and run.rows_new > run.told_new:
        types.append(NEW[run.view])
    if run.schedule_id is not None and job.status == "failed":
        types.append("discover.run_failed")
    facts = [_fact(job, run, type_) for type_ in types]
    return replace(run, told_version=run.version, told_new=max(run.told_new, run.rows_new)), facts


def legs_of(job: JobRecord, run: DiscoverRecord) -> DiscoverLegs:
    """Return the counts of a run's legs by status."""
    left = run.legs_planned - run.legs_ended
    return DiscoverLegs(
        planned=run.legs_planned,
        done=run.legs_done,
        empty=run.legs_empty,
        failed=run.legs_failed,
        skipped=left if job.is_over else 0,
        pending=0 if job.is_over else left,
    )


def links_of(run: DiscoverRecord) -> dict[str, str]:
    """Return links to a run, its rows, and its changes since the last event."""
    own = f"{RUNS_PATH}/{run.run_id}"
    return {"run": own, "results": f"{own}/results.jsonl", "changes": f"{own}?changes_since={run.told_version}"}


def _fact(job: JobRecord, run: DiscoverRecord, type_: str) -> Fact:
    legs = legs_of(job, run)
    data = DiscoverRun(
        run_id=run.run_id,
        status=job.status,
        stopped_because=job.stopped_because,
        counts=DiscoverCounts(legs=legs, rows_kept=run.rows_kept),
        credits=DiscoverCredits(spent=job.used_credits),
        version=run.version,
        schedule_id=run.schedule_id,
    )
    links = links_of(run)
    if type_ in NEW.values():
        links["results"] += "?new=true"
        counts = DiscoverNewCounts(legs=legs, rows_kept=run.rows_kept, rows_new=run.rows_new)
        data = DiscoverNewRows(**{**asdict(data), "counts": counts})
    subject = Subject("discover_run", run.run_id)
    return Fact(job.account_id, type_, subject, data, key_id=run.key_id, parent_id=run.schedule_id, links=links)


def of_schedule(
    schedule: tuple[str, str, str | None, str], types: Iterable[str], status: str, because: str
) -> list[Fact]:
    """Return the events of an occurrence that never became a run. `schedule` is its account, id, key and name."""
    account_id, id_, key_id, name = schedule
    nothing = DiscoverCounts(legs=DiscoverLegs(planned=0, done=0, empty=0, failed=0, skipped=0, pending=0), rows_kept=0)
    data = DiscoverRun(
        run_id=None,
        status=status,
        stopped_because=because,
        counts=nothing,
        credits=DiscoverCredits(spent=0),
        version=0,
        schedule_id=id_,
    )
    links = {"schedule": f"{SCHEDULES_PATH}/{id_}"}
    subject = Subject("discover_schedule", id_, name)
    return [Fact(account_id, type_, subject, data, key_id=key_id, links=links) for type_ in types]
