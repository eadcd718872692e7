"""Parse Stripe's webhook events into payment events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from billing.packs.payments import Abandoned, Paid, PaymentChange, PaymentEvent
from billing.packs.records import Dispute, Payment
from gateway.payments.errors import EventUnreadable

_PAID: Final = ("paid", "no_payment_required")
_OUTCOMES: Final[Mapping[str, Dispute]] = {"won": "won", "lost": "lost"}
"""The outcomes of closed disputes, by Stripe's status.

A dispute with any other status is open, unless it is an inquiry, for which Stripe withholds no money.
"""
_INQUIRY: Final = "warning_"


class _Session(msgspec.Struct):
    """A Checkout session."""

    payment_status: str
    amount_total: int
    currency: str | None = None
    client_reference_id: str | None = None
    payment_intent: str | None = None


class _Charge(msgspec.Struct):
    """A charge for a payment. `amount_refunded` is the sum of all its refunds so far."""

    amount_refunded: int
    payment_intent: str | None = None


class _Disputed(msgspec.Struct):
    """A dispute about a charge."""

    amount: int
    status: str
    payment_intent: str | None = None


class _Data(msgspec.Struct):
    object: msgspec.Raw


class _Event(msgspec.Struct):
    id: str
    type: str
    data: _Data


class StripeEvent(msgspec.Struct, frozen=True):
    """A parsed event. `payment` is None if the event does not concern packs."""

    id: str
    type: str
    payment: PaymentEvent | None


def read_event(body: bytes) -> StripeEvent:
    """Parse the body of a webhook request. Raises EventUnreadable."""
    try:
        event = msgspec.json.decode(body, type=_Event)
        read = _READERS.get(event.type)
        return StripeEvent(event.id, event.type, None if read is None else read(event.data.object))
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise EventUnreadable(str(exc)) from exc


def _paid(sent: msgspec.Raw) -> PaymentEvent | None:
    """Parse a completed session. None if it is not paid yet; Stripe sends another event when it is."""
    session = msgspec.json.decode(sent, type=_Session)
    if session.client_reference_id is None or session.payment_status not in _PAID:
        return None
    return Paid(session.client_reference_id, session.amount_total, session.currency or "none", session.payment_intent)


def _abandoned(sent: msgspec.Raw) -> PaymentEvent | None:
    session = msgspec.json.decode(sent, type=_Session)
    return None if session.client_reference_id is None else Abandoned(session.client_reference_id)


def _refunded(sent: msgspec.Raw) -> PaymentEvent | None:
    charge = msgspec.json.decode(sent, type=_Charge)
    if charge.payment_intent is None:
        return None
    return PaymentChange(charge.payment_intent, Payment(refunded_cents=charge.amount_refunded))


def _disputed(sent: msgspec.Raw) -> PaymentEvent | None:
    """Parse a dispute; None for an inquiry.

    Stripe withholds the amount of a dispute until the dispute is won. For an inquiry it withholds nothing, unless the
    inquiry becomes a dispute.
    """
    dispute = msgspec.json.decode(sent, type=_Disputed)
    if dispute.payment_intent is None or dispute.status.startswith(_INQUIRY):
        return None
    outcome: Dispute = _OUTCOMES.get(dispute.status, "open")
    return PaymentChange(dispute.payment_intent, Payment(disputed_cents=dispute.amount, dispute=outcome))


_READERS: Final[Mapping[str, Callable[[Any], PaymentEvent | None]]] = {
    "checkout.session.completed": _paid,
    "checkout.session.async_payment_succeeded": _paid,
    "checkout.session.async_payment_failed": _abandoned,
    "checkout.session.expired": _abandoned,
    "charge.refunded": _refunded,
    "charge.dispute.created": _disputed,
    "charge.dispute.updated": _disputed,
    "charge.dispute.closed": _disputed,
    "charge.dispute.funds_withdrawn": _disputed,
    "charge.dispute.funds_reinstated": _disputed,
}
EVENT_TYPES: Final = tuple(_READERS)
"""The event types to select when you set up the webhook at Stripe."""
