"""Packs are bought through Stripe Checkout: started, paid, confirmed by signed events, reversed. Stripe is a fake."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
import trio

from gateway.payments.checkout import BODY_BYTES_MAX, WEBHOOK_PATH
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.stripe_stand_in import (
    SECRET_KEY,
    WEBHOOK_SECRET,
    StripeStandIn,
    charge,
    dispute,
    event,
    open_stripe,
    session,
    signature,
)

PACKS = [
    {"name": "starter", "credits": 1_000, "price_cents": 900, "plan": "starter"},
    {"name": "welcome", "credits": 50, "price_cents": 0},
]
ENVIRON = {"STRIPE_KEY": SECRET_KEY, "STRIPE_WEBHOOK": WEBHOOK_SECRET}


@dataclass(frozen=True, slots=True)
class Shop:
    """A node that sells packs, and a fake Stripe."""

    node: OpenNode
    stripe: StripeStandIn

    async def buy(self, pack: str = "starter", **more: Any) -> Answered:
        headers = {"x-api-key": self.node.key, **more.pop("headers", {})}
        return await self.post("/v1/purchases", orjson.dumps({"pack": pack, **more}), **headers)

    async def begin(self) -> str:
        """Create a purchase that waits for its payment."""
        answer = await self.buy()
        assert answer.status == 201, answer.body
        purchase: str = answer.json["data"]["purchase_id"]
        return purchase

    async def send_event(self, body: bytes, header: str | None = None) -> Answered:
        """Send an event in the form that Stripe uses."""
        return await self.post(WEBHOOK_PATH, body, **{"stripe-signature": header or signature(body)})

    async def post(self, path: str, body: bytes, **headers: str) -> Answered:
        sent = {"content-type": "application/json", **headers}
        answer = await self.node.client.post(self.node.url + path, content=body, headers=sent)
        return Answered(answer.status_code, dict(answer.headers), answer.content)

    async def balance(self) -> int:
        return (await self.node.money())[0]

    async def purchases(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self.node.get("/v1/purchases")).json["data"]["items"]
        return items


@asynccontextmanager
async def open_shop(folder: Path, *, store_url: str = "", **environ: str) -> AsyncIterator[Shop]:
    stand_in = StripeStandIn()
    async with open_stripe(stand_in) as url:
        stripe = {"secret_key_env": "STRIPE_KEY", "webhook_secret_env": "STRIPE_WEBHOOK", "api_url": url}
        tables: dict[str, Any] = {"packs": PACKS, "billing.stripe": stripe}
        if store_url:
            tables["store"] = {"url": store_url}
        async with open_test_node(folder, credits=0, environ={**ENVIRON, **environ}, **tables) as node:
            yield Shop(node, stand_in)
            await node.assert_sound()


async def test_pack_is_bought_paid_and_credited_once(shop: Shop) -> None:
    on_sale = (await shop.node.get("/v1/packs")).json["data"]
    assert on_sale["checkout"] is True
    assert on_sale["items"][0] == {
        "name": "starter",
        "credits": 1_000,
        "price_cents": 900,
        "currency": "usd",
        "plan": "starter",
    }
    begun = (await shop.buy()).json["data"]
    assert begun["checkout_url"].startswith("https://checkout.stripe.com/")
    (form,) = shop.stripe.sessions
    assert (form["client_reference_id"], form["mode"]) == (begun["purchase_id"], "payment")
    assert form["line_items[0][price_data][unit_amount]"] == "900"
    assert form["success_url"] == f"{shop.node.url}/dashboard/billing?paid=1"
    assert (await shop.purchases())[0]["status"] == "open"
    assert await shop.balance() == 0

    paid = event("checkout.session.completed", session(begun["purchase_id"]))
    for _ in range(3):
        answer = await shop.send_event(paid)
        assert (answer.status, answer.json) == (200, {"received": True})
    assert await shop.balance() == 1_000
    assert [(one["status"], one["source"]) for one in await shop.purchases()] == [("paid", "stripe")]
    assert (await shop.node.operate("account.show", account=shop.node.account))["plan"] == "starter"
    (fact,) = (await shop.node.get("/v1/events?types=billing.*")).json["data"]["items"]
    assert fact["type"] == "billing.pack_purchased"
    assert fact["subject"] == {"kind": "purchase", "id": begun["purchase_id"], "name": "starter"}
    assert fact["data"]["balance"] == 1_000
    (line,) = (await shop.node.get("/v1/credits/transactions")).json["data"]["items"]
    assert (line["type"], line["amount"], line["description"]) == ("purchase", 1_000, "Credit pack starter")
    assert SECRET_KEY.encode() not in shop.node.log.getvalue()


async def test_forged_or_stale_events_are_rejected_without_effect(shop: Shop) -> None:
    body = event("checkout.session.completed", session(await shop.begin()))
    now = time.time()
    refused = {
        "signed with another secret": signature(body, secret="whsec_of_nobody"),
        "late": signature(body, at=now - 301),
        "from the future": signature(body, at=now + 330),
        "signed for another body": signature(body + b" "),
        "unsigned": "t=1,v1=",
        "with another scheme": signature(body).replace("v1=", "v0="),
        "no header": "nonsense",
    }
    for why, header in refused.items():
        answer = await shop.send_event(body, header)
        assert (answer.status, answer.json["error"]["details"]["param"]) == (400, "stripe-signature"), why
    missing = await shop.post(WEBHOOK_PATH, body)
    assert missing.status == 400
    assert (await shop.send_event(b"x" * (BODY_BYTES_MAX + 1))).status == 413
    assert (await shop.node.get(WEBHOOK_PATH, key=None)).status == 405
    assert (await shop.balance(), (await shop.purchases())[0]["status"]) == (0, "open")
    rotating = f"{signature(body)},v1={'0' * 64}"
    assert (await shop.send_event(body, rotating)).status == 200, "two secrets are valid during a rotation"
    assert await shop.balance() == 1_000


async def test_unreadable_events_are_rejected_and_unrelated_ones_ignored(shop: Shop) -> None:
    purchase = await shop.begin()
    for body in (b"{}", b"[]", b"nonsense", event("charge.refunded", {"payment_intent": "pi_1"})):
        answer = await shop.send_event(body)
        assert (answer.status, answer.json["error"]["details"]["param"]) == (400, "body")
    for body in (
        event("customer.created", {"object": "customer"}),
        event("checkout.session.completed", session(purchase, status="unpaid")),
        event("checkout.session.completed", {**session(purchase), "client_reference_id": None}),
        event("checkout.session.completed", session("pur_of_nobody", "pi_9")),
        event("charge.dispute.created", dispute("warning_needs_response")),
        event("charge.refunded", charge("pi_of_nobody")),
    ):
        assert (await shop.send_event(body)).status == 200
    assert await shop.balance() == 0
    outcomes = [line["outcome"] for line in shop.node.log_events("payment_event")]
    assert outcomes == ["unknown_purchase", "unknown_purchase"]


@pytest.mark.parametrize("seed", range(4))
async def test_events_in_any_order_have_the_same_effect(shop: Shop, seed: int) -> None:
    """Goal: each purchase and refund counts once. Method: events of three purchases, shuffled by 8 senders."""
    purchases = [await shop.begin() for _ in range(3)]
    bodies = [
        event("checkout.session.completed", session(purchases[0], "pi_a")),
        event("checkout.session.async_payment_succeeded", session(purchases[0], "pi_a")),
        event("charge.refunded", charge("pi_b", 450)),
        event("charge.refunded", charge("pi_b", 900)),
        event("checkout.session.completed", session(purchases[1], "pi_b")),
        event("charge.dispute.closed", dispute("won", "pi_c")),
        event("charge.dispute.created", dispute("needs_response", "pi_c")),
        event("checkout.session.completed", session(purchases[2], "pi_c")),
        event("checkout.session.expired", session(purchases[2], "pi_c", "unpaid")),
    ]
    # An expired session was never paid, and Stripe sends its event last.
    *bodies, expired = bodies
    sent = bodies * 3
    Random(seed).shuffle(sent)
    left = iter(sent)

    async def send_some() -> None:
        for body in left:
            assert (await shop.send_event(body)).status == 200

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(send_some)
    await shop.send_event(expired)
    found = {one["id"]: one["status"] for one in await shop.purchases()}
    assert found == dict(zip(purchases, ("paid", "reversed", "paid"), strict=True))
    # A reversal may take credits of another purchase if its own were spent; nothing is spent here.
    assert await shop.balance() == 2_000


async def test_refund_and_dispute_take_back_credits_and_mark_account(shop: Shop) -> None:
    await shop.send_event(event("checkout.session.completed", session(await shop.begin())))
    assert (await shop.node.get("/v1/github/profile?handle=octocat")).status == 200
    spent = 1_000 - await shop.balance()
    await shop.send_event(event("charge.refunded", charge(refunded=450)))
    assert await shop.balance() == 500 - spent
    await shop.send_event(event("charge.dispute.created", dispute("needs_response", cents=450)))
    assert await shop.balance() == 0
    (one,) = await shop.purchases()
    assert (one["credits_reversed"], one["credits_taken_back"]) == (1_000, 1_000 - spent)
    assert (await shop.node.operate("account.show", account=shop.node.account))["mark"] == "dispute"
    facts = (await shop.node.get("/v1/events?types=billing.pack_reversed")).json["data"]["items"]
    assert [each["data"]["reason"] for each in facts] == ["refund", "dispute"]
    assert facts[-1]["data"] == {
        "purchase_id": one["id"],
        "status": "reversed",
        "reason": "dispute",
        "source": "stripe",
        "plan": "starter",
        "credits": 1_000,
        "credits_reversed": 1_000,
        "credits_taken_back": 1_000 - spent,
        "balance": 0,
    }
    assert (await shop.node.get("/v1/github/profile?handle=torvalds")).status == 402


async def test_event_that_cannot_be_stored_is_rejected_and_counts_when_repeated(shop: Shop) -> None:
    body = event("checkout.session.completed", session(await shop.begin()))
    for table in ("payment_events", "journal", "events"):
        async with shop.node.store_refusing(table=table):
            assert (await shop.send_event(body)).status in (500, 503)
        assert await shop.balance() == 0
    assert (await shop.send_event(body)).status == 200
    assert await shop.balance() == 1_000


async def test_failed_purchase_says_why_and_leaves_nothing(shop: Shop) -> None:
    shop.stripe.refusing = 500
    answer = await shop.buy()
    assert (answer.status, answer.json["error"]["type"]) == (503, "SERVICE_UNAVAILABLE")
    assert int(answer.headers["retry-after"]) > 0
    assert await shop.purchases() == []
    shop.stripe.refusing = None
    for fields, param in (
        ({"pack": "startr"}, "pack"),
        ({"pack": "welcome"}, "pack"),
        ({"pack": "starter", "success_url": "http://example.com"}, "success_url"),
        ({"pack": "starter", "cancel_url": "javascript:alert(1)"}, "cancel_url"),
        ({"pack": "starter", "currency": "usd"}, "currency"),
    ):
        answer = await shop.buy(**fields)
        assert (answer.status, answer.json["error"]["details"]["param"]) == (400, param), fields
    assert (await shop.buy("startr")).json["error"]["details"]["did_you_mean"] == "starter"
    assert (shop.stripe.sessions, await shop.purchases()) == ([], [])


@pytest.mark.critical
async def test_concurrent_purchases_with_one_idempotency_key_are_made_once(shop_on_each_engine: Shop) -> None:
    """Previously, all eight created a purchase and a Stripe page, and seven of them could never be paid."""
    headers = {"idempotency-key": "order-1"}
    shop = shop_on_each_engine
    shop.stripe.slow_s = 0.5
    answers: list[Answered] = []

    async def buy() -> None:
        answers.append(await shop.buy(headers=headers))

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(buy)
    won = [answer for answer in answers if answer.status == 201]
    lost = [answer.json["error"]["type"] for answer in answers if answer.status != 201]
    assert (len(won), lost) == (1, ["IDEMPOTENCY_IN_PROGRESS"] * 7)
    repeated = await shop.buy(headers=headers)
    assert (repeated.status, repeated.json["idempotent_replay"]) == (201, True)
    bought = won[0].json["data"]["purchase_id"]
    assert repeated.json["data"]["purchase_id"] == bought
    assert [one["id"] for one in await shop.purchases()] == shop.stripe.keys == [bought]
    other = await shop.buy(headers={"idempotency-key": "order-2"})
    assert other.json["data"]["purchase_id"] != bought


@pytest.mark.critical
async def test_purchase_rejected_by_stripe_frees_its_idempotency_key(shop_on_each_engine: Shop) -> None:
    headers = {"idempotency-key": "order-1"}
    shop = shop_on_each_engine
    shop.stripe.refusing = 500
    assert (await shop.buy(headers=headers)).status == 503
    assert await shop.purchases() == []
    shop.stripe.refusing = None
    assert (await shop.buy(headers=headers)).status == 201
    assert len(await shop.purchases()) == len(shop.stripe.sessions) == 1


@pytest.mark.critical
async def test_purchase_of_crashed_node_is_resumed(shop_on_each_engine: Shop) -> None:
    """Goal: one purchase and one page. Method: delete the claim, as if it had lapsed."""
    headers = {"idempotency-key": "order-1"}
    shop = shop_on_each_engine
    first = await shop.buy(headers=headers)
    await shop.node.node.stores.store.write(lambda tx: tx.run("DELETE FROM claims", ()))
    second = await shop.buy(headers=headers)
    assert "idempotent_replay" not in second.json
    assert second.json["data"] == first.json["data"]
    assert len(set(shop.stripe.keys)) == len(shop.stripe.sessions) == len(await shop.purchases()) == 1
    await shop.send_event(event("checkout.session.completed", session(first.json["data"]["purchase_id"])))
    await shop.node.node.stores.store.write(lambda tx: tx.run("DELETE FROM claims", ()))
    third = await shop.buy(headers=headers)
    assert third.json["data"]["purchase_id"] != first.json["data"]["purchase_id"], "the first page was paid"


@pytest.mark.critical
@pytest.mark.parametrize(("cents", "currency"), [(1, "usd"), (0, "usd"), (901, "usd"), (900, "eur"), (900, None)])
async def test_payment_differing_from_its_pack_is_flagged_and_not_credited(
    shop_on_each_engine: Shop, cents: int, currency: Any
) -> None:
    shop = shop_on_each_engine
    purchase = await shop.begin()
    paid = event("checkout.session.completed", session(purchase, "pi_7", cents=cents, currency=currency))
    for _ in range(2):
        assert (await shop.send_event(paid)).status == 200, "Stripe must not repeat the event forever"
    assert await shop.balance() == 0
    assert [one["status"] for one in await shop.purchases()] == ["open"]
    flagged, repeated = shop.node.log_events("payment_event")
    assert (flagged["level"], flagged["outcome"], repeated["outcome"]) == ("error", "mismatch", "repeated")
    problem = f"{purchase}: paid {cents} {currency or 'none'}, expected 900 usd; payment pi_7"
    assert flagged["problem"] == problem
    assert (await shop.node.operate("account.show", account=shop.node.account))["mismatch"] == problem
    assert await shop.node.gauge('sluice_payment_events_total{outcome="mismatch"}') == 1
    removed = await shop.node.operate("account.unmark", account=shop.node.account, operation_id="unmark-0001")
    assert removed == {"account": shop.node.account, "removed": None, "mismatch": problem}
    assert (await shop.node.operate("account.show", account=shop.node.account))["mismatch"] is None
    right = event("checkout.session.async_payment_succeeded", session(purchase, "pi_8", currency="USD"))
    await shop.send_event(right)
    assert await shop.balance() == 1_000


@pytest.mark.parametrize("missing", ["STRIPE_KEY", "STRIPE_WEBHOOK"])
async def test_without_both_secrets_no_pack_is_sold_and_no_event_accepted(tmp_path: Path, missing: str) -> None:
    async with open_shop(tmp_path, **{missing: ""}) as shop:
        assert (await shop.node.get("/v1/packs")).json["data"]["checkout"] is False
        answer = await shop.buy()
        assert (answer.status, answer.json["error"]["details"]["reason"]) == (400, "capability_missing")
        assert (await shop.send_event(event("customer.created", {}))).status == 404


async def test_purchases_are_paginated_and_private_to_their_account(shop: Shop) -> None:
    made = [await shop.begin() for _ in range(5)]
    seen: list[str] = []
    target = "/v1/purchases?limit=2"
    for _ in itertools.repeat(None, 3):
        answer = (await shop.node.get(target)).json
        seen += [one["id"] for one in answer["data"]["items"]]
        target = f"/v1/purchases?limit=2&cursor={answer['pagination']['next_cursor']}"
    assert seen == made[::-1]
    stranger, _ = await shop.node.new_key(await shop.node.new_account())
    assert (await shop.node.get("/v1/purchases", key=stranger)).json["data"]["items"] == []


async def test_operator_grants_packs_once_and_lists_purchases(shop: Shop) -> None:
    for _ in range(2):
        granted = await shop.node.operate(
            "pack.grant", account=shop.node.account, pack="welcome", operation_id="grant-0001"
        )
        assert granted == {"account": shop.node.account, "balance": 50, "pack": "welcome"}
    (one,) = await shop.node.operate("pack.purchases", account=shop.node.account)
    assert (one["pack"], one["status"], one["source"]) == ("welcome", "paid", "operator")
    assert [pack["name"] for pack in await shop.node.operate("pack.list")] == ["starter", "welcome"]
