"""The operations on discover runs: start, read, pause, resume and cancel (decisions 19)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final, Literal, NamedTuple

import msgspec

from billing.charges.batch_rows import ChargeRequest, CloseRequest
from billing.charges.charge_rows import READ_ACCOUNTS
from billing.charges.charges import Charges
from scheduler.errors import JobInvalid
from scheduler.jobs import job_rows
from scheduler.jobs.discover import run_rows
from scheduler.jobs.discover.planning import PageRest, least_credits, most_credits, read_step
from scheduler.jobs.discover.records import DiscoverRecord, DiscoverRow, DiscoverView, FailedLeg
from scheduler.jobs.discover.run_drafts import PLATFORM, RunTerms, draft_of
from scheduler.jobs.discover.run_events import RUNS_PATH
from scheduler.jobs.discover.searches import Searches
from scheduler.jobs.discover.spec import CREDITS_MAX, DiscoverSpec, spec_of
from scheduler.jobs.discover.steps import DiscoverSteps
from scheduler.jobs.job_runs import settle
from scheduler.jobs.records import EndedStep, JobRecord, Stop
from scheduler.jobs.service import OWNER, JobOwner, JobService, refuse_over
from scheduler.packing import PAGE_BYTES
from storage.store import Store, Tx, Write

FOLLOWED_AT_ONCE: Final = 500
_ENDED: Final = ("done", "empty", "failed")
WAIT_S: Final = 55.0
"""How many seconds the request that starts a run waits for the run to end."""


class RunChanges(NamedTuple):
    """A run with the rows that changed after a version, in order of version, and whether there are more."""

    view: DiscoverView
    rows: list[DiscoverRow]
    has_more: bool


class RunPatch(msgspec.Struct, frozen=True):
    """The requested changes to a run."""

    status: Literal["paused", "running"] | None = None
    max_credits: int | None = None


class DiscoverService:
    """Discover runs. Every method takes an account id, and treats runs of other accounts as unknown."""

    def __init__(
        self,
        store: Store,
        charges: Charges,
        jobs: JobService,
        steps: DiscoverSteps,
        searches: Callable[[], Searches],
        *,
        now: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        """`jobs` is a service for discover jobs. `wake` makes the workers check for new jobs."""
        self._store = store
        self._charges = charges
        self._jobs = jobs
        self._steps = steps
        self.searches = searches
        self._now = now
        self._wake = wake

    async def begin(
        self, spec: DiscoverSpec, terms: RunTerms, owner: JobOwner, *, write: Write | None = None
    ) -> JobRecord:
        """Reserve the maximum cost of a run, or as much as the balance allows, and queue the run.

        Raises:
            Any error that `JobService.begin` raises.
        """
        return await self._jobs.begin(draft_of(spec, terms), owner, write=write)

    async def get(self, account_id: str, run_id: str) -> DiscoverView:
        """Return one run.

        Raises:
            JobUnknown: the account has no such run.
        """
        return await self._store.read(partial(run_rows.owned, account_id=account_id, run_id=run_id))

    async def failed_legs(self, views: Iterable[DiscoverView]) -> dict[str, list[FailedLeg]]:
        """Return the first failed legs of each of these runs. Runs without failed legs are left out."""
        run_ids = [view.run.run_id for view in views if view.run.legs_failed]
        return await self._store.read(partial(run_rows.failed_legs, run_ids=run_ids)) if run_ids else {}

    async def page(self, account_id: str, *, before: tuple[float, str] | None, limit: int) -> list[DiscoverView]:
        """Return a page of runs, newest first."""
        jobs = await self._jobs.page(account_id, before=before, limit=limit)
        return await self._store.read(partial(run_rows.runs_of, jobs=jobs))

    async def wait_settled(self, run_id: str, *, within_s: float, stopping: Callable[[], bool]) -> None:
        """Return once a run has ended or is paused, when the node stops, or after `within_s` seconds."""
        await self._steps.waits.wait(run_id, within_s=within_s, stopping=stopping)

    async def changes(self, account_id: str, run_id: str, since: int, *, limit: int) -> RunChanges:
        """Return a run with its rows that changed after version `since`.

        Raises:
            JobUnknown: the account has no such run.
            JobInvalid: the run has not reached this version.
        """

        def read(tx: Tx) -> RunChanges:
            view = run_rows.owned(tx, account_id, run_id)
            if since > view.run.version:
                how = "Send the version of an earlier response."
                raise JobInvalid("changes_since", f"must be 0 to {view.run.version}, the run's version", how)
            return RunChanges(view, *run_rows.changes_since(tx, run_id, since, limit))

        return await self._store.read(read)

    async def place(self, account_id: str, run_id: str, after: str | None) -> int:
        """Return the number of the last row that the client already has.

        Raises:
            JobUnknown, JobInvalid: the run or the row does not exist.
        """

        def read(tx: Tx) -> int:
            run_rows.owned(tx, account_id, run_id)
            return run_rows.number_after(tx, run_id, after)

        return await self._store.read(read)

    async def rows(
        self, run_id: str, after: int, *, limit: int, only_new: bool, bytes_max: int = PAGE_BYTES
    ) -> tuple[list[DiscoverRow], bool]:
        """Return the rows after number `after`, in order, and whether there are more. See `run_rows.rows_after`."""
        read = partial(
            run_rows.rows_after, run_id=run_id, after=after, limit=limit, only_new=only_new, bytes_max=bytes_max
        )
        return await self._store.read(read)

    def follow(self, account_id: str, run_id: str) -> Follower:
        """Return a follower of an account's run, which reports steps as they end."""
        return Follower(self._store, account_id, run_id)

    async def change(self, owner: JobOwner, run_id: str, patch: RunPatch) -> DiscoverView:
        """Pause a run, resume it, or change its cost limit.

        Pausing a run refunds the unused part of its reservation, and resuming a run reserves credits again.

        Raises:
            JobUnknown, JobOver, JobInvalid: nothing was changed.
            InsufficientCredits, KeyBudgetReached, KeyUnusable: nothing was changed or charged.
        """
        changed = await self._store.write(partial(self._change, owner=owner, run_id=run_id, patch=patch))
        self._wake()
        return changed

    def _change(self, tx: Tx, *, owner: JobOwner, run_id: str, patch: RunPatch) -> DiscoverView:
        tx.all_in(READ_ACCOUNTS, [owner.account_id])  # lock the account before its rows
        job, run = run_rows.owned(tx, owner.account_id, run_id, locked=True)
        refuse_over(job)
        if patch.status == "paused" and job.status != "paused":
            job = settle(tx, self._charges, run_id, self._now(), Stop("paused", OWNER))
            self._steps.ended(tx, job, at=self._now())
            run = run_rows.the_run(tx, run_id)
        goes_on = job.status != "paused"
        if patch.max_credits is not None:
            check_bound(job, run, patch.max_credits, goes_on=goes_on)
            run = replace(run, max_credits=patch.max_credits, version=run.version + 1)
            run_rows.save_run(tx, run)
            if goes_on:
                self._release(tx, job)
                self._reserve(tx, owner, job, run)
        if patch.status == "running" and not goes_on:
            run = replace(run, version=run.version + 1)
            run_rows.save_run(tx, run)
            self._reserve(tx, owner, job, run)
            job_rows.queue(tx, run_id)
        return run_rows.owned(tx, owner.account_id, run_id)

    def _release(self, tx: Tx, job: JobRecord) -> None:
        """Close the reservation of a run that will continue with a new reservation."""
        used = job.used_credits - job.closed_credits
        self._charges.release(tx, CloseRequest(job.request_id, job.account_id, job.key_id, used))
        job_rows.close_reservation(tx, job.id)

    def _reserve(self, tx: Tx, owner: JobOwner, job: JobRecord, run: DiscoverRecord) -> None:
        """Reserve the remaining maximum cost of a run, or as much as the balance allows."""
        spec, left = spec_of(job.spec), run.max_credits - job.used_credits
        least = least_credits(spec)
        if left < least:
            problem = f"leaves too few credits for a page: {left} in addition to the {job.used_credits} already spent"
            raise JobInvalid("max_credits", problem, f"Send more than {job.used_credits}.")
        most = max(least, min(left, most_credits(spec) - job.used_credits))
        wanted = ChargeRequest(owner.request_id, job.account_id, owner.key_id, most, PLATFORM, RUNS_PATH, least)
        held = self._charges.reserve(tx, wanted).credits
        job_rows.reserve_more(tx, job.id, request_id=owner.request_id, key_id=owner.key_id, held_credits=held)

    async def cancel(self, account_id: str, run_id: str) -> DiscoverView:
        """Cancel a run. Its rows are kept, and the unused part of its reservation is refunded.

        If the run is already cancelled, nothing changes.

        Raises:
            JobUnknown, JobOver: nothing was changed.
        """

        def cancel(tx: Tx) -> DiscoverView:
            tx.all_in(READ_ACCOUNTS, [account_id])
            job, _ = run_rows.owned(tx, account_id, run_id, locked=True)
            if job.status != "cancelled":
                refuse_over(job)
                now = self._now()
                self._steps.ended(tx, settle(tx, self._charges, run_id, now, Stop("cancelled", OWNER)), at=now)
            return run_rows.owned(tx, account_id, run_id)

        return await self._store.write(cancel)


def is_settled(job: JobRecord) -> bool:
    """Return whether a run has ended or is paused."""
    return job.is_over or job.status == "paused"


def check_bound(job: JobRecord, run: DiscoverRecord, max_credits: int, *, goes_on: bool) -> None:
    """Check a new cost limit of a run. It can be lowered only while the run is paused.

    Raises:
        JobInvalid: the limit is too low or too high.
    """
    least = run.max_credits if goes_on else max(1, job.used_credits)
    if not least <= max_credits <= CREDITS_MAX:
        why = " while the run is active" if goes_on else ""
        raise JobInvalid("max_credits", f"must be {least} to {CREDITS_MAX}{why}", f"Send {least} to {CREDITS_MAX}.")


class Follower:
    """Reads a run repeatedly, and returns the steps that ended since the last read."""

    def __init__(self, store: Store, account_id: str, run_id: str) -> None:
        self._store = store
        self._account_id = account_id
        self._run_id = run_id
        self._returned: set[int] = set()
        self._low = 0
        """Steps up to this number have been returned."""

    async def look(self) -> tuple[DiscoverView, list[EndedStep]]:
        """Return the current run, and the pages and accounts read since the last call.

        Raises:
            JobUnknown: the run was deleted.
        """

        def read(tx: Tx) -> tuple[DiscoverView, list[EndedStep]]:
            view = run_rows.owned(tx, self._account_id, self._run_id)
            ended, _ = job_rows.ended_steps(
                tx, self._run_id, _ENDED, after=self._low, limit=FOLLOWED_AT_ONCE, bytes_max=PAGE_BYTES
            )
            return view, ended

        view, ended = await self._store.read(read)
        new = [one for one in ended if one.number not in self._returned]
        self._returned.update(one.number for one in new)
        pages = [one for one in new if not isinstance(read_step(one.name), PageRest)]
        while self._low + 1 in self._returned:
            self._low += 1
            self._returned.remove(self._low)
        return view, pages
