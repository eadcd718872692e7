"""The operations on jobs: start, list, pause, resume, cancel and read results (decisions 17)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from billing.charges.batch_rows import ChargeRequest
from billing.charges.charge_rows import READ_ACCOUNTS
from billing.charges.charges import Charges
from scheduler.errors import JobLimitReached, JobOver
from scheduler.jobs import job_rows
from scheduler.jobs.job_runs import settle
from scheduler.jobs.records import EndedStep, JobRecord, StepStatus, Stop
from scheduler.packing import PAGE_BYTES
from scheduler.webhooks.records import JOB_PREFIX
from storage.store import Store, Tx, Write

LIVE_MAX: Final = 100
"""The maximum number of unfinished jobs of an account, including paused ones."""
OWNER: Final = "owner"


@dataclass(frozen=True, slots=True)
class JobDraft:
    """A job that can be started: its kind, its request as JSON, the names of its first steps, and its maximum cost."""

    kind: str
    spec: str
    names: Sequence[str]
    held_credits: int
    platform: str
    path: str
    credits_least: int | None = None
    """The smallest reservation to accept if the balance is below the maximum cost. None means the full maximum cost."""
    prefix: str = JOB_PREFIX
    """The prefix of the job's id."""
    also: Callable[[Tx, JobRecord], None] = lambda _tx, _job: None
    """Stores further data of the new job, such as rows of its kind's own tables, in the same transaction."""


@dataclass(frozen=True, slots=True)
class JobOwner:
    """The account, the key and the request that start a job."""

    account_id: str
    key_id: str | None
    """None if the job was started without a key. In that case, no key budget applies."""
    request_id: str
    in_background: bool = False
    """As in `ChargeRequest`."""


class JobService:
    """Jobs. Every method takes an account id, and treats jobs of other accounts as unknown."""

    def __init__(
        self,
        store: Store,
        charges: Charges,
        *,
        now: Callable[[], float],
        make_id: Callable[[str], str],
        wake: Callable[[], None],
        kinds: Sequence[str],
        ended: Callable[[Tx, JobRecord], None] = lambda _tx, _job: None,
    ) -> None:
        """`wake` makes the workers check for new jobs. Jobs of other kinds than `kinds` do not exist for the service.

        `ended` stores data about the end of a job that its owner cancels, in the same transaction.
        """
        self._kinds = kinds
        self._store = store
        self._charges = charges
        self._now = now
        self._make_id = make_id
        self._wake = wake
        self._ended = ended

    async def begin(self, draft: JobDraft, owner: JobOwner, *, write: Write | None = None) -> JobRecord:
        """Reserve the maximum cost of a job and queue it, in one transaction.

        `write` replaces the store's own write, so that the caller can record the result in the same transaction.

        Raises:
            JobLimitReached: nothing was started.
            InsufficientCredits, KeyBudgetReached, KeyUnusable, StorageError: nothing was started or charged.
        """
        job = await (write or self._store.write)(partial(self.add, draft=draft, owner=owner))
        self._wake()
        return job

    def add(self, tx: Tx, *, draft: JobDraft, owner: JobOwner) -> JobRecord:
        """Like `begin`, but in the caller's transaction. If it raises, nothing was changed."""
        tx.all_in(READ_ACCOUNTS, [owner.account_id])  # lock the account before counting its jobs
        if job_rows.live_jobs(tx, owner.account_id) >= LIVE_MAX:
            raise JobLimitReached(LIVE_MAX)
        wanted = ChargeRequest(
            owner.request_id,
            owner.account_id,
            owner.key_id,
            draft.held_credits,
            draft.platform,
            draft.path,
            draft.credits_least,
            in_background=owner.in_background,
        )
        held_credits = self._charges.reserve(tx, wanted).credits
        job = JobRecord(
            id=self._make_id(draft.prefix),
            kind=draft.kind,
            account_id=owner.account_id,
            key_id=owner.key_id,
            request_id=owner.request_id,
            spec=draft.spec,
            status="queued",
            stopped_because=None,
            held_credits=held_credits,
            used_credits=0,
            waves=1,
            planned=len(draft.names),
            done=0,
            empty=0,
            failed=0,
            attempt=0,
            node=None,
            lease_until=None,
            created_at=self._now(),
            started_at=None,
            finished_at=None,
        )
        job_rows.add_job(tx, job, draft.names)
        draft.also(tx, job)
        return job

    async def get(self, account_id: str, job_id: str) -> JobRecord:
        """Return one job.

        Raises:
            JobUnknown: the account has no such job.
        """
        return await self._store.read(partial(self._owned, account_id=account_id, job_id=job_id))

    def _owned(self, tx: Tx, account_id: str, job_id: str, *, locked: bool = False) -> JobRecord:
        return job_rows.owned(tx, account_id, job_id, self._kinds, locked=locked)

    async def page(self, account_id: str, *, before: tuple[float, str] | None, limit: int) -> list[JobRecord]:
        """Return a page of jobs, newest first."""
        return await self._store.read(
            partial(job_rows.jobs_page, account_id=account_id, kinds=self._kinds, before=before, limit=limit)
        )

    async def set_status(self, account_id: str, job_id: str, status: Literal["paused", "running"]) -> JobRecord:
        """Pause or resume a job. Steps that are in progress when the job is paused run again later.

        Raises:
            JobUnknown, JobOver: nothing was changed.
        """
        job = await self._store.write(partial(self._set_status, account_id=account_id, job_id=job_id, status=status))
        self._wake()
        return job

    async def cancel(self, account_id: str, job_id: str) -> JobRecord:
        """Cancel a job. Results of finished steps are kept and charged, and the rest of the reservation is refunded.

        Cancelling a cancelled job changes nothing.

        Raises:
            JobUnknown, JobOver: nothing was changed.
        """
        return await self._store.write(partial(self._cancel, account_id=account_id, job_id=job_id))

    def _cancel(self, tx: Tx, *, account_id: str, job_id: str) -> JobRecord:
        tx.all_in(READ_ACCOUNTS, [account_id])
        job = self._owned(tx, account_id, job_id, locked=True)
        if job.status == "cancelled":
            return job
        refuse_over(job)
        settled = settle(tx, self._charges, job_id, self._now(), Stop("cancelled", OWNER))
        self._ended(tx, settled)
        return settled

    async def steps(
        self,
        account_id: str,
        job_id: str,
        statuses: Sequence[StepStatus],
        *,
        after: int,
        limit: int,
        bytes_max: int = PAGE_BYTES,
    ) -> tuple[list[EndedStep], bool]:
        """Return steps after number `after` with one of these statuses, and whether there are more.

        Results are in stored form and have at most `bytes_max` bytes in total, unless the first one alone is larger.

        Raises:
            JobUnknown: the account has no such job.
        """

        def read(tx: Tx) -> tuple[list[EndedStep], bool]:
            self._owned(tx, account_id, job_id)
            return job_rows.ended_steps(tx, job_id, statuses, after=after, limit=limit, bytes_max=bytes_max)

        return await self._store.read(read)

    def _set_status(self, tx: Tx, account_id: str, job_id: str, status: Literal["paused", "running"]) -> JobRecord:
        job = self._owned(tx, account_id, job_id, locked=True)
        refuse_over(job)
        if status == "paused" and job.status != "paused":
            job_rows.move(tx, job_id, "paused", OWNER)
        elif status == "running" and job.status == "paused":
            job_rows.queue(tx, job_id)
        return self._owned(tx, account_id, job_id)


def refuse_over(job: JobRecord) -> None:
    """Check that a job has not ended.

    Raises:
        JobOver: the job has ended.
    """
    if job.is_over:
        raise JobOver(job.id, job.status)
