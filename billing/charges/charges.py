"""Charges: credits are reserved before a call, and settled or refunded exactly once after it (spec 7.5)."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias, cast

import trio

from billing.accounts.balances import Balances
from billing.billing_events import SILENT, BillingEvents
from billing.charges.batch_rows import Charge, ChargeRequest, Closed, CloseRequest, Decision, Outcome, Request
from billing.charges.charge_rows import RESERVED, judge_charges
from billing.charges.low_balance import judge_low_balances
from billing.charges.refunds import NOTHING_USED
from billing.charges.taking_back import take_back
from billing.errors import BillingError, ChargeUnknown
from billing.names import Names
from storage.errors import StorageError, StoreUnavailable
from storage.store import Store, Tx

# Beyond this number, charges that could not be closed stay open until the node ends; recovery then refunds them.
UNFINISHED_MAX = 10_000

_log = logging.getLogger(__name__)

Closing: TypeAlias = Callable[[], Awaitable[Closed]]


class Charges:
    """Takes and closes charges. One transaction usually contains many of them."""

    def __init__(
        self,
        store: Store,
        balances: Balances,
        *,
        now: Callable[[], float],
        node: str,
        billing_events: BillingEvents = SILENT,
    ) -> None:
        """`now` returns Unix seconds and is also called on the store's thread. `node` names this process.

        A node that was declared dead sets a new `node`, and all later charges use the new name.
        """
        self._store = store
        self._balances = balances
        self._now = now
        self._billing_events = billing_events
        self.node = node
        self._names = Names()
        self._unfinished: dict[str, Closing] = {}
        self._settling: dict[str, Charge] = {}
        """Fully used charges whose settlement is not committed yet, by request id."""
        self._credits_moved = Counter[str]()
        self.lost_total = 0
        """The number of open charges whose rows had disappeared from the store."""

    def take(self, request: ChargeRequest) -> Awaitable[Charge]:
        """Reserve the credits durably. The caller must close the charge, whatever happens.

        Raises:
            KeyUnusable, AccountUnknown, AccountDeleted, ChargeExists: nothing was deducted.
            InsufficientCredits, KeyBudgetReached: nothing was deducted.
            StoreUnavailable: nothing was deducted, or `finish` refunds it.
        """
        assert request.credits >= 0
        return cast("Awaitable[Charge]", self._store.submit(self.judge, request))

    def settle_nowait(self, charge: Charge) -> None:
        """Settle a charge in full without waiting. If the store fails, `finish` retries it."""
        self._settling[charge.request_id] = charge
        try:
            self._store.submit_nowait(self.judge, charge, lambda: self._remember_settle(charge))
        except StorageError:
            self._remember_settle(charge)

    def settling(self, account_id: str) -> dict[str, int]:
        """Return the account's credits that are used but not yet settled in the store, by request id."""
        return {id_: one.credits for id_, one in self._settling.items() if one.account_id == account_id}

    async def close(self, charge: Charge, *, used: int, description: str = "Refund") -> Closed:
        """Settle `used` credits and refund the rest. A charge that is already closed keeps its first outcome.

        Raises:
            StorageError: the charge is still open; `finish` retries it.
            ChargeUnknown: its row is missing from the store.
        """
        assert 0 <= used <= charge.credits
        request = close_request(charge, used=used, description=description)
        return await self.close_by(request.request_id, partial(self._submit, request))

    async def close_by(self, request_id: str, closing: Closing) -> Closed:
        """Close a charge by calling `closing`, which may also do other work. If the call fails, `finish` repeats it.

        Raises:
            StorageError: the charge is still open.
            ChargeUnknown: its row is missing from the store.
        """
        try:
            return await closing()
        except (StorageError, trio.Cancelled):
            self.finish_later(request_id, closing)
            raise

    def finish_later(self, request_id: str, closing: Closing) -> None:
        """Register a call with which `finish` closes the charge. Only the first call per charge is kept."""
        if len(self._unfinished) < UNFINISHED_MAX:
            self._unfinished.setdefault(request_id, closing)

    async def finish(self) -> int:
        """Close the charges that could not be closed in time, and return how many were closed. Call it periodically.

        A failure for one charge does not prevent closing the others. A charge whose row is missing from the store is
        dropped. According to the store, its credits were never deducted, so nothing can be settled or refunded.

        Raises:
            StorageError: some are still open.
        """
        await trio.lowlevel.checkpoint()
        finished, failure = 0, None
        for request_id, closing in list(self._unfinished.items()):
            try:
                await closing()
            except ChargeUnknown as exc:
                self.note_lost(exc)
                self._unfinished.pop(request_id, None)
                self._settling.pop(request_id, None)
            except StoreUnavailable:
                raise  # the store is unavailable, so the other charges would fail too
            except StorageError as exc:
                failure = exc
            else:
                self._unfinished.pop(request_id, None)
                finished += 1
        if failure is not None:
            raise failure
        return finished

    def note_lost(self, exc: ChargeUnknown) -> None:
        """Log and count a charge that was taken but whose row is missing from the store."""
        self.lost_total += 1
        _log.error("the open charge of %s is missing from the store; nothing was settled or refunded", exc.request_id)

    def unfinished(self) -> int:
        """Return the number of charges that `finish` has yet to close."""
        return len(self._unfinished)

    def credits_moved(self) -> dict[str, int]:
        """Return the credits that committed charges have moved since the start, by kind of entry."""
        return dict(self._credits_moved)

    async def _submit(self, request: CloseRequest) -> Closed:
        return cast("Closed", await self._store.submit(self.judge, request))

    def _remember_settle(self, charge: Charge) -> None:
        self.finish_later(charge.request_id, partial(self._submit, close_request(charge, used=charge.credits)))

    def judge(self, tx: Tx, requests: Sequence[Request]) -> Sequence[Outcome]:
        """Process a batch on the store's thread.

        Also called by code whose transaction contains more than charges.
        """
        return self._judge(tx, requests, self.node)

    def reserve(self, tx: Tx, request: ChargeRequest) -> Charge:
        """Reserve credits in the transaction that creates the work. The reservation outlives every process.

        The work closes the charge with `release`. Crash recovery ignores reservations.

        Raises:
            The errors of `take`; the caller's transaction must then be rolled back.
        """
        (outcome,) = self._judge(tx, [request], RESERVED)
        if isinstance(outcome, BillingError):
            raise outcome
        assert isinstance(outcome, Charge), "a charge was requested"
        return outcome

    def release(self, tx: Tx, request: CloseRequest) -> Closed:
        """Close a reservation in the transaction that ends its work. If it is already closed, return its first outcome.

        Raises:
            ChargeUnknown: the reservation was never made.
        """
        (outcome,) = self._judge(tx, [request], self.node)
        if isinstance(outcome, BillingError):
            raise outcome
        assert isinstance(outcome, Closed), "a closing was requested"
        return outcome

    def take_back(self, tx: Tx, account_id: str, most: int, request_id: str) -> int:
        """Take back credits whose payment was reversed: `most`, or as many as the account has. Return the number taken.

        `request_id` must be unused. The account must exist, in any state.
        """
        decision = take_back(tx, account_id, most, request_id=request_id, now=self._now())
        self._publish(tx, decision)
        return decision.taken

    def _judge(self, tx: Tx, requests: Sequence[Request], node: str) -> Sequence[Outcome]:
        decision = judge_charges(tx, requests, now=self._now(), node=node, names=self._names)
        self._publish(tx, decision)
        if self._settling:
            tx.on_commit(partial(self._forget_settling, requests))
        if decision.opened:
            tx.on_doubt(partial(self._refund_later, list(decision.opened.values())))
        return decision.outcomes

    def _forget_settling(self, closed: Sequence[Request]) -> None:
        for one in closed:
            self._settling.pop(one.request_id, None)

    def _publish(self, tx: Tx, decision: Decision) -> None:
        """Publish the effects of a decision: low-balance events, balances and counts."""
        if low_balances := judge_low_balances(decision.accounts):
            self._billing_events.credits_fell(tx, low_balances)
        self._balances.change(tx, decision.balance_updates())
        tx.on_commit(partial(self._count, decision))

    def _refund_later(self, doubtful: Sequence[Charge]) -> None:
        """Refund these charges if they were taken, because their callers received an error."""
        for one in doubtful:
            self.finish_later(one.request_id, partial(self._refund_all, one))

    async def _refund_all(self, one: Charge) -> Closed:
        try:
            return await self._submit(CloseRequest(one.request_id, one.account_id, one.key_id, NOTHING_USED))
        except ChargeUnknown:
            return Closed(credits_used=0, balance_after=0)

    def _count(self, decision: Decision) -> None:
        moved, closings = self._credits_moved, decision.closings()
        moved["deduction"] += decision.taken
        moved["settlement"] += closings.credits
        moved["refund"] += closings.refunds
        moved["bonus"] += decision.issued


def close_request(charge: Charge, *, used: int, description: str = "Refund") -> CloseRequest:
    """Return the request that closes a charge, for a caller that still has the charge."""
    return CloseRequest(charge.request_id, charge.account_id, charge.key_id, used, description, charge)
