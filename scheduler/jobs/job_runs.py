"""One attempt of one job: its steps run concurrently, wave by wave, until no step is left (decisions 17).

A step runs outside of any transaction. Its result is stored in a transaction that first checks whether this attempt
still holds the job. A stored step therefore never runs again, while an interrupted step does. Each step is charged
once: the job adds up the prices of its steps, and the transaction that ends the job closes its reservation with the
sum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

import trio

from billing.charges.batch_rows import CloseRequest
from billing.charges.charge_rows import READ_ACCOUNTS
from billing.charges.charges import Charges
from limits.fair_thread import FairThread
from scheduler.jobs import job_rows
from scheduler.jobs.records import JobKind, JobRecord, JobStep, Outcome, Stop, Wave
from scheduler.jobs.turns import Turns
from scheduler.packing import packed
from storage.errors import StorageError
from storage.store import Store, Tx

STEPS_AT_ONCE: Final = 200
"""How many steps are read at a time."""
PLANNED_AT_ONCE: Final = 500
"""How many steps are planned per transaction."""
SETTLE_S: Final = 5.0
_LONG_BYTES: Final = 64 * 1024
"""Results longer than this are compressed in a thread."""
NEVER_RESERVED: Final = "not_reserved"
UNEXPECTED: Final = "internal_error"
DELETED: Final = "account_deleted"


@dataclass(slots=True)
class _Round:
    """The steps that an attempt runs after it has read the job. Only the workers of that attempt change it."""

    job_credits: int
    """The credits that the job had left when it was read."""
    price_of: Callable[[JobStep], int]
    steps: deque[JobStep]
    begun: int = 0
    begun_credits: int = 0

    def next(self) -> JobStep | None:
        """Start the next step that the job can pay for, and return it, or None if there is none.

        A started step counts with its maximum price until the job is read again.

        Steps that the job can never pay for are skipped. A step is not skipped if it only has to wait for steps in
        progress, because later steps would spend the credits that it needs.
        """
        while self.steps:
            price = self.price_of(self.steps[0])
            if self.begun_credits + price <= self.job_credits:
                self.begun += 1
                self.begun_credits += price
                return self.steps.popleft()
            if price <= self.job_credits:
                return None
            self.steps.popleft()
        return None


class JobRuns:
    """Runs leased jobs."""

    def __init__(
        self, store: Store, charges: Charges, kinds: Mapping[str, JobKind], turns: Turns, *, now: Callable[[], float]
    ) -> None:
        self._store = store
        self._charges = charges
        self._kinds = kinds
        self._turns = turns
        self._now = now
        self._thread = FairThread()

    async def run(self, job: JobRecord) -> None:
        """Run one attempt until the job ends or this node has to stop. On cancellation, return the job to the queue.

        Raises:
            StorageError: the job is retried after its lease expires.
        """
        try:
            await self._run(job)
        except BaseException as exc:
            if not isinstance(exc, Exception):
                with trio.move_on_after(SETTLE_S, shield=True), suppress(StorageError):
                    await self._store.write(partial(job_rows.give_back, job=job))
            raise

    def is_private(self, job: JobRecord) -> bool:
        """Return whether a job's errors are logged without their text, which is also true for unknown kinds."""
        kind = self._kinds.get(job.kind)
        return kind is None or kind.is_private

    @property
    def kinds(self) -> tuple[str, ...]:
        """The job kinds that this node can run."""
        return tuple(self._kinds)

    async def fail(self, job: JobRecord) -> None:
        """End an attempt that raised an unexpected error. Results of finished steps are kept and charged.

        Raises:
            StorageError: the job was not ended.
        """
        await self._end(job, Stop("failed", UNEXPECTED))

    async def _run(self, job: JobRecord) -> None:
        kind = self._kinds[job.kind]
        is_reserved = await self._store.read(partial(job_rows.is_reserved, job=job))
        if not is_reserved and await self._end(job, Stop("failed", NEVER_RESERVED), unless_reserved=True):
            return
        after = 0
        while True:
            look = await self._store.read(partial(_read_state, job=job, after=after))
            if look is None:
                return
            job, steps = look
            if steps:
                begun = await self._run_steps(kind, job, steps)
                if begun is None:
                    return
                after = 0 if begun else steps[-1].number
            elif after:  # the remaining credits do not cover any step
                await self._end(job, has_credits=False)
                return
            elif (planned := await self._plan(kind, job)) is None:
                return
            elif planned.waves == job.waves:
                await self._end(job)
                return
            else:
                job = planned

    async def _run_steps(self, kind: JobKind, job: JobRecord, steps: list[JobStep]) -> int | None:
        """Run these steps, as far as the credits allow, and return how many were started.

        Return None if this attempt has lost the job. Steps in progress are then cancelled.
        """
        failures, is_ours = list[StorageError](), True
        turn = _Round(job.left_credits, partial(kind.price_of, job), deque(steps))

        async def work() -> None:
            nonlocal is_ours
            try:
                while (step := turn.next()) is not None:
                    is_ours = await self._run_step(kind, job, step)
                    if not is_ours:
                        nursery.cancel_scope.cancel()
                        return
            except StorageError as exc:
                failures.append(exc)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for _ in range(min(kind.at_once, len(steps))):
                nursery.start_soon(work)
        if failures:
            raise failures.pop()
        return turn.begun if is_ours else None

    async def _run_step(self, kind: JobKind, job: JobRecord, step: JobStep) -> bool:
        async with self._turns.of(job.account_id):
            outcome = await kind.perform(job, step)
        if outcome.result is not None:
            outcome = replace(outcome, result=await self._packed(job.account_id, outcome.result))
        return await self._store.write(partial(self._keep, kind=kind, job=job, step=step, outcome=outcome))

    async def _packed(self, account_id: str, body: bytes) -> bytes:
        if len(body) <= _LONG_BYTES:
            return packed(body)
        return await self._thread.run(account_id, partial(packed, body))

    def _keep(self, tx: Tx, *, kind: JobKind, job: JobRecord, step: JobStep, outcome: Outcome) -> bool:
        is_ours, at = job_rows.holds(tx, job), self._now()
        if is_ours and job_rows.end_step(tx, job, step, outcome, at=at):
            kind.keep(tx, job, step, outcome, at=at)
        return is_ours

    async def _plan(self, kind: JobKind, job: JobRecord) -> JobRecord | None:
        """Plan the next wave, at most `PLANNED_AT_ONCE` steps per transaction.

        Return the unchanged job after the last wave, or None if this attempt has lost the job.
        """

        def look(tx: Tx) -> tuple[JobRecord, job_rows.PlanPart] | None:
            now = job_rows.read_job(tx, job.id)
            return None if now is None else (now, job_rows.plan_part(tx, now, named=0, found=0))

        if (seen := await self._store.read(look)) is None:
            return None
        found, part = seen
        wave = kind.next_wave(found)
        names = [] if wave is None else await self._names_of(wave, found, part)
        if not names:
            return job
        first, planned = found.planned + 1, found.planned + len(names)
        for begin in range(0, len(names), PLANNED_AT_ONCE):
            some = names[begin : begin + PLANNED_AT_ONCE]
            is_last = begin + len(some) == len(names)
            add = partial(self._add, job=job, first=first + begin, names=some, planned=planned if is_last else None)
            if not await self._store.write(add):
                return None
        return replace(found, waves=found.waves + 1, planned=planned)

    async def _names_of(self, wave: Wave, job: JobRecord, part: job_rows.PlanPart) -> list[str]:
        """Return the names of the steps in a job's next wave. The job's earlier steps are read part by part."""
        named = found = 0
        while True:
            for _, name in part.names:
                wave.note(name)
            if part.names:
                named = part.names[-1][0]
            if part.findings:
                found = part.findings[-1][0]
                await wave.add([one for _, one in part.findings])
            if part.is_last or wave.is_full:
                return wave.names
            part = await self._store.read(partial(job_rows.plan_part, job=job, named=named, found=found))

    def _add(self, tx: Tx, *, job: JobRecord, first: int, names: list[str], planned: int | None) -> bool:
        """Add steps to the next wave. Return False if this attempt has lost the job.

        `planned` is None until the last call for a wave. In that call it is the job's new number of steps, and the wave
        starts.
        """
        if not job_rows.holds(tx, job):
            return False
        job_rows.add_steps(tx, job.id, first=first, wave=job.waves + 1, names=names)
        if planned is not None:
            job_rows.set_wave(tx, job, planned=planned)
        return True

    async def _end(
        self, job: JobRecord, stop: Stop | None = None, *, has_credits: bool = True, unless_reserved: bool = False
    ) -> bool:
        """End the job. If `stop` is None, the job's kind decides how.

        Return False if `unless_reserved` is set and the job's credits have been reserved in the meantime.
        """

        def end(tx: Tx) -> bool:
            tx.all_in(READ_ACCOUNTS, [job.account_id])  # lock the account before its rows
            if job_rows.holds(tx, job):
                now, kind = self._now(), self._kinds[job.kind]
                found = job_rows.read_job(tx, job.id)
                assert found is not None, "its row is locked"
                if unless_reserved and job_rows.is_reserved(tx, found):
                    return False
                how = stop or kind.verdict(tx, found, has_credits=has_credits)
                kind.ended(tx, settle(tx, self._charges, job.id, now, how), at=now)
            return True

        return await self._store.write(end)


class _JobState(NamedTuple):
    """The current state of a job, and its next steps."""

    job: JobRecord
    steps: list[JobStep]


def _read_state(tx: Tx, job: JobRecord, after: int) -> _JobState | None:
    now = job_rows.read_job(tx, job.id)
    if now is None:
        return None
    as_ours = replace(now, attempt=job.attempt, node=job.node)
    return _JobState(as_ours, job_rows.planned_steps(tx, now, STEPS_AT_ONCE, after=after))


def settle(tx: Tx, charges: Charges, job_id: str, now: float, stop: Stop) -> JobRecord:
    """End or pause a locked job: charge its steps, refund the rest of its reservation, and return the changed job."""
    job = job_rows.read_job(tx, job_id, locked=True)
    assert job is not None, "its row is locked"
    if job_rows.is_reserved(tx, job):
        used = job.used_credits - job.closed_credits
        charges.release(tx, CloseRequest(job.request_id, job.account_id, job.key_id, used))
        job_rows.close_reservation(tx, job.id)
    job_rows.move(tx, job.id, stop.status, stop.because, finished_at=None if stop.status == "paused" else now)
    settled = job_rows.read_job(tx, job.id)
    assert settled is not None, "its row is locked"
    return settled


def cancel_jobs_of(tx: Tx, account_id: str, *, charges: Charges, now: Callable[[], float]) -> int:
    """Cancel one unfinished job of a deleted account. Return 0 if the account has no unfinished jobs left."""
    tx.all_in(READ_ACCOUNTS, [account_id])
    job_id = job_rows.live_job(tx, account_id)
    if job_id is None:
        return 0
    settle(tx, charges, job_id, now(), Stop("cancelled", DELETED))
    return 1
