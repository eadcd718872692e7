"""The billing page: packs for sale, how to pay, and purchases."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.dashboard.templating import price
from tests.fakes.node import OpenNode
from tests.fakes.stripe_stand_in import event, session
from tests.gateway.dashboard.owner import Owner, open_owner
from tests.gateway.payments.test_checkout import PACKS, open_shop

NODE = {"packs": PACKS}


async def test_owner_buys_a_pack_and_sees_the_outcome(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop, open_owner(shop.node) as owner:
        await owner.get("/billing")
        assert "No purchases yet" in owner.words
        assert "1,000 credits, and the starter plan unless you have a larger one" in owner.words
        assert "9.00 USD" in owner.words
        await owner.send("/billing/buy", pack="starter")
        assert 'href="https://checkout.stripe.com/c/pay/cs_test_' in owner.page.text
        assert owner.page.headers["content-security-policy"].count("form-action 'self'") == 1
        (form,) = shop.stripe.sessions
        assert form["success_url"] == f"{shop.node.url}/dashboard/billing?paid=1"
        await owner.get("/billing?paid=1")
        assert "The credits are added when the payment is confirmed" in owner.words
        assert "starter open" in owner.words
        await shop.send_event(event("checkout.session.completed", session(form["client_reference_id"])))
        await owner.get("/billing")
        assert "You have 1,000 credits on the starter plan" in owner.words
        assert "starter paid" in owner.words


async def test_rejected_purchase_buys_nothing(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop, open_owner(shop.node) as owner:
        for pack, status in (("welcome", 400), ("nothing", 404), ("", 404)):
            await owner.get("/billing")
            assert (await owner.send("/billing/buy", pack=pack)).status_code == status
        await owner.get("/billing")
        shop.stripe.refusing = 500
        assert (await owner.send("/billing/buy", pack="starter")).status_code == 503
        assert "nothing was bought" in owner.words
        await owner.get("/billing")
        assert (await owner.send("/billing/buy", token="0" * 64, pack="starter")).status_code == 403
        assert (shop.stripe.sessions, await shop.purchases()) == ([], [])


async def test_page_without_card_payments_offers_no_purchase(node: OpenNode, owner: Owner) -> None:
    await owner.get("/billing")
    assert "This service does not take card payments" in owner.words
    assert "Buy" not in owner.words.split()
    await node.operate("pack.grant", account=node.account, pack="starter")
    await owner.get("/billing")
    assert "granted by the operator" in owner.words


async def test_purchases_are_paginated_and_private(node: OpenNode, owner: Owner) -> None:
    for _ in range(26):
        await node.operate("pack.grant", account=node.account, pack="welcome")
    page = await owner.get("/billing")
    assert page.text.count('<code class="id">pur_') == 25
    older = page.text.partition('href="/dashboard/billing?before=')[2].partition('"')[0]
    assert (await owner.get(f"/billing?before={older}")).text.count('<code class="id">pur_') == 1
    assert (await owner.get("/billing?before=nonsense")).status_code == 200
    stranger = await node.new_account()
    async with open_owner(node, stranger) as other:
        assert "pur_" not in (await other.get("/billing")).text


@pytest.mark.parametrize(
    ("amount", "currency", "words"),
    [(900, "usd", "9.00 USD"), (123_456, "eur", "1,234.56 EUR"), (900, "jpy", "900 JPY")],
)
def test_price_uses_the_currency_unit(amount: int, currency: str, words: str) -> None:
    assert price(amount, currency) == words
