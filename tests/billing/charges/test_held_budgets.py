"""Refusals on each real engine distinguish held credits from spent credits (decisions 28)."""

from __future__ import annotations

import pytest
import trio

from billing.charges.batch_rows import Charge
from billing.errors import InsufficientCredits, KeyBudgetReached
from tests.billing.desk import Desk

pytestmark = pytest.mark.critical


async def take(desk: Desk, account: str, key: str, credits_: int = 1) -> Charge:
    return await desk.charges.take(desk.request(account, key, credits=credits_))


async def test_is_held_includes_reserved_but_not_spent_budget(desk: Desk) -> None:
    account = (await desk.accounts.create("Ada")).id
    key, other = await desk.keys.create(account, credit_limit=5), await desk.keys.create(account)
    held, others = await take(desk, account, key.id, 4), await take(desk, account, other.id, 50)
    for wanted, is_held in ((2, True), (5, True), (6, False)):
        with pytest.raises(KeyBudgetReached) as refused:
            await take(desk, account, key.id, wanted)
        assert refused.value.is_held is is_held, wanted
    desk.charges.settle_nowait(held)
    with pytest.raises(KeyBudgetReached) as refused:
        await take(desk, account, key.id, 2)
    assert not refused.value.is_held, "another key's charge does not hold credits of this budget"
    await desk.charges.close(await take(desk, account, key.id), used=1)
    await desk.charges.close(others, used=0)


async def test_reset_counter_excludes_earlier_held_charges(desk: Desk) -> None:
    account = (await desk.accounts.create("Ada")).id
    key = await desk.keys.create(account, credit_limit=2)
    before = await take(desk, account, key.id, 2)
    await desk.keys.update(key.id, reset_usage=True)
    desk.charges.settle_nowait(await take(desk, account, key.id, 1))
    with pytest.raises(KeyBudgetReached) as refused:
        await take(desk, account, key.id, 2)
    assert not refused.value.is_held
    await desk.charges.close(before, used=0)


async def test_is_held_includes_reserved_balance(desk: Desk) -> None:
    account = (await desk.accounts.create("Ada", credits=3)).id
    key = await desk.keys.create(account)
    held = await take(desk, account, key.id, 2)
    for wanted, is_held in ((2, True), (3, True), (4, False)):
        with pytest.raises(InsufficientCredits) as refused:
            await take(desk, account, key.id, wanted)
        assert refused.value.is_held is is_held, wanted
    await desk.charges.close(held, used=2)
    with pytest.raises(InsufficientCredits) as refused:
        await take(desk, account, key.id, 2)
    assert not refused.value.is_held


async def test_twenty_concurrent_calls_stay_within_the_budget(desk: Desk) -> None:
    account = (await desk.accounts.create("Ada")).id
    key = await desk.keys.create(account, credit_limit=5)
    won: list[Charge] = []
    held: list[bool] = []

    async def one(number: int) -> None:
        request = desk.request(account, key.id, credits=5)
        request.credits_least = 1
        await trio.sleep(0.001 * (number % 4))
        try:
            won.append(await desk.charges.take(request))
        except KeyBudgetReached as exc:
            held.append(exc.is_held)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number)
    assert sum(charge.credits for charge in won) <= 5
    assert len(won) >= 2
    assert all(held), "no credits are spent yet"
    for charge in won:
        await desk.charges.close(charge, used=1)
