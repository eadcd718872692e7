"""Payment events cancelled at each checkpoint, or sent many times concurrently: they take effect once."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import trio

from gateway.payments.checkout import WEBHOOK_PATH
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.stripe_stand_in import charge, dispute, event, session, signature
from tests.gateway.payments.test_checkout import Shop

SENDERS = 20


async def send_event_in_this_task(shop: Shop, body: bytes) -> int | None:
    """Return the status that the app returns for an event, as a server calls it."""
    return await post_in_this_task(shop, WEBHOOK_PATH, body, (b"stripe-signature", signature(body).encode()))


async def post_in_this_task(shop: Shop, path: str, body: bytes, *headers: tuple[bytes, bytes]) -> int | None:
    """Return the status that the app returns for a POST, or None if it was cancelled first."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"application/json"), *headers],
        "client": None,
        "server": None,
    }
    left, statuses = [body], list[int]()

    async def receive() -> Any:
        await trio.lowlevel.checkpoint()
        if not left:
            await trio.sleep_forever()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
        await trio.lowlevel.checkpoint()

    await shop.node.node.api(scope, receive, send)  # type: ignore[arg-type] # as any server's
    return statuses[0] if statuses else None


def life_of(purchase: str, payment: str) -> dict[str, tuple[bytes, int]]:
    """Return the events of one payment in order, with the credits that each adds or removes."""
    return {
        "paid": (event("checkout.session.completed", session(purchase, payment)), 1_000),
        "refunded": (event("charge.refunded", charge(payment, 450)), -500),
        "disputed": (event("charge.dispute.created", dispute("needs_response", payment, 450)), -500),
        "won": (event("charge.dispute.closed", dispute("won", payment, 450)), 500),
    }


@pytest.mark.parametrize("cancelled", ["paid", "refunded", "disputed", "won"])
async def test_cancelled_event_is_applied_fully_or_not_and_once_when_repeated(shop: Shop, cancelled: str) -> None:
    numbers = count()

    async def begin() -> tuple[bytes, int, int]:
        """Return a payment with its next event, the credits that it adds or removes, and the balance before."""
        for name, (body, change) in life_of(await shop.begin(), f"pi_{next(numbers)}").items():
            if name == cancelled:
                return body, change, await shop.balance()
            assert (await shop.send_event(body)).status == 200
        raise AssertionError(cancelled)

    async def check(got_through: bool) -> None:
        body, change, before = under_way[0]
        assert await shop.balance() in ({before + change} if got_through else {before, before + change})
        assert (await shop.send_event(body)).status == 200
        assert await shop.balance() == before + change
        under_way[0] = await begin()

    under_way = [await begin()]
    assert await cancel_everywhere(lambda: send_event_in_this_task(shop, under_way[0][0]), check) >= 3


async def test_cancelled_purchase_is_resumed_by_retry_and_paid_once(shop: Shop) -> None:
    """Goal: one page per idempotency key after any cancellation; it is paid, and no other purchase adds credits."""
    key = shop.node.key.encode()
    paid = left_open = 0

    def order() -> str:
        return f"order-{paid}"

    async def begin() -> None:
        headers = ((b"x-api-key", key), (b"idempotency-key", order().encode()))
        await post_in_this_task(shop, "/v1/purchases", b'{"pack":"starter"}', *headers)

    async def check(_got_through: bool) -> None:
        nonlocal paid, left_open
        answers = [await shop.buy(headers={"idempotency-key": order()}) for _ in range(3)]
        assert {answer.status for answer in answers} == {201}, answers
        (purchase,) = {answer.json["data"]["purchase_id"] for answer in answers}
        completed = event("checkout.session.completed", session(purchase, f"pi_{paid}"))
        assert (await shop.send_event(completed)).status == 200
        paid += 1
        assert await shop.balance() == 1_000 * paid
        # If the request was cancelled while its page was being stored, Stripe lets the page expire and reports it.
        statuses = [one["status"] for one in await shop.purchases()]
        assert statuses.count("paid") == paid
        assert statuses.count("open") == len(statuses) - paid <= left_open + 1
        left_open = len(statuses) - paid

    assert await cancel_everywhere(begin, check) >= 5
    assert left_open < paid / 2, "most cancellations come before the page exists or is stored"


async def test_event_sent_twenty_times_concurrently_counts_once(shop: Shop) -> None:
    for body, balance in (
        (event("checkout.session.completed", session(await shop.begin())), 1_000),
        (event("charge.refunded", charge(refunded=300)), 667),
        (event("charge.dispute.created", dispute("needs_response", cents=600)), 0),
        (event("charge.dispute.closed", dispute("won", cents=600)), 667),
    ):
        statuses = list[int]()

        async def send(body: bytes = body, statuses: list[int] = statuses) -> None:
            statuses.append((await shop.send_event(body)).status)

        async with trio.open_nursery() as nursery:
            for _ in range(SENDERS):
                nursery.start_soon(send)
        assert statuses == [200] * SENDERS
        assert await shop.balance() == balance
    outcomes = [line["outcome"] for line in shop.node.log_events("payment_event")]
    assert sorted(outcomes) == ["counted"] * 4 + ["repeated"] * 4 * (SENDERS - 1)
