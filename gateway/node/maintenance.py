"""The loops that do the periodic maintenance of a running node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import TypeAlias

import trio

import events.log.retention
import scheduler.retention
from billing.archive.archiver import Archiver, ArchiveTaken
from billing.archive.files import ArchiveBroken
from billing.archive.months import make_months
from billing.keys.keys import ended_keys
from billing.users.attempts import forget_attempts
from billing.users.sessions import forget_sessions
from events.consumers.rows import forget_consumers, keys_with_consumers
from gateway.admin.erasure import erase_all
from gateway.admin.operation_records import forget_operations
from gateway.config.settings import Config
from gateway.node.stores import Stores
from gateway.observability.logs import Log
from gateway.runtime import Runtime
from limits.idempotency import forget_old
from limits.shares import Shares
from limits.stored_replies import forget_old_replies
from scheduler.clock.instants import instant_of
from scheduler.jobs.cohorts.removal import clear, expire, has_expired, is_left
from scheduler.jobs.crawl.spec import KINDS
from scheduler.jobs.discover.schedules.schedule_rows import drop_old_occurrences
from scheduler.jobs.discover.spec import KIND as DISCOVER
from scheduler.jobs.job_rows import DROPPED_AT_ONCE, drop_old, expire_paused
from scheduler.retention import Retention
from scheduler.sessions.session_rows import drop_old_sessions
from scheduler.webhooks.targets.urls import seal_plain_urls
from storage.errors import StorageError
from storage.opening import is_shared
from storage.store import Store, Tx
from storage.supervision import Work
from storage.sweep_clock import SweepClock

FINISH_EVERY_S = 1.0
USAGE_EVERY_S = 5.0
ERASE_EVERY_S = 60.0
COHORTS_EVERY_S = 5.0
FORGET_EVERY_S = 600.0
FORGET_PAUSE_S = 0.02
KEYS_A_READ = 200
TRIM_PAUSE_S = 1.0
SEAL_AGAIN_S = 60.0
SWEEP_EVERY_S = 3_600.0
SWEEP_FIRST_S = 300.0
"""Seconds until monitor runs and jobs are first deleted, and days are first archived.

Deleted rows cannot be restored, so a machine that started with a wrong clock gets time to correct it.
"""
JOBS_S = 30 * 86_400.0
"""How long the results of jobs are kept, in seconds (decisions 19)."""

SweepAt: TypeAlias = Callable[[], Awaitable[float | None]]
"""Returns the time before which data has expired, or None if nothing may be deleted now."""


def maintenance_loops(
    stores: Stores, config: Config, *, runtime: Runtime, shares: Shares, keeps_time: bool
) -> dict[str, Work]:
    """Return all maintenance loops by name. The loops for monitors, jobs, webhooks and cohorts require `keeps_time`."""
    store, log, rng = stores.store, runtime.log, runtime.rng
    instant = instant_of(runtime.now, is_alone=not is_shared(config.store.url))
    sweep_at = SweepClock(store, instant, event=log.event).check
    retention = Retention(config.monitors.runs_retention_days, config.monitors.results_retention_days)
    days = config.events.retention_days
    loops: dict[str, Work] = {
        "finish_charges": partial(finish_charges, stores, log),
        "flush_usage": partial(flush_usage, stores, log),
        "forget_claims": partial(forget_old_claims, store, log, sweep_at),
        "erase_accounts": partial(erase_deleted, stores, log),
        "trim_shares": partial(trim_shares, store, shares, log),
        "sweep_events": partial(sweep_events, store, days, log, sweep_at=sweep_at, rng=rng),
    }
    if store.partitions is not None:
        loops["keep_months"] = partial(keep_months, store, runtime.now, log)
    if stores.billing.archiver is not None:
        loops["archive_days"] = partial(archive_days, stores.billing.archiver, log, sweep_at=sweep_at)
    if keeps_time:
        loops |= {
            "sweep_monitors": partial(sweep_monitors, store, retention, log, sweep_at=sweep_at, rng=rng),
            "sweep_jobs": partial(sweep_jobs, store, log, sweep_at=sweep_at, rng=rng),
            "seal_webhook_urls": partial(seal_webhook_urls, stores, log),
            "sweep_cohorts": partial(sweep_cohorts, stores, log, sweep_at),
        }
    return loops


async def finish_charges(stores: Stores, log: Log) -> None:
    """Close charges that could not be closed in time. Retry until the store accepts them."""
    while True:
        await trio.sleep(FINISH_EVERY_S)
        if not stores.billing.charges.unfinished():
            continue
        try:
            if finished := await stores.billing.charges.finish():
                log.event("warning", "charges_finished", charges=finished)
        except StorageError as exc:
            log.event("error", "charges_unfinished", charges=stores.billing.charges.unfinished(), error=str(exc))


async def flush_usage(stores: Stores, log: Log) -> None:
    """Every few seconds, add counts of free calls to the usage statistics.

    Counts that cannot be written stay queued.
    """
    while True:
        await trio.sleep(USAGE_EVERY_S)
        try:
            await stores.billing.usage.flush()
        except StorageError as exc:
            log.event("warning", "usage_not_flushed", error=str(exc))


async def erase_deleted(stores: Stores, log: Log) -> None:
    """Delete the remaining data of deleted accounts whose deletion has not finished."""
    while True:
        await trio.sleep(ERASE_EVERY_S)
        try:
            if erased := await erase_all(stores.store, stores.cancel_jobs):
                log.event("info", "accounts_erased", count=erased)
        except StorageError as exc:
            log.event("warning", "accounts_not_erased", error=str(exc))


async def forget_old_claims(store: Store, log: Log, sweep_at: SweepAt) -> None:
    """Delete old idempotency keys, operation ids, user sessions and sign-in attempts.

    Also delete replies without a key, and the consumers of revoked and expired keys.
    """
    while True:
        await trio.sleep(FORGET_EVERY_S)
        try:
            if (at := await sweep_at()) is not None:
                await _repeat(store, partial(forget_old, now=at))
                await _repeat(store, partial(forget_old_replies, now=at))
                await _repeat(store, partial(forget_operations, now=at))
                await _repeat(store, partial(forget_sessions, now=at))
                await _repeat(store, partial(forget_attempts, now=at))
                await forget_unreadable(store, at)
        except StorageError as exc:
            log.event("warning", "claims_kept", error=str(exc))


async def forget_unreadable(store: Store, at: float) -> None:
    """Delete the consumers of revoked and expired keys, because no client can use them any more."""
    after = ""
    while key_ids := await store.read(partial(keys_with_consumers, after=after, limit=KEYS_A_READ)):
        after = key_ids[-1]
        ended = await store.read(partial(ended_keys, key_ids=key_ids, now=at))
        for key_id in sorted(ended):
            await store.write(partial(forget_consumers, key_id=key_id))
            await trio.sleep(FORGET_PAUSE_S)


async def _repeat(store: Store, remove_some: Callable[[Tx], int]) -> None:
    """Call `remove_some`, which deletes a few rows per write, until no rows are left.

    Other writes can run in between.
    """
    removed = 1
    while removed:
        removed = await store.write(remove_some)
        await trio.sleep(FORGET_PAUSE_S)


async def trim_shares(store: Store, shares: Shares, log: Log) -> None:
    """Trim the stored replies of idempotency keys to each account's share."""
    while True:
        try:
            account_id, trimmed = await shares.trim_next(store)
            if any(trimmed):
                log.event("info", "share_trimmed", account=account_id, **trimmed._asdict())
        except StorageError as exc:
            log.event("warning", "share_not_trimmed", error=str(exc))
        await trio.sleep(TRIM_PAUSE_S)


async def sweep_events(store: Store, retention_days: int, log: Log, *, sweep_at: SweepAt, rng: Random) -> None:
    """Delete events whose retention period has ended. Nodes that share a store take turns at random."""
    while True:
        try:
            if (at := await sweep_at()) is not None:
                await events.log.retention.sweep(store, at, retention_days)
        except StorageError as exc:
            log.event("warning", "events_kept", error=str(exc))
        await trio.sleep(SWEEP_EVERY_S * rng.uniform(0.5, 1.5))


async def sweep_monitors(store: Store, retention: Retention, log: Log, *, sweep_at: SweepAt, rng: Random) -> None:
    """Delete expired data of monitor runs. Nodes that share a store take turns at random."""
    await trio.sleep(SWEEP_FIRST_S)
    while True:
        try:
            at = await sweep_at()
            swept = None if at is None else await scheduler.retention.sweep(store, at, retention)
            if swept is not None and any(swept):
                log.event("info", "monitors_swept", **swept._asdict())
        except StorageError as exc:
            log.event("warning", "monitors_not_swept", error=str(exc))
        await trio.sleep(SWEEP_EVERY_S * rng.uniform(0.5, 1.5))


async def keep_months(store: Store, now: Callable[[], float], log: Log) -> None:
    """Create the journal's monthly partitions before the months begin. The next check repeats a failed attempt."""
    while True:
        try:
            if refused := await make_months(store, now()):
                log.event("warning", "months_not_made", months=refused)
        except StorageError as exc:
            log.event("warning", "months_not_made", error=str(exc))
        await trio.sleep(SWEEP_EVERY_S)


async def sweep_jobs(store: Store, log: Log, *, sweep_at: SweepAt, rng: Random) -> None:
    """Delete jobs and sessions that ended long ago, with their results.

    Nodes that share a store take turns at random.
    """
    await trio.sleep(SWEEP_FIRST_S)
    while True:
        try:
            if (at := await sweep_at()) is not None:
                await store.write(partial(expire_paused, kind=DISCOVER, before=at - JOBS_S, now=at))
                await _repeat(
                    store, partial(drop_old, before=at - JOBS_S, limit=DROPPED_AT_ONCE, kinds=(*KINDS, DISCOVER))
                )
                await _repeat(store, partial(drop_old_occurrences, before=at - JOBS_S))
                await _repeat(store, partial(drop_old_sessions, before=at - JOBS_S, limit=DROPPED_AT_ONCE))
        except StorageError as exc:
            log.event("warning", "jobs_kept", error=str(exc))
        await trio.sleep(SWEEP_EVERY_S * rng.uniform(0.5, 1.5))


async def sweep_cohorts(stores: Stores, log: Log, sweep_at: SweepAt) -> None:
    """Destroy cohorts whose retention period has ended, and delete the remaining rows of destroyed cohorts."""
    while True:
        await trio.sleep(COHORTS_EVERY_S)
        try:
            is_due = await stores.store.read(partial(has_expired, now=stores.now()))
            at = await sweep_at() if is_due else None
            if at is not None and (expired := await expire(stores.store, stores.billing.charges, at)):
                log.event("info", "cohorts_expired", count=expired)
            if await stores.store.read(is_left):
                await clear(stores.store)
        except StorageError as exc:
            log.event("warning", "cohorts_kept", error=str(exc))


async def archive_days(archiver: Archiver, log: Log, *, sweep_at: SweepAt) -> None:
    """Every hour, archive the ledger's old days. Only one process at a time can archive to a folder."""
    await trio.sleep(SWEEP_FIRST_S)
    while True:
        try:
            at = await sweep_at()
            with suppress(ArchiveTaken):
                archived = None if at is None else await archiver.run(at)
                if archived is not None and archived.rows:
                    log.event("info", "ledger_archived", files=archived.files, rows=archived.rows)
        except (ArchiveBroken, OSError) as exc:
            log.event("error", "ledger_not_archived", error=str(exc))
        except StorageError as exc:
            log.event("warning", "ledger_not_archived", error=str(exc))
        await trio.sleep(SWEEP_EVERY_S)


async def seal_webhook_urls(stores: Stores, log: Log) -> None:
    """Encrypt the webhook URLs that an earlier release stored in plain text. Retry until the store accepts it."""
    while True:
        try:
            if sealed := await seal_plain_urls(stores.store, stores.cipher):
                log.event("info", "webhook_urls_sealed", webhooks=sealed)
        except StorageError as exc:
            log.event("warning", "webhook_urls_not_sealed", error=str(exc))
            await trio.sleep(SEAL_AGAIN_S)
        else:
            return
