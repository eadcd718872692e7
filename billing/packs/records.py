"""Packs and purchases as values, and the rule for taking credits back after a reversed payment."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from billing.accounts.plans import Plan
from storage.store import Row, Tx

Dispute: TypeAlias = Literal["none", "open", "lost", "won"]
Reason: TypeAlias = Literal["refund", "dispute", "dispute_won"]
PurchaseStatus: TypeAlias = Literal["open", "paid", "partly_reversed", "reversed"]

COLUMNS: Final = (
    "id, account_id, pack, credits, price_cents, currency, plan, source, created_at, paid_at, paid_cents, payment, "
    "reversed, taken_back, reversals"
)
READ: Final = f"SELECT {COLUMNS} FROM pack_purchases WHERE id = ? {{lock}}"  # noqa: S608 - constants
READ_BY_PAYMENT: Final = f"SELECT {COLUMNS} FROM pack_purchases WHERE payment = ? {{lock}}"  # noqa: S608 - constants
_MONEY_TAKEN: Final[tuple[Dispute, ...]] = ("open", "lost")
RANKS: Final[tuple[Dispute, ...]] = ("none", "open", "lost", "won")
"""The order of a dispute's states. The stored state only moves forward, in whatever order the events arrive."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack on sale. `price_cents` is in the smallest unit of the currency."""

    name: str
    credits: int
    price_cents: int
    currency: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class Purchase:
    """A pack that an account was granted, has paid for or is about to pay for, with the terms at that time."""

    id: str
    account_id: str
    pack: str
    credits: int
    price_cents: int
    currency: str
    plan: Plan
    source: Literal["operator", "stripe"]
    created_at: float
    paid_at: float | None = None
    paid_cents: int | None = None
    payment: str | None = None
    """Stripe's id of the payment."""
    reversed: int = 0
    """How many of the credits are no longer paid for."""
    taken_back: int = 0
    """How many of these credits were taken back. An account may have spent the others already."""
    reversals: int = 0
    """How often credits were taken back."""

    @property
    def status(self) -> PurchaseStatus:
        """Return the state of the purchase."""
        if self.paid_at is None:
            return "open"
        if not self.reversed:
            return "paid"
        return "reversed" if self.reversed == self.credits else "partly_reversed"


class Payment(NamedTuple):
    """Everything known about a payment's refunds and its dispute."""

    refunded_cents: int = 0
    disputed_cents: int = 0
    dispute: Dispute = "none"

    def joined(self, other: "Payment") -> "Payment":
        """Merge two states.

        Refunds only increase and disputes only move forward, so the order of the states does not matter.
        """
        dispute = max(self.dispute, other.dispute, key=RANKS.index)
        refunded = max(self.refunded_cents, other.refunded_cents)
        return Payment(refunded, max(self.disputed_cents, other.disputed_cents), dispute)

    @property
    def reason(self) -> Reason:
        """Return the reason for taking back or returning credits: a refund or the dispute."""
        if self.dispute == "won":
            return "dispute_won"
        return "dispute" if self.dispute in _MONEY_TAKEN else "refund"


class Reversal(NamedTuple):
    """A purchase whose payment was reversed, or restored by a won dispute, and the account's balance afterward."""

    purchase: Purchase
    reason: Reason
    balance: int


def credits_reversed(purchase: Purchase, payment: Payment) -> int:
    """Return how many credits are no longer paid for. They are proportional to the returned money, rounded down."""
    gone = payment.refunded_cents + (payment.disputed_cents if payment.dispute in _MONEY_TAKEN else 0)
    paid = purchase.paid_cents or 0
    return purchase.credits * min(gone, paid) // paid if paid else 0


def read_purchase(tx: Tx, purchase_id: str) -> Purchase | None:
    """Return the purchase, or None, and lock it against other writers."""
    return _purchase(tx.one(READ, (purchase_id,)))


def read_paid_by(tx: Tx, payment: str) -> Purchase | None:
    """Return the purchase of a payment, or None if it is unknown."""
    return _purchase(tx.one(READ_BY_PAYMENT, (payment,)))


def _purchase(row: Row | None) -> Purchase | None:
    return None if row is None else Purchase(*row)
