"""Packs and purchases as values, and the rule by which a payment's reversal takes credits back."""

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
_STANDING: Final[tuple[Dispute, ...]] = ("open", "lost")
RANKS: Final[tuple[Dispute, ...]] = ("none", "open", "lost", "won")
"""A dispute goes from one to a later one, in whatever order it is told."""


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
    """A pack that an account was granted, has paid, or is about to pay, at the terms of that moment."""

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
    """Credits whose payment was taken back."""
    taken_back: int = 0
    """Those of them that the account still had."""
    reversals: int = 0
    """How often credits were taken back."""

    @property
    def status(self) -> PurchaseStatus:
        """How it stands, in a word."""
        if self.paid_at is None:
            return "open"
        if not self.reversed:
            return "paid"
        return "reversed" if self.reversed == self.credits else "partly_reversed"


class Payment(NamedTuple):
    """All that is known of a payment's refunds and of its dispute."""

    refunded_cents: int = 0
    disputed_cents: int = 0
    dispute: Dispute = "none"

    def joined(self, other: "Payment") -> "Payment":
        """Both together: refunds only grow, and a dispute only goes on, so their order does not count."""
        dispute = max(self.dispute, other.dispute, key=RANKS.index)
        refunded = max(self.refunded_cents, other.refunded_cents)
        return Payment(refunded, max(self.disputed_cents, other.disputed_cents), dispute)

    @property
    def reason(self) -> Reason:
        """The reason of the latest change."""
        if self.dispute == "won":
            return "dispute_won"
        return "dispute" if self.dispute in _STANDING else "refund"


class Reversal(NamedTuple):
    """A purchase whose payment was taken back, or came back with a dispute that was won, and the balance after it."""

    purchase: Purchase
    reason: Reason
    balance: int


def credits_reversed(purchase: Purchase, payment: Payment) -> int:
    """The credits for which nothing is paid any more: by the part of the money that went back, rounded down."""
    gone = payment.refunded_cents + (payment.disputed_cents if payment.dispute in _STANDING else 0)
    paid = purchase.paid_cents or 0
    return purchase.credits * min(gone, paid) // paid if paid else 0


def read_purchase(tx: Tx, purchase_id: str) -> Purchase | None:
    """The purchase, which other writers are kept away from."""
    return _purchase(tx.one(READ, (purchase_id,)))


def read_paid_by(tx: Tx, payment: str) -> Purchase | None:
    """The purchase that a payment is for, once it is known."""
    return _purchase(tx.one(READ_BY_PAYMENT, (payment,)))


def _purchase(row: Row | None) -> Purchase | None:
    return None if row is None else Purchase(*row)
