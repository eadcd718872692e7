"""One attempt of one run: charge, gather, evaluate, and end it in one transaction (spec 2.6, 3).

A run is charged under the attempt's own request id. If this attempt still holds the run, the transaction that ends the
run closes the charge, stores the data, appends events and queues the delivery; otherwise it only refunds. An
interrupted attempt is refunded separately, by the next attempt or by recovery.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

import orjson
import trio

from billing.charges.batch_rows import Charge, ChargeRequest, Closed, CloseRequest
from billing.charges.charge_rows import READ_ACCOUNTS
from billing.charges.charges import Charges, close_request
from billing.errors import (
    AccountDeleted,
    AccountSuspended,
    BillingError,
    ChargeUnknown,
    InsufficientCredits,
    KeyBudgetReached,
)
from events.log.log import EventLog
from limits.fair_thread import FairThread
from scheduler.monitors.metrics.tracking import rows_asked
from scheduler.monitors.model import store
from scheduler.monitors.model.records import Monitor, Run, RunData
from scheduler.monitors.runs import run_rows
from scheduler.monitors.runs.run_events import facts_of
from scheduler.monitors.runs.run_rows import RunLease
from scheduler.monitors.runs.verdict import SCHEDULING_CREDITS, RunVerdict, failed, judge_run, skipped
from scheduler.monitors.web.checks import judge_check
from scheduler.monitors.web.watch import keep_until
from scheduler.recipes import GatheringFailed, Recipe, RecipeInvalid, Recipes
from scheduler.webhooks.deliveries.queue import Outbox
from storage.errors import StorageError
from storage.store import Store, Tx

RUN_S: Final = 60.0
SETTLE_S: Final = 5.0
ATTEMPTS_MAX: Final = 5
NO_CREDITS: Final = "insufficient_credits"
NO_BUDGET: Final = "key_budget_reached"
SUSPENDED: Final = "account_suspended"
DELETED: Final = "account_deleted"
"""The account was deleted. The run is deleted together with the account."""
GIVEN_UP: Final = "attempts_used_up"
"""Every attempt was interrupted, for example by a crash."""
INVALID: Final = "recipe_invalid"
ENDS: Final = ("ok", "partial", "failed", "skipped")
_LONG_BYTES: Final = 128 * 1024
"""Results longer than this are compressed in a thread."""
_PLAIN_BYTES: Final = 16 * 1024
"""Results longer than this are evaluated in a thread, because evaluating 200 rows with 20 rules takes about 20 ms."""
UNEXPECTED: Final = "internal_error"

MakePayload = Callable[[Monitor, Run, RunVerdict], bytes]
"""Builds the payload of a finished run. A pure function, called on the store's thread."""


class Runs:
    """Executes leased runs."""

    def __init__(
        self,
        stores: tuple[Store, Charges, EventLog],
        recipes: Recipes,
        make_payload: MakePayload,
        outbox: Outbox,
        *,
        now: Callable[[], float],
    ) -> None:
        self._store, self._charges, self._feed = stores
        self._recipes = recipes
        self._make_payload = make_payload
        self._now = now
        self._outbox = outbox
        self._thread = FairThread()
        self.ended = dict.fromkeys(ENDS, 0)
        """The runs that this node has ended, by status."""

    async def run(self, lease: RunLease) -> None:
        """Run one attempt to its end. On cancellation, refund it and return the run to the queue.

        Raises:
            StorageError: the run has not ended. It is retried after its lease expires.
        """
        try:
            await self._attempt(lease)
        except BaseException as exc:
            if not isinstance(exc, Exception):
                with trio.move_on_after(SETTLE_S, shield=True), suppress(StorageError):
                    await self._store.write(partial(run_rows.give_back, run=lease.run))
            raise

    async def fail(self, lease: RunLease) -> None:
        """End an attempt that raised an unexpected error. Its charge is already closed.

        Raises:
            StorageError: the run has not ended.
        """
        await self._end(lease, failed(UNEXPECTED), None)

    async def _attempt(self, lease: RunLease) -> None:
        run, monitor = lease
        await self._refund_earlier(lease)
        if run.attempt > ATTEMPTS_MAX:
            await self._end(lease, failed(GIVEN_UP), None)
            return
        try:
            rows = rows_asked(monitor.track)
            recipe = self._recipes.read(monitor.recipe, orjson.loads(monitor.params), rows=rows)
            charge = await self._charges.take(charge_request(lease, recipe))
        except RecipeInvalid as exc:
            await self._end(lease, failed(INVALID, said=str(exc)), None)
        except InsufficientCredits:
            await self._end(lease, skipped(NO_CREDITS), None)
        except KeyBudgetReached:
            await self._end(lease, skipped(NO_BUDGET), None)
        except AccountSuspended:
            await self._end(lease, skipped(SUSPENDED), None)
        except AccountDeleted:
            await self._end(lease, skipped(DELETED), None)
        else:
            await self._charged(lease, recipe, charge)

    async def _refund_earlier(self, lease: RunLease) -> None:
        """Refund the charges that earlier attempts may have left open. Closed charges stay unchanged."""
        run, key_id = lease.run, lease.monitor.key_id
        for attempt in range(1, run.attempt):
            request = CloseRequest(run.request_id(attempt), run.account_id, key_id, 0, "Refund of an attempt cut short")
            with suppress(ChargeUnknown):
                await self._store.submit(self._charges.judge, request)

    async def _charged(self, lease: RunLease, recipe: Recipe, charge: Charge) -> None:
        """Execute a run, and make sure that its charge is closed exactly once.

        If the run cannot be ended, the whole charge is refunded.
        """
        has_ended = False
        try:
            verdict = await self._gather(lease, recipe, charge)
            with trio.fail_after(SETTLE_S, shield=True):
                await self._end(lease, verdict, charge)
            has_ended = True
        finally:
            if not has_ended:
                with trio.move_on_after(SETTLE_S, shield=True), suppress(StorageError, ChargeUnknown):
                    await self._charges.close(charge, used=0)

    async def _gather(self, lease: RunLease, recipe: Recipe, charge: Charge) -> RunVerdict:
        run, monitor = lease
        try:
            held, as_sent = charge.credits - SCHEDULING_CREDITS, monitor.track is None and monitor.web is None
            gathered = await self._recipes.gather(
                recipe, held, timeout_s=RUN_S, account_id=run.account_id, as_sent=as_sent
            )
        except GatheringFailed as exc:
            return failed(exc.code, exc.legs, exc.used_credits, said=str(exc))
        previous = None
        if monitor.baseline_run_id is not None:
            previous = await self._store.read(partial(run_rows.read_numbers, run_id=monitor.baseline_run_id))
        judge = partial(judge_check, monitor, gathered, previous)
        if monitor.web is None:
            judge = partial(judge_run, monitor, gathered, previous, at=run.scheduled_for)
        if len(gathered.body) <= _PLAIN_BYTES:
            return judge()
        return await self._thread.run(run.account_id, judge)

    async def _end(self, lease: RunLease, verdict: RunVerdict, charge: Charge | None) -> None:
        data = verdict.data()
        if data is not None and data.result is not None and len(data.result) > _LONG_BYTES:
            data = await self._thread.run(lease.run.account_id, partial(run_rows.packed, data))
        write = partial(self._write_end, lease=lease, verdict=verdict, charge=charge, data=data)
        if await self._store.write(write):
            self.ended[verdict.status] += 1

    def _write_end(
        self, tx: Tx, *, lease: RunLease, verdict: RunVerdict, charge: Charge | None, data: RunData | None
    ) -> bool:
        """End a run in one transaction, or only refund it if this attempt has lost the run. Return False in that case.

        Accounts are locked first, then monitors and runs. Closing the charge and appending events come last, because
        both may lock the feed.
        """
        run = lease.run
        if charge is not None:
            tx.all_in(READ_ACCOUNTS, [run.account_id])
        monitor = store.read_monitor(tx, run.monitor_id, locked=True)
        is_ours = monitor is not None and run_rows.holds(tx, run)
        used = 0 if charge is None else self._close(tx, charge, verdict.used_credits if is_ours else 0)
        if monitor is None or not is_ours:
            return False
        now = self._now()
        ended = replace(_ended_run(run, verdict, used, now), keep_until=keep_until(monitor.web, now))
        run_rows.end_run(tx, ended)
        if data is not None:
            run_rows.add_data(tx, run.id, data, at=now)
        if verdict.status != "skipped":
            store.settle(tx, _monitor_after(monitor, lease, verdict), credits_used=used)
        self._queue_delivery(tx, monitor, ended, verdict)
        self._feed.append(tx, facts_of(monitor, ended, verdict))
        return True

    def _close(self, tx: Tx, charge: Charge, used: int) -> int:
        """Close the charge and return the credits that it cost.

        This is `used`, or the earlier result if the charge was already closed, or 0 if its row was deleted.
        """
        (outcome,) = self._charges.judge(tx, [close_request(charge, used=min(used, charge.credits))])
        if isinstance(outcome, ChargeUnknown):
            self._charges.note_lost(outcome)
            return 0
        if isinstance(outcome, BillingError):
            raise outcome
        assert isinstance(outcome, Closed), "a close request is answered by Closed"
        return outcome.credits_used

    def _queue_delivery(self, tx: Tx, monitor: Monitor, run: Run, verdict: RunVerdict) -> None:
        if not (verdict.counts and verdict.is_told) or (monitor.suppress and not verdict.alerts):
            return
        host = store.hook_host(tx, monitor.id)
        if host is not None:
            body = self._make_payload(monitor, run, verdict)
            self._outbox.queue(
                tx, run_id=run.id, monitor_id=run.monitor_id, account_id=run.account_id, host=host, body=body
            )


def charge_request(lease: RunLease, recipe: Recipe) -> ChargeRequest:
    """Return the charge for the recipe's price plus one scheduling credit.

    The charge counts toward the key that created the monitor.
    """
    run, monitor = lease
    least, most = recipe.credits_least + SCHEDULING_CREDITS, recipe.credits_most + SCHEDULING_CREDITS
    within = None if least == most else least
    return ChargeRequest(
        run.request_id(),
        run.account_id,
        monitor.key_id,
        most,
        recipe.platform,
        recipe.path,
        within,
        in_background=True,
    )


def _ended_run(run: Run, verdict: RunVerdict, used: int, now: float) -> Run:
    return replace(
        run,
        status=verdict.status,
        lease_until=None,
        finished_at=now,
        credits_used=used,
        skip_reason=verdict.reason,
        legs=orjson.dumps(verdict.legs).decode(),
        alerts=orjson.dumps(verdict.alerts_json).decode(),
        warnings=orjson.dumps(verdict.warnings).decode(),
        rows_count=verdict.rows_count,
    )


def _monitor_after(monitor: Monitor, lease: RunLease, verdict: RunVerdict) -> Monitor:
    """Return the monitor after the run.

    Its rule state is saved only if the owner has not changed the monitor meanwhile.

    The run becomes the baseline only if the monitor's parameters and track have not changed since it began.
    """
    began = lease.monitor
    if verdict.counts and verdict.is_baseline and (monitor.params, monitor.track) == (began.params, began.track):
        monitor = replace(monitor, baseline_run_id=lease.run.id)
    if verdict.rule_state is not None and monitor.version == lease.monitor.version:
        monitor = replace(monitor, rule_state=orjson.dumps(verdict.rule_state).decode())
    return monitor
