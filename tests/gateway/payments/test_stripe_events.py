"""Events and forms match Stripe's own Python package."""

from __future__ import annotations

import time
import warnings
from typing import Any

import msgspec
import pytest

from billing.packs.payments import Abandoned, Paid, PaymentChange, PaymentEvent
from billing.packs.records import Payment
from gateway.payments.errors import EventUnreadable
from gateway.payments.stripe_api import CheckoutDraft
from gateway.payments.stripe_events import EVENT_TYPES, read_event
from scheduler.webhooks.errors import SignatureRefused
from scheduler.webhooks.signature import verify
from tests.fakes.stripe_stand_in import WEBHOOK_SECRET, charge, dispute, event, session, signature

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of other packages
    import stripe
    from stripe.params import WebhookEndpointCreateParams
    from stripe.params.checkout import SessionCreateParams

EVENTS: list[tuple[str, dict[str, Any], PaymentEvent | None]] = [
    ("checkout.session.completed", session("pur_1"), Paid("pur_1", 900, "usd", "pi_1")),
    ("checkout.session.completed", session("pur_1", status="unpaid"), None),
    ("checkout.session.completed", {**session("pur_1"), "client_reference_id": None}, None),
    ("checkout.session.async_payment_succeeded", session("pur_1"), Paid("pur_1", 900, "usd", "pi_1")),
    ("checkout.session.async_payment_failed", session("pur_1", status="unpaid"), Abandoned("pur_1")),
    ("checkout.session.expired", session("pur_1", status="unpaid"), Abandoned("pur_1")),
    ("charge.refunded", charge(refunded=450), PaymentChange("pi_1", Payment(refunded_cents=450))),
    ("charge.dispute.created", dispute("needs_response"), PaymentChange("pi_1", Payment(0, 900, "open"))),
    ("charge.dispute.created", dispute("warning_needs_response"), None),
    ("charge.dispute.closed", dispute("lost"), PaymentChange("pi_1", Payment(0, 900, "lost"))),
    ("charge.dispute.closed", dispute("won"), PaymentChange("pi_1", Payment(0, 900, "won"))),
    ("customer.created", {"object": "customer"}, None),
]


@pytest.mark.parametrize(("type_", "thing", "payment"), EVENTS)
def test_event_is_parsed_into_a_payment_event(type_: str, thing: dict[str, Any], payment: PaymentEvent | None) -> None:
    read = read_event(event(type_, thing, "evt_9"))
    assert (read.id, read.type, read.payment) == ("evt_9", type_, payment)


@pytest.mark.parametrize(("type_", "thing", "_payment"), EVENTS)
def test_stripe_library_accepts_the_same_signed_events(type_: str, thing: dict[str, Any], _payment: object) -> None:
    body = event(type_, thing)
    header = signature(body)
    built = stripe.Webhook.construct_event(body, header, WEBHOOK_SECRET)
    assert (built["id"], built["type"]) == (read_event(body).id, type_)
    assert verify(WEBHOOK_SECRET, header, body, now=time.time()) == pytest.approx(time.time(), abs=5)


def test_event_objects_have_only_fields_of_stripes_package() -> None:
    """Goal: no invented field. Method: compare with the fields of the classes in Stripe's package."""
    names = {"checkout.session": stripe.checkout.Session, "charge": stripe.Charge, "dispute": stripe.Dispute}
    for _type, thing, _payment in EVENTS[:-1]:
        fields = names[thing["object"]].__annotations__
        assert thing.keys() <= fields.keys(), thing


def test_event_types_are_valid_for_stripe_webhooks() -> None:
    choices = str(WebhookEndpointCreateParams.__annotations__["enabled_events"])
    assert [type_ for type_ in EVENT_TYPES if repr(type_) not in choices and f'"{type_}"' not in choices] == []


def test_checkout_form_has_stripe_parameters() -> None:
    draft = CheckoutDraft(
        "pur_1", "1,000 credits (starter)", 900, "usd", "https://a.example/ok", "https://a.example/no"
    )
    allowed = SessionCreateParams.__annotations__.keys()
    assert {key.partition("[")[0] for key in draft.form()} <= allowed


@pytest.mark.parametrize("body", [b"", b"[]", b'{"id":1}', b"\xff", event("charge.refunded", {"amount_refunded": "9"})])
def test_invalid_event_is_rejected(body: bytes) -> None:
    with pytest.raises(EventUnreadable):
        read_event(body)


@pytest.mark.parametrize("seconds", [-301, 301])
def test_event_outside_the_time_tolerance_is_rejected(seconds: int) -> None:
    body = event("customer.created", {})
    with pytest.raises(SignatureRefused, match="300 s are allowed"):
        verify(WEBHOOK_SECRET, signature(body, at=1_000_000_000), body, now=1_000_000_000 + seconds)


def test_event_id_may_be_any_text() -> None:
    assert msgspec.json.decode(event("a", {}, 'evt_"1'))["id"] == read_event(event("a", {}, 'evt_"1')).id
