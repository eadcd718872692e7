"""A new run: its terms, its job, and its record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from scheduler.jobs.discover import run_rows
from scheduler.jobs.discover.planning import first_steps, least_credits, most_credits
from scheduler.jobs.discover.records import DiscoverRecord
from scheduler.jobs.discover.run_events import RUNS_PATH
from scheduler.jobs.discover.searches import View
from scheduler.jobs.discover.spec import KIND, DiscoverSpec
from scheduler.jobs.records import JobRecord
from scheduler.jobs.service import JobDraft
from storage.store import Tx

PLATFORM: Final = "prism"


@dataclass(frozen=True, slots=True)
class RunTerms:
    """The terms of a run, except for its search."""

    max_credits: int
    is_told: bool
    key_id: str | None
    """The key that can see the run's events."""
    schedule_id: str | None = None


def draft_of(spec: DiscoverSpec, terms: RunTerms) -> JobDraft:
    """Return the job draft of a run."""

    def add(tx: Tx, job: JobRecord) -> None:
        run_rows.add_run(tx, _new_run(job.id, spec, terms))

    return JobDraft(
        KIND,
        msgspec.json.encode(spec).decode(),
        first_steps(spec),
        most_held(spec, terms.max_credits),
        PLATFORM,
        RUNS_PATH,
        min(terms.max_credits, least_credits(spec)),
        "dr_",
        add,
    )


def most_held(spec: DiscoverSpec, max_credits: int) -> int:
    """Return the most credits that a run reserves: its limit, or its maximum cost if that is less."""
    return min(max_credits, most_credits(spec))


def _new_run(run_id: str, spec: DiscoverSpec, terms: RunTerms) -> DiscoverRecord:
    view: View = "accounts" if spec.view == "accounts" else "items" if spec.view == "items" else "posts"
    return DiscoverRecord(
        run_id=run_id,
        key_id=terms.key_id,
        view=view,
        is_told=int(terms.is_told),
        schedule_id=terms.schedule_id,
        max_credits=terms.max_credits,
        max_rows=spec.max_rows,
        version=1,
        rows_total=0,
        rows_kept=0,
        rows_new=0,
        is_cut=0,
        legs_planned=spec.legs,
        legs_done=0,
        legs_empty=0,
        legs_failed=0,
        told_tenths=0,
        told_version=0,
        told_new=0,
    )
