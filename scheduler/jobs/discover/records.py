"""Discover runs and their rows in stored form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from scheduler.jobs.discover.searches import View
from scheduler.jobs.records import JobRecord


@dataclass(frozen=True, slots=True)
class DiscoverRecord:
    """The stored data of a run that is not in its job."""

    run_id: str
    key_id: str | None
    """The key that can see the run's events."""
    view: View
    is_told: int
    """Whether the run's events are published: true for runs in the background and runs of a schedule."""
    schedule_id: str | None
    max_credits: int
    max_rows: int
    version: int
    """Increases with every change of rows or counts."""
    rows_total: int
    """The number of all rows added so far, which is also the last row number."""
    rows_kept: int
    rows_new: int
    """The number of rows that no earlier occurrence of the run's schedule has found."""
    is_cut: int
    """Whether rows were left out or searches were skipped because of `max_rows`."""
    legs_planned: int
    legs_done: int
    legs_empty: int
    legs_failed: int
    told_tenths: int
    told_version: int
    told_new: int

    @property
    def legs_ended(self) -> int:
        """The number of legs that have ended."""
        return self.legs_done + self.legs_empty + self.legs_failed

    @property
    def is_full(self) -> bool:
        """Whether the run accepts no more rows."""
        return self.rows_kept >= self.max_rows


class DiscoverView(NamedTuple):
    """A run and its job."""

    job: JobRecord
    run: DiscoverRecord


class FailedLeg(NamedTuple):
    """The number and the error of a failed leg."""

    number: int
    error: str


@dataclass(frozen=True, slots=True)
class DiscoverLeg:
    """The current state of a leg.

    `state` is the start of its next page as JSON. `rest` contains the rows of its last page that wait for the leg's
    next turn.
    """

    run_id: str
    number: int
    status: str
    pages: int
    rows_found: int
    credits_used: int
    state: str | None
    error: str | None
    rest: bytes | None = None


class Sighting(NamedTuple):
    """A search that found a row for a keyword, and the row's rank in that search, starting at 1."""

    platform: str
    endpoint: str
    keyword: str
    rank: int


@dataclass(frozen=True, slots=True)
class DiscoverRow:
    """A row in stored form. `found_in` and `judged` are JSON, `record` is compressed JSON."""

    run_id: str
    number: int
    row_id: str
    key: str
    kind: str
    platform: str
    endpoint: str
    found_in: str
    record: bytes | None
    judged: str | None
    is_new: int | None
    first_seen_at: float
    first_version: int
    version: int
    is_gone: int = 0
