"""Discover runs as their owners have them: begun, read, paused, resumed and cancelled (decisions 19)."""

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
"""For how long the beginning of a run waits for its end."""


class RunChanges(NamedTuple):
    """A run with rows that changed after a version, in the order of their versions, and whether more have."""

    view: DiscoverView
    rows: list[DiscoverRow]
    has_more: bool


class RunPatch(msgspec.Struct, frozen=True):
    """A change of a run."""

    status: Literal["paused", "running"] | None = None
    max_credits: int | None = None


class DiscoverService:
    """Every method takes the account: what belongs to another one is unknown."""

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
        """`jobs` are those of this kind, `searches` those of the node; `wake` tells the workers that a job is ready."""
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
        """Reserve what a run may cost, as far as the balance goes, and queue it.

        Raises:
            As `JobService.begin`.
        """
        return await self._jobs.begin(draft_of(spec, terms), owner, write=write)

    async def get(self, account_id: str, run_id: str) -> DiscoverView:
        """One of them.

        Raises:
            JobUnknown: the account has no such run.
        """
        return await self._store.read(partial(run_rows.owned, account_id=account_id, run_id=run_id))

    async def failed_legs(self, views: Iterable[DiscoverView]) -> dict[str, list[FailedLeg]]:
        """Return the first legs that failed of those of these runs that have any."""
        run_ids = [view.run.run_id for view in views if view.run.legs_failed]
        return await self._store.read(partial(run_rows.failed_legs, run_ids=run_ids)) if run_ids else {}

    async def page(self, account_id: str, *, before: tuple[float, str] | None, limit: int) -> list[DiscoverView]:
        """A page, newest first."""
        jobs = await self._jobs.page(account_id, before=before, limit=limit)
        return await self._store.read(partial(run_rows.runs_of, jobs=jobs))

    async def wait_settled(self, run_id: str, *, within_s: float, stopping: Callable[[], bool]) -> None:
        """Return when a run has ended or is paused, when the node stops, or after so many seconds."""
        await self._steps.waits.wait(run_id, within_s=within_s, stopping=stopping)

    async def changes(self, account_id: str, run_id: str, since: int, *, limit: int) -> RunChanges:
        """Return a run with the rows of it that changed after version `since`.

        Raises:
            JobUnknown: the account has no such run.
            JobInvalid: there is no such version.
        """

        def read(tx: Tx) -> RunChanges:
            view = run_rows.owned(tx, account_id, run_id)
            if since > view.run.version:
                how = "Send the version of an earlier answer."
                raise JobInvalid("changes_since", f"must be 0 to {view.run.version}, the run's version", how)
            return RunChanges(view, *run_rows.changes_since(tx, run_id, since, limit))

        return await self._store.read(read)

    async def place(self, account_id: str, run_id: str, after: str | None) -> int:
        """The number of the row behind which results go on.

        Raises:
            JobUnknown, JobInvalid: there is no such run, or no such row of it.
        """

        def read(tx: Tx) -> int:
            run_rows.owned(tx, account_id, run_id)
            return run_rows.number_after(tx, run_id, after)

        return await self._store.read(read)

    async def rows(
        self, run_id: str, after: int, *, limit: int, only_new: bool, bytes_max: int = PAGE_BYTES
    ) -> tuple[list[DiscoverRow], bool]:
        """Return rows of a run after a number, in order, and if there are more; see `run_rows.rows_after`."""
        read = partial(
            run_rows.rows_after, run_id=run_id, after=after, limit=limit, only_new=only_new, bytes_max=bytes_max
        )
        return await self._store.read(read)

    def follow(self, account_id: str, run_id: str) -> Follower:
        """Looks at a run of the account's, as its steps end."""
        return Follower(self._store, account_id, run_id)

    async def change(self, owner: JobOwner, run_id: str, patch: RunPatch) -> DiscoverView:
        """Pause a run, which gives back what it holds; let it go on, which reserves anew; or change its bound.

        Raises:
            JobUnknown, JobOver, JobInvalid: nothing was changed.
            InsufficientCredits, KeyBudgetReached, KeyUnusable: nothing was changed or charged.
        """
        changed = await self._store.write(partial(self._change, owner=owner, run_id=run_id, patch=patch))
        self._wake()
        return changed

    def _change(self, tx: Tx, *, owner: JobOwner, run_id: str, patch: RunPatch) -> DiscoverView:
        tx.all_in(READ_ACCOUNTS, [owner.account_id])  # accounts are locked before what is theirs
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
        """Close the reservation of a run that goes on with another one."""
        used = job.used_credits - job.closed_credits
        self._charges.release(tx, CloseRequest(job.request_id, job.account_id, job.key_id, used))
        job_rows.close_reservation(tx, job.id)

    def _reserve(self, tx: Tx, owner: JobOwner, job: JobRecord, run: DiscoverRecord) -> None:
        """Reserve what a run may still cost, as far as the balance goes."""
        spec, left = spec_of(job.spec), run.max_credits - job.used_credits
        least = least_credits(spec)
        if left < least:
            problem = f"leaves {left} credits beside the {job.used_credits} that are spent: too few for a page"
            raise JobInvalid("max_credits", problem, f"Send more than {job.used_credits}.")
        most = max(least, min(left, most_credits(spec) - job.used_credits))
        wanted = ChargeRequest(owner.request_id, job.account_id, owner.key_id, most, PLATFORM, RUNS_PATH, least)
        held = self._charges.reserve(tx, wanted).credits
        job_rows.reserve_more(tx, job.id, request_id=owner.request_id, key_id=owner.key_id, held_credits=held)

    async def cancel(self, account_id: str, run_id: str) -> DiscoverView:
        """End a run: its rows stay, and what it holds goes back; one that was cancelled before is as it was.

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
    """Whether a run has ended or is paused."""
    return job.is_over or job.status == "paused"


def check_bound(job: JobRecord, run: DiscoverRecord, max_credits: int, *, goes_on: bool) -> None:
    """Check a new bound of what a run may cost: it may fall only where nothing is under way.

    Raises:
        JobInvalid: it is too low or too high.
    """
    least = run.max_credits if goes_on else max(1, job.used_credits)
    if not least <= max_credits <= CREDITS_MAX:
        why = " while the run goes on" if goes_on else ""
        raise JobInvalid("max_credits", f"must be {least} to {CREDITS_MAX}{why}", f"Send {least} to {CREDITS_MAX}.")


class Follower:
    """Looks at a run again and again, and gives the steps that ended since the look before."""

    def __init__(self, store: Store, account_id: str, run_id: str) -> None:
        self._store = store
        self._account_id = account_id
        self._run_id = run_id
        self._given: set[int] = set()
        self._low = 0
        """All steps up to this number were given."""

    async def look(self) -> tuple[DiscoverView, list[EndedStep]]:
        """The run as it stands, and the pages and accounts that were read.

        Raises:
            JobUnknown: it was removed.
        """

        def read(tx: Tx) -> tuple[DiscoverView, list[EndedStep]]:
            view = run_rows.owned(tx, self._account_id, self._run_id)
            ended, _ = job_rows.ended_steps(
                tx, self._run_id, _ENDED, after=self._low, limit=FOLLOWED_AT_ONCE, bytes_max=PAGE_BYTES
            )
            return view, ended

        view, ended = await self._store.read(read)
        new = [one for one in ended if one.number not in self._given]
        self._given.update(one.number for one in new)
        pages = [one for one in new if not isinstance(read_step(one.name), PageRest)]
        while self._low + 1 in self._given:
            self._low += 1
            self._given.remove(self._low)
        return view, pages
