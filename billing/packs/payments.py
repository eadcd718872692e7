"""Processes each payment event once: paid purchases, refunds and disputes (decisions 22).

Events may arrive in any order. Refunds and disputes are merged into the state of the payment, even if its purchase is
not known yet. The state and the purchase determine how many credits must be taken back in total. If more or fewer were
taken back so far, the same transaction takes or returns the difference.

A payment whose amount or currency differs from the purchase's terms is not credited: the account is marked for the
operator, who grants the pack or refunds the payment.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from billing.accounts.accounts import GONE, Accounts, read_account
from billing.billing_events import BillingEvents
from billing.charges.charges import Charges
from billing.errors import AccountDeleted
from billing.packs.packs import Packs, drop_open
from billing.packs.records import Payment, Purchase, Reversal, credits_reversed, read_paid_by, read_purchase
from storage.store import Store, Tx

FIND_EVENT: Final = "SELECT 1 FROM payment_events WHERE id = ?"
ADD_EVENT: Final = "INSERT INTO payment_events (id, type, received_at) VALUES (?, ?, ?)"
READ_PAYMENT: Final = "SELECT refunded_cents, disputed_cents, dispute FROM payments WHERE id = ?"
SAVE_PAYMENT: Final = """
INSERT INTO payments (id, refunded_cents, disputed_cents, dispute) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET refunded_cents = excluded.refunded_cents, disputed_cents = excluded.disputed_cents,
    dispute = excluded.dispute
"""
SAVE_REVERSAL: Final = "UPDATE pack_purchases SET reversed = ?, taken_back = ?, reversals = ? WHERE id = ?"
MARK_MISMATCH: Final = "UPDATE accounts SET mismatch = ? WHERE id = ?"
MARK: Final = "UPDATE accounts SET mark = ? WHERE id = ? AND (mark IS NULL OR mark = 'refund')"
_PROBLEM_MAX: Final = 500


class Paid(NamedTuple):
    """Event: a purchase was paid. `payment` is the id of the payment, or None if the price was zero."""

    purchase_id: str
    paid_cents: int
    currency: str
    payment: str | None


class Abandoned(NamedTuple):
    """Event: a purchase can no longer be paid."""

    purchase_id: str


class PaymentChange(NamedTuple):
    """Event: the current refunds of a payment, or the state of its dispute."""

    payment: str
    state: Payment


PaymentEvent: TypeAlias = Paid | Abandoned | PaymentChange
Outcome: TypeAlias = Literal["counted", "repeated", "unknown_purchase", "account_deleted", "mismatch"]
"""The result of processing an event. `unknown_purchase` means that the purchase was made elsewhere, or was removed."""


class CountedPayment(NamedTuple):
    """The outcome of an event. If a payment was not credited, it includes a message for the operator."""

    outcome: Outcome
    problem: str = ""


class Payments:
    """Processes payment events."""

    def __init__(
        self,
        store: Store,
        packs: Packs,
        accounts: Accounts,
        charges: Charges,
        *,
        now: Callable[[], float],
        billing_events: BillingEvents,
    ) -> None:
        self._store = store
        self._packs = packs
        self._accounts = accounts
        self._charges = charges
        self._now = now
        self._billing_events = billing_events
        self.counts: dict[str, int] = dict.fromkeys(get_args(Outcome), 0)
        """The number of events since the start, by outcome."""

    async def count(self, event_id: str, type_: str, event: PaymentEvent) -> CountedPayment:
        """Process an event once: its id and all its effects are one transaction."""
        counted = await self._store.write(partial(self._count, event_id, type_, event))
        self.counts[counted.outcome] += 1
        return counted

    def _count(self, event_id: str, type_: str, event: PaymentEvent, tx: Tx) -> CountedPayment:
        payment = None if isinstance(event, Abandoned) else event.payment
        tx.lock(sorted({f"payment event {event_id}", f"payment {payment}"}))
        if tx.one(FIND_EVENT, (event_id,)) is not None:
            return CountedPayment("repeated")
        tx.run(ADD_EVENT, (event_id, type_, self._now()))
        if isinstance(event, Paid):
            return self._pay(tx, event)
        if isinstance(event, Abandoned):
            drop_open(tx, event.purchase_id)
            return CountedPayment("counted")
        state = _payment(tx, event.payment).joined(event.state)
        tx.run(SAVE_PAYMENT, (event.payment, *state))
        purchase = read_paid_by(tx, event.payment)
        if purchase is None:
            return CountedPayment("unknown_purchase")
        return CountedPayment(self._settle(tx, purchase.account_id, event.payment))

    def _pay(self, tx: Tx, event: Paid) -> CountedPayment:
        purchase = read_purchase(tx, event.purchase_id)
        if purchase is None:
            return CountedPayment("unknown_purchase")
        if purchase.paid_at is not None:  # an earlier event of the same Checkout has already paid the purchase
            return CountedPayment("repeated")
        if (event.paid_cents, event.currency.lower()) != (purchase.price_cents, purchase.currency.lower()):
            problem = (
                f"{purchase.id}: paid {event.paid_cents} {event.currency}, "
                f"expected {purchase.price_cents} {purchase.currency}; payment {event.payment}"
            )
            tx.run(MARK_MISMATCH, (problem[:_PROBLEM_MAX], purchase.account_id))
            return CountedPayment("mismatch", problem)
        try:
            self._packs.pay(tx, purchase, paid_cents=event.paid_cents, payment=event.payment)
        except AccountDeleted:  # raised before anything was written
            return CountedPayment("account_deleted")
        settled = None if event.payment is None else self._settle(tx, purchase.account_id, event.payment)
        return CountedPayment(settled or "counted")

    def _settle(self, tx: Tx, account_id: str, payment: str) -> Outcome:
        """Take back or return credits until the total matches the payment. Deleted accounts are skipped."""
        if read_account(tx, account_id).state in GONE:
            return "account_deleted"
        purchase, state = read_paid_by(tx, payment), _payment(tx, payment)
        assert purchase is not None, "the purchase was found, and paid purchases are not deleted"
        due = credits_reversed(purchase, state)
        if due > purchase.reversed:
            self._take(tx, purchase, state, due)
        elif due < purchase.reversed:
            self._return(tx, purchase, due)
        return "counted"

    def _take(self, tx: Tx, purchase: Purchase, state: Payment, due: int) -> None:
        times = purchase.reversals + 1
        request_id = f"reversal_{purchase.id}.{times}"
        taken = self._charges.take_back(tx, purchase.account_id, due - purchase.reversed, request_id)
        saved = replace(purchase, reversed=due, taken_back=purchase.taken_back + taken, reversals=times)
        reason = "refund" if state.reason == "dispute_won" else state.reason
        tx.run(MARK, (reason, purchase.account_id))
        self._save(tx, Reversal(saved, reason, read_account(tx, purchase.account_id).balance))

    def _return(self, tx: Tx, purchase: Purchase, due: int) -> None:
        """Give back the credits that a won dispute restores. The account keeps its mark."""
        back = max(0, purchase.taken_back - due)
        if back:
            words = f"Dispute won: credit pack {purchase.pack}"
            self._accounts.enter_return(tx, purchase.account_id, back, words)
        saved = replace(purchase, reversed=due, taken_back=purchase.taken_back - back)
        self._save(tx, Reversal(saved, "dispute_won", read_account(tx, purchase.account_id).balance))

    def _save(self, tx: Tx, reversal: Reversal) -> None:
        one = reversal.purchase
        tx.run(SAVE_REVERSAL, (one.reversed, one.taken_back, one.reversals, one.id))
        self._billing_events.pack_reversed(tx, reversal)


def _payment(tx: Tx, payment: str) -> Payment:
    row = tx.one(READ_PAYMENT, (payment,))
    return Payment() if row is None else Payment(*row)
