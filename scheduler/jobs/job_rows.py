"""The SQL of jobs and their steps; each function runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson

from billing.journal import identify
from scheduler.clock.catch_up import Ready
from scheduler.errors import JobUnknown
from scheduler.jobs.records import EndedStep, JobRecord, JobStatus, JobStep, Outcome, StepStatus
from scheduler.packing import packed, rows_within
from scheduler.rows import values_of
from scheduler.webhooks.targets import hook_rows
from storage.store import Tx

LEASE_S: Final = 8.0
"""How many seconds a lease lasts. The job of a dead node continues after this time plus one polling interval."""

DROPPED_AT_ONCE: Final = 50
"""How many steps to delete per transaction. Most of the time is spent freeing their database pages."""

NAMES_AT_ONCE: Final = 100
FINDINGS_AT_ONCE: Final = 50
FINDINGS_BYTES: Final = 250_000
"""The maximum size in bytes of the stored findings that planning reads at a time."""

COLUMNS: Final = """
id, kind, account_id, key_id, request_id, spec, status, stopped_because, held_credits, used_credits, waves, planned,
done, empty, failed, attempt, node, lease_until, created_at, started_at, finished_at, closed_credits, returned_credits
"""
_values = values_of(JobRecord)
ADD = f"INSERT INTO jobs ({COLUMNS}) VALUES {{rows}}"  # noqa: S608 - made of constants
READ = f"SELECT {COLUMNS} FROM jobs WHERE id = ?"  # noqa: S608 - made of constants
LOCKED = READ + " {lock}"
LIST = f"""
SELECT {COLUMNS} FROM jobs
WHERE account_id = ? AND kind IN ({{kinds}}) AND (created_at < ? OR (created_at = ? AND id < ?))
ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - made of constants
LIVE = "SELECT COUNT(*) FROM jobs WHERE account_id = ? AND finished_at IS NULL"
QUEUED = """
SELECT created_at, account_id, id FROM jobs WHERE status = 'queued' AND kind IN ({kinds})
ORDER BY created_at, id LIMIT ?
"""
UNSETTLED = "SELECT id FROM jobs WHERE id IN {in} AND status IN ('queued', 'running')"
EXPIRED = """
SELECT created_at, account_id, id FROM jobs WHERE status = 'running' AND kind IN ({kinds}) AND lease_until < ?
ORDER BY lease_until LIMIT ?
"""
ELSEWHERE = """
SELECT DISTINCT account_id FROM jobs WHERE status = 'running' AND lease_until >= ? AND node <> ?
"""
LEASABLE = f"SELECT {COLUMNS} FROM jobs WHERE id IN {{in}} ORDER BY id {{lock}}"  # noqa: S608 - made of constants
LEASE = """
UPDATE jobs SET status = 'running', attempt = attempt + 1, node = ?, lease_until = ?,
                started_at = COALESCE(started_at, ?)
WHERE id IN {in}
"""
RENEW = "UPDATE jobs SET lease_until = ? WHERE node = ? AND status = 'running' AND id IN {in}"
ORPHANED = "UPDATE jobs SET lease_until = ? WHERE status = 'running'"
HELD = "SELECT 1 FROM jobs WHERE id = ? AND status = 'running' AND attempt = ? AND node = ? {lock}"
GIVE_BACK = """
UPDATE jobs SET status = 'queued', node = NULL, lease_until = NULL
WHERE id = ? AND status = 'running' AND attempt = ? AND node = ?
"""
MOVE = "UPDATE jobs SET status = ?, stopped_because = ?, node = NULL, lease_until = NULL, finished_at = ? WHERE id = ?"
CLOSE = "UPDATE jobs SET closed_credits = used_credits, returned_credits = held_credits - used_credits WHERE id = ?"
RESERVE_MORE = "UPDATE jobs SET request_id = ?, key_id = ?, held_credits = held_credits + ? WHERE id = ?"
IS_RESERVED = "SELECT 1 FROM charges WHERE id = ?"

ADD_STEPS = "INSERT INTO job_steps (job_id, number, wave, name) VALUES {rows} ON CONFLICT DO NOTHING"
PLANNED = """
SELECT number, wave, name FROM job_steps WHERE job_id = ? AND status = 'planned' AND wave <= ? AND number > ?
ORDER BY number LIMIT ?
"""
FINDING_SIZES = """
SELECT number, length(found) FROM job_steps WHERE job_id = ? AND wave = ? AND found IS NOT NULL AND number > ?
ORDER BY number LIMIT ?
"""
FINDINGS = """
SELECT number, found FROM job_steps WHERE job_id = ? AND wave = ? AND found IS NOT NULL AND number > ? AND number <= ?
ORDER BY number
"""
NAMES = "SELECT number, name FROM job_steps WHERE job_id = ? AND wave <= ? AND number > ? ORDER BY number LIMIT ?"
SET_WAVE = "UPDATE jobs SET waves = ?, planned = ? WHERE id = ?"
COUNT_PLANNED = "UPDATE jobs SET planned = planned + 1 WHERE id = ?"
END_STEP = """
UPDATE job_steps SET status = ?, credits_used = ?, error = ?, result = ?, found = ?, ended_at = ?
WHERE job_id = ? AND number = ? AND status = 'planned'
"""
COUNT_STEP = """
UPDATE jobs SET used_credits = used_credits + ?, done = done + ?, empty = empty + ?, failed = failed + ? WHERE id = ?
"""
FREE_STEP = "UPDATE job_steps SET credits_used = 0 WHERE job_id = ? AND number = ?"
UNCOUNT_CREDITS = "UPDATE jobs SET used_credits = used_credits - ? WHERE id = ?"
# The length of a stored value is read without the value itself.
STEP_SIZES = """
SELECT number, COALESCE(length(result), 0) FROM job_steps
WHERE job_id = ? AND number > ? AND status IN ({statuses}) ORDER BY number LIMIT ?
"""
ENDED_STEPS = """
SELECT number, wave, name, status, credits_used, error, result, ended_at FROM job_steps
WHERE job_id = ? AND number > ? AND number <= ? AND status IN ({statuses}) ORDER BY number
"""
OLD = "SELECT id FROM jobs WHERE finished_at < ? AND kind IN ({kinds}) ORDER BY finished_at, id LIMIT 1"
EXPIRE = """
UPDATE jobs SET status = 'cancelled', stopped_because = 'expired', finished_at = ?
WHERE status = 'paused' AND kind = ? AND created_at < ? AND held_credits = closed_credits + returned_credits
"""
LIVE_OF_ACCOUNT = "SELECT id FROM jobs WHERE account_id = ? AND finished_at IS NULL LIMIT 1"
OF_ACCOUNT = "SELECT id FROM jobs WHERE account_id = ? AND finished_at IS NOT NULL LIMIT 1"
DROP_STEPS = """
DELETE FROM job_steps WHERE job_id = ?
AND number IN (SELECT number FROM job_steps WHERE job_id = ? ORDER BY number LIMIT ?)
"""
DROP_ROWS = """
DELETE FROM discover_rows WHERE run_id = ?
AND number IN (SELECT number FROM discover_rows WHERE run_id = ? ORDER BY number LIMIT ?)
"""
DROP_JOB = "DELETE FROM jobs WHERE id = ?"


def add_job(tx: Tx, job: JobRecord, names: Sequence[str]) -> None:
    """Store a new job with its first wave."""
    tx.run_many(ADD, [_values(job)])
    add_steps(tx, job.id, first=1, wave=1, names=names)


def add_steps(tx: Tx, job_id: str, *, first: int, wave: int, names: Sequence[str]) -> None:
    """Plan steps with these names, numbered from `first`. Steps that an earlier attempt planned are kept."""
    tx.run_many(ADD_STEPS, [(job_id, number, wave, name) for number, name in enumerate(names, first)])


def unsettled_of(tx: Tx, job_ids: Sequence[str]) -> set[str]:
    """Return the given jobs that have not ended and are not paused."""
    return {row[0] for row in tx.all_in(UNSETTLED, job_ids)}


def add_step(tx: Tx, job: JobRecord, step: JobStep) -> None:
    """Add one step to a fully planned wave. The job must be locked, and `step.number` must be its next number."""
    add_steps(tx, job.id, first=step.number, wave=step.wave, names=[step.name])
    tx.run(COUNT_PLANNED, (job.id,))


def read_job(tx: Tx, job_id: str, *, locked: bool = False) -> JobRecord | None:
    """Return the job with this id, or None."""
    row = tx.one(LOCKED if locked else READ, (job_id,))
    return None if row is None else JobRecord(*row)


def owned(tx: Tx, account_id: str, job_id: str, kinds: Sequence[str], *, locked: bool = False) -> JobRecord:
    """Return an account's job of one of these kinds.

    Raises:
        JobUnknown: the account has no such job.
    """
    job = read_job(tx, job_id, locked=locked)
    if job is None or job.account_id != account_id or job.kind not in kinds:
        raise JobUnknown(job_id)
    return job


def jobs_page(
    tx: Tx, account_id: str, kinds: Sequence[str], *, before: tuple[float, str] | None, limit: int
) -> list[JobRecord]:
    """Return at most `limit` jobs of these kinds that are older than `before`, newest first."""
    at, id_ = before or (9e15, "")
    rows = tx.all(_of_kinds(LIST, kinds), (account_id, *kinds, at, at, id_, limit))
    return [JobRecord(*row) for row in rows]


def _of_kinds(sql: str, kinds: Sequence[str]) -> str:
    return sql.replace("{kinds}", ", ".join("?" * len(kinds)))


def live_jobs(tx: Tx, account_id: str) -> int:
    """Return the number of an account's jobs that have not ended."""
    row = tx.one(LIVE, (account_id,))
    assert row is not None, "COUNT returns one row"
    return int(row[0])


def live_job(tx: Tx, account_id: str) -> str | None:
    """Return the id of a job of the account that has not ended, or None."""
    row = tx.one(LIVE_OF_ACCOUNT, (account_id,))
    return None if row is None else str(row[0])


def ready_jobs(tx: Tx, node: str, *, kinds: Sequence[str], leases_at: float, limit: int) -> list[Ready]:
    """Return jobs of these `kinds` that this node can start or take over.

    All jobs of an account run on one node at a time. Jobs of other kinds are left to newer nodes during a rolling
    upgrade.
    """
    elsewhere = {row[0] for row in tx.all(ELSEWHERE, (leases_at, node))}
    found = [
        *tx.all(_of_kinds(EXPIRED, kinds), (*kinds, leases_at, limit)),
        *tx.all(_of_kinds(QUEUED, kinds), (*kinds, limit)),
    ]
    return [Ready(*row) for row in found if row[1] not in elsewhere]


def lease_jobs(tx: Tx, ready: Sequence[Ready], node: str, *, now: float, leases_at: float) -> list[JobRecord]:
    """Start an attempt of each job that is still available, and return these jobs."""
    tx.lock([f"jobs of {account_id}" for account_id in sorted({one.account_id for one in ready})])
    elsewhere = {row[0] for row in tx.all(ELSEWHERE, (leases_at, node))}
    free = []
    for row in tx.all_in(LEASABLE, [one.run_id for one in ready]):
        job = JobRecord(*row)
        has_passed = job.status == "running" and job.lease_until is not None and job.lease_until < leases_at
        if (job.status == "queued" or has_passed) and job.account_id not in elsewhere:
            free.append(job.id)
    tx.run_in(LEASE, free, (node, leases_at + LEASE_S, now))
    return [JobRecord(*row) for row in tx.all_in(LEASABLE, free)]


def renew_leases(tx: Tx, job_ids: Sequence[str], node: str, *, leases_at: float) -> int:
    """Extend the leases of `node` on these jobs, and return how many of them it still holds."""
    return tx.run_in(RENEW, job_ids, (leases_at + LEASE_S, node))


def orphan_jobs(tx: Tx, leases_at: float) -> int:
    """Expire all leases, and return their number. Only for a store that one process owns and has just opened."""
    return tx.run(ORPHANED, (leases_at - 1.0,))


def holds(tx: Tx, job: JobRecord) -> bool:
    """Lock the job and return whether this attempt still holds it. This prevents stale attempts from writing."""
    return tx.one(HELD, (job.id, job.attempt, job.node)) is not None


def give_back(tx: Tx, job: JobRecord) -> bool:
    """Return a started job to the queue. Return False if this attempt no longer holds it."""
    return tx.run(GIVE_BACK, (job.id, job.attempt, job.node)) == 1


def move(tx: Tx, job_id: str, status: JobStatus, because: str | None, *, finished_at: float | None = None) -> None:
    """Set the status of a locked job, which ends its lease."""
    tx.run(MOVE, (status, because, finished_at, job_id))


def close_reservation(tx: Tx, job_id: str) -> None:
    """Record a job's used credits as charged, and the rest of its reservation as refunded."""
    tx.run(CLOSE, (job_id,))


def reserve_more(tx: Tx, job_id: str, *, request_id: str, key_id: str | None, held_credits: int) -> None:
    """Store a new reservation for a locked job whose previous reservation is closed."""
    tx.run(RESERVE_MORE, (request_id, key_id, held_credits, job_id))


def queue(tx: Tx, job_id: str) -> None:
    """Resume a paused job that is locked."""
    move(tx, job_id, "queued", None)


def is_reserved(tx: Tx, job: JobRecord) -> bool:
    """Return whether the credits of a job are still reserved."""
    return tx.one(IS_RESERVED, (identify(job.request_id)[1],)) is not None


def planned_steps(tx: Tx, job: JobRecord, limit: int, *, after: int = 0) -> list[JobStep]:
    """Return the next planned steps after number `after`, from fully planned waves."""
    return [JobStep(*row) for row in tx.all(PLANNED, (job.id, job.waves, after, limit))]


class PlanPart(NamedTuple):
    """A part of the input for planning a job's next wave.

    Each entry contains the number of its step, and the entries are in order.
    """

    names: list[tuple[int, str]]
    """The names of steps in fully planned waves."""
    findings: list[tuple[int, bytes]]
    """The findings of steps in the last wave, in stored form."""
    is_last: bool


def plan_part(tx: Tx, job: JobRecord, *, named: int, found: int) -> PlanPart:
    """Return the next part, after the names up to step `named` and the findings up to step `found`.

    All names come before the first findings.
    """
    names = [(number, name) for number, name in tx.all(NAMES, (job.id, job.waves, named, NAMES_AT_ONCE))]
    if len(names) == NAMES_AT_ONCE:
        return PlanPart(names, [], is_last=False)
    sizes = tx.all(FINDING_SIZES, (job.id, job.waves, found, FINDINGS_AT_ONCE + 1))
    count = min(FINDINGS_AT_ONCE, rows_within((size for _, size in sizes), FINDINGS_BYTES))
    if not count:
        return PlanPart(names, [], is_last=True)
    rows = tx.all(FINDINGS, (job.id, job.waves, found, sizes[count - 1][0]))
    return PlanPart(names, [(number, bytes(one)) for number, one in rows], is_last=count == len(sizes))


def set_wave(tx: Tx, job: JobRecord, *, planned: int) -> None:
    """Start the next wave, which is fully planned."""
    tx.run(SET_WAVE, (job.waves + 1, planned, job.id))


def end_step(tx: Tx, job: JobRecord, step: JobStep, outcome: Outcome, *, at: float) -> bool:
    """Store how a step ended and count it. `outcome.result` is already packed. Return False if it had ended before."""
    found = packed(orjson.dumps(outcome.found)) if outcome.found else None
    # The table allows a price only for done steps; the job adds up all prices.
    own = outcome.credits_used if outcome.status == "done" else 0
    values = (outcome.status, own, outcome.error, outcome.result, found, at, job.id, step.number)
    if not tx.run(END_STEP, values):
        return False
    counts = tuple(int(outcome.status == one) for one in ("done", "empty", "failed"))
    tx.run(COUNT_STEP, (outcome.credits_used, *counts, job.id))
    return True


def free_step(tx: Tx, job: JobRecord, step: JobStep, credits_used: int) -> None:
    """Remove the price of a step that `end_step` has counted in the same transaction."""
    tx.run(FREE_STEP, (job.id, step.number))
    tx.run(UNCOUNT_CREDITS, (credits_used, job.id))


def ended_steps(
    tx: Tx, job_id: str, statuses: Sequence[StepStatus], *, after: int, limit: int, bytes_max: int
) -> tuple[list[EndedStep], bool]:
    """Return at most `limit` ended steps with one of these statuses, in order, and whether there are more.

    The steps come after number `after`. Results are in stored form, at most `bytes_max` bytes in total, unless the
    first one alone is larger.
    """
    marks = ", ".join("?" * len(statuses))
    sizes = tx.all(STEP_SIZES.replace("{statuses}", marks), (job_id, after, *statuses, limit + 1))
    count = min(limit, rows_within((size for _, size in sizes), bytes_max))
    if not count:
        return [], False
    rows = tx.all(ENDED_STEPS.replace("{statuses}", marks), (job_id, after, sizes[count - 1][0], *statuses))
    return [EndedStep(*row) for row in rows], len(sizes) > count


def drop_old(tx: Tx, before: float, limit: int, kinds: Sequence[str]) -> int:
    """Delete a batch of steps of the oldest job of these kinds that ended before the time `before`.

    The job is deleted together with its last steps. Return 0 if there is no such job.
    """
    row = tx.one(_of_kinds(OLD, kinds), (before, *kinds))
    if row is None:
        return 0
    drop_some(tx, row[0], limit)
    return 1


def expire_paused(tx: Tx, kind: str, before: float, now: float) -> int:
    """End paused jobs of a kind that started before the time `before` and have no reservation.

    Return how many ended.
    """
    return tx.run(EXPIRE, (now, kind, before))


def drop_some(tx: Tx, job_id: str, limit: int) -> bool:
    """Delete a batch of a job's steps or rows, and the job together with the last batch.

    Return True once it is deleted.
    """
    if any(tx.run(sql, (job_id, job_id, limit)) == limit for sql in (DROP_STEPS, DROP_ROWS)):
        return False
    hook_rows.forget_delivery(tx, job_id)
    tx.run(DROP_JOB, (job_id,))
    return True


def forget_jobs_of(tx: Tx, account_id: str) -> int:
    """Delete a batch of rows of a deleted account's ended jobs. Return 0 once none are left."""
    row = tx.one(OF_ACCOUNT, (account_id,))
    if row is None:
        return 0
    drop_some(tx, row[0], DROPPED_AT_ONCE)
    return 1
