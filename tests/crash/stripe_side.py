"""Stripe's side of payments: the events of each payment, and the events that were accepted with a 200."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeAlias

from tests.fakes.stripe_stand_in import charge, dispute, event, session

Things: TypeAlias = Sequence[tuple[str, dict[str, Any]]]
"""The type of each event, and the object that it describes."""
CREDITS: Final = 1_000
FATES: Final[Sequence[tuple[int, Callable[[str, str], Things]]]] = (
    (0, lambda _purchase, _payment: ()),
    (0, lambda purchase, payment: [("checkout.session.async_payment_succeeded", session(purchase, payment))]),
    (500, lambda _purchase, payment: [("charge.refunded", charge(payment, cents)) for cents in (150, 450)]),
    (CREDITS, lambda _purchase, payment: [("charge.refunded", charge(payment, cents)) for cents in (450, 900)]),
    (CREDITS, lambda _purchase, payment: _dispute(payment, "needs_response", "lost")),
    (0, lambda _purchase, payment: _dispute(payment, "needs_response", "under_review", "won")),
    (
        333,
        lambda _purchase, payment: [
            ("charge.refunded", charge(payment, 300)),
            *_dispute(payment, "needs_response", "won"),
        ],
    ),
)
"""The possible courses of a paid purchase: the credits that are taken back in the end, and the events after the first
one."""
ABANDONED: Final = "checkout.session.expired"


def _dispute(payment: str, *standings: str) -> Things:
    return [
        (f"charge.dispute.{'closed' if one in ('lost', 'won') else 'updated'}", dispute(one, payment))
        for one in standings
    ]


@dataclass
class Stripe:
    """Stripe's side: its purchases, the events without a 200, and the accepted events."""

    rng: Random
    waiting: dict[str, bytes] = field(default_factory=dict)
    told: dict[str, bytes] = field(default_factory=dict)
    reversed: dict[str, int | None] = field(default_factory=dict)
    """The credits of each purchase that must be taken back. `None` for a purchase that was never paid."""

    def decide(self, purchase: str) -> None:
        """Decide how a purchase continues, and send its events."""
        payment = f"pi_{purchase}"
        if self.rng.random() < 0.1:
            self.reversed[purchase], told = None, [(ABANDONED, session(purchase, payment, "unpaid"))]
        else:
            self.reversed[purchase], more = self.rng.choice(FATES)
            told = [("checkout.session.completed", session(purchase, payment)), *more(purchase, payment)]
        for type_, thing in told:
            id_ = f"evt_{len(self.waiting) + len(self.told)}"
            self.waiting[id_] = event(type_, thing, id_)

    def pick(self) -> str | None:
        """Return an event to send. Usually this is an event without a 200, even if another task is sending it."""
        known = self.told if not self.waiting or self.rng.random() < 0.2 else self.waiting
        return self.rng.choice(list(known)) if known else None

    def took(self, id_: str) -> None:
        """Record that an event was answered with 200."""
        if (body := self.waiting.pop(id_, None)) is not None:
            self.told[id_] = body

    @property
    def paid(self) -> dict[str, int]:
        """Return the purchases that were paid, and the credits of each that must be taken back."""
        return {purchase: due for purchase, due in self.reversed.items() if due is not None}
