"""Charges on each real engine: which are refused, how they end, and that they end once."""

import logging
import math
import random
from functools import partial
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from billing.charges.batch_rows import Charge, ChargeRequest, Closed
from billing.charges.charges import Charges
from billing.errors import (
    AccountUnknown,
    ChargeExists,
    ChargeUnknown,
    InsufficientCredits,
    KeyBudgetReached,
    KeyUnusable,
)
from billing.migrations import MIGRATIONS
from storage.errors import HandlerFailed, StoreUnavailable
from storage.store import Tx
from tests.billing.desk import Desk, open_desk
from tests.fakes.entries import read_entries
from tests.fakes.inline_store import open_inline
from tests.fakes.slow_reads import SlowReads


async def report(desk: Desk, account_id: str) -> tuple[int, int]:
    account = await desk.accounts.get(account_id)
    return account.balance, account.held


async def used(desk: Desk, key_id: str) -> int:
    return (await desk.keys.get(key_id)).used


async def kinds(desk: Desk, request_id: str) -> list[tuple[str, int]]:
    entries = await desk.store.read(lambda tx: read_entries(tx.all))
    return [(entry.kind, entry.amount) for entry in entries if entry.request_id == request_id]


async def test_charge_reserves_credits_until_settled(desk: Desk) -> None:
    account, key = await desk.customer()
    charge = await desk.charges.take(desk.request(account.id, key.id, credits=5))
    assert charge.balance_after == 95
    assert await report(desk, account.id) == (95, 5)
    assert await desk.charges.close(charge, used=5) == Closed(5, 95)
    assert await report(desk, account.id) == (95, 0)
    assert await used(desk, key.id) == 5
    assert await kinds(desk, charge.request_id) == [("deduction", 5), ("settlement", 5)]


async def test_full_refund_restores_balance_and_counter(desk: Desk) -> None:
    account, key = await desk.customer(credit_limit=5)
    charge = await desk.charges.take(desk.request(account.id, key.id, credits=5))
    assert await desk.charges.close(charge, used=0, description="Upstream failed") == Closed(0, 100)
    assert await report(desk, account.id) == (100, 0)
    assert await used(desk, key.id) == 0
    assert await kinds(desk, charge.request_id) == [("deduction", 5), ("refund", 5)]


async def test_metered_charge_refunds_the_rest(desk: Desk) -> None:
    account, key = await desk.customer()
    charge = await desk.charges.take(desk.request(account.id, key.id, credits=50))
    assert await desk.charges.close(charge, used=20) == Closed(20, 80)
    assert await used(desk, key.id) == 20
    assert await kinds(desk, charge.request_id) == [("deduction", 50), ("settlement", 20), ("refund", 30)]


async def test_second_closing_returns_the_first_outcome(desk: Desk) -> None:
    for first, second in ((0, 5), (5, 0), (2, 4), (5, 5), (0, 0)):
        account = await desk.accounts.create("Ada")
        charge = await desk.charges.take(desk.request(account.id, credits=5))
        outcome = await desk.charges.close(charge, used=first)
        await desk.charges.take(desk.request(account.id, credits=7))
        assert await desk.charges.close(charge, used=second) == outcome, (first, second)


async def test_repeated_closing_does_not_affect_others_in_its_commit(desk: Desk) -> None:
    account, key = await desk.customer()
    before, whole, partly = [await desk.charges.take(desk.request(account.id, key.id, credits=5)) for _ in range(3)]
    assert await desk.charges.close(before, used=0) == Closed(0, 90)
    commits = desk.store.statistics().commits
    desk.charges.settle_nowait(before)
    desk.charges.settle_nowait(whole)
    assert await desk.charges.close(partly, used=2) == Closed(2, 93)
    assert desk.store.statistics().commits == commits + 1
    assert await kinds(desk, before.request_id) == [("deduction", 5), ("refund", 5)]
    assert await kinds(desk, whole.request_id) == [("deduction", 5), ("settlement", 5)]
    assert await kinds(desk, partly.request_id) == [("deduction", 5), ("settlement", 2), ("refund", 3)]
    assert (await report(desk, account.id), await used(desk, key.id)) == ((93, 0), 7)
    assert await desk.store.read(lambda tx: tx.all("SELECT COUNT(*) FROM charges")) == [(0,)]


async def test_concurrent_closings_return_the_same_outcome(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    charge = await desk.charges.take(desk.request(account.id, credits=5))
    outcomes: list[Closed] = []

    async def close(used: int) -> None:
        outcomes.append(await desk.charges.close(charge, used=used))

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(close, number)
    assert len(set(outcomes)) == 1


async def test_last_credit_goes_to_one_of_a_thousand_calls(desk: Desk) -> None:
    account, key = await desk.customer(credits=1)
    won: list[Charge] = []
    refused: list[InsufficientCredits] = []

    async def take() -> None:
        await trio.lowlevel.checkpoint()
        try:
            won.append(await desk.charges.take(desk.request(account.id, key.id)))
        except InsufficientCredits as exc:
            refused.append(exc)

    async with trio.open_nursery() as nursery:
        for _ in range(1000):
            nursery.start_soon(take)
    assert (len(won), len(refused)) == (1, 999)
    assert {(one.required, one.balance) for one in refused} == {(1, 0)}
    assert await used(desk, key.id) == 1


async def test_concurrent_calls_do_not_exceed_the_key_budget(desk: Desk) -> None:
    account, key = await desk.customer(credit_limit=7)
    refused: list[KeyBudgetReached] = []

    async def take() -> None:
        await trio.lowlevel.checkpoint()
        try:
            desk.charges.settle_nowait(await desk.charges.take(desk.request(account.id, key.id, credits=2)))
        except KeyBudgetReached as exc:
            refused.append(exc)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(take)
    assert len(refused) == 47
    assert (refused[0].required, refused[0].limit, refused[0].used) == (2, 7, 6)
    assert (await desk.accounts.get(account.id)).balance == 94


async def test_key_is_checked_before_balance_and_balance_before_budget(desk: Desk) -> None:
    account, key = await desk.customer(credits=1, credit_limit=0)
    with pytest.raises(InsufficientCredits):
        await desk.charges.take(desk.request(account.id, key.id, credits=2))
    with pytest.raises(KeyBudgetReached):
        await desk.charges.take(desk.request(account.id, key.id, credits=1))
    await desk.keys.revoke(key.id)
    with pytest.raises(KeyUnusable):
        await desk.charges.take(desk.request(account.id, key.id, credits=2))


async def test_key_revoked_or_expired_meanwhile_is_not_charged(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    short = await desk.keys.create(account.id, expires_at=desk.time + 10)
    revoked = await desk.keys.create(account.id)
    await desk.charges.take(desk.request(account.id, short.id))
    desk.time += 10
    await desk.keys.revoke(revoked.id)
    for key_id, reason in ((short.id, "expired"), (revoked.id, "revoked"), ("key_none", "unknown")):
        with pytest.raises(KeyUnusable) as caught:
            await desk.charges.take(desk.request(account.id, key_id))
        assert caught.value.reason == reason
    assert await report(desk, account.id) == (99, 1)


async def test_key_spends_only_credits_of_its_account(desk: Desk) -> None:
    ada, bob = await desk.accounts.create("Ada"), await desk.accounts.create("Bob")
    key = await desk.keys.create(ada.id)
    with pytest.raises(KeyUnusable):
        await desk.charges.take(desk.request(bob.id, key.id))


async def test_unknown_account_is_refused_without_affecting_others(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    refused: list[AccountUnknown] = []

    async def take(account_id: str) -> None:
        await trio.lowlevel.checkpoint()
        try:
            await desk.charges.take(desk.request(account_id))
        except AccountUnknown as exc:
            refused.append(exc)

    async with trio.open_nursery() as nursery:
        for account_id in (account.id, "acc_none", account.id):
            nursery.start_soon(take, account_id)
    assert [one.account_id for one in refused] == ["acc_none"]
    assert await report(desk, account.id) == (98, 2)


async def test_request_is_charged_only_once(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    request = desk.request(account.id)
    charge = await desk.charges.take(request)
    with pytest.raises(ChargeExists):
        await desk.charges.take(request)
    await desk.charges.close(charge, used=1)
    with pytest.raises(ChargeExists):
        await desk.charges.take(request)
    assert await report(desk, account.id) == (99, 0)


async def test_unknown_charge_cannot_be_closed(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    charge = await desk.charges.take(desk.request(account.id, credits=5))
    never = replace(charge, request_id="req_none", row=(b"req_none", *charge.row[1:]))
    for credits_used in (0, 5):
        with pytest.raises(ChargeUnknown):
            await desk.charges.close(never, used=credits_used)
    assert await report(desk, account.id) == (95, 5)


async def test_free_call_is_recorded_but_not_counted(desk: Desk) -> None:
    account, key = await desk.customer(credits=0, credit_limit=0)
    for close in (partial(desk.charges.close, used=0), partial(desk.charges.close, used=0)):
        charge = await desk.charges.take(desk.request(account.id, key.id, credits=0))
        assert await close(charge) == Closed(0, 0)
        assert await kinds(desk, charge.request_id) == [("deduction", 0), ("settlement", 0)]
        assert await desk.charges.close(charge, used=0) == Closed(0, 0)


async def test_free_call_passes_below_a_lowered_limit(desk: Desk) -> None:
    account, key = await desk.customer()
    await desk.charges.take(desk.request(account.id, key.id, credits=9))
    await desk.keys.update(key.id, credit_limit=4)
    await desk.charges.take(desk.request(account.id, key.id, credits=0))
    with pytest.raises(KeyBudgetReached) as caught:
        await desk.charges.take(desk.request(account.id, key.id, credits=1))
    assert (caught.value.limit, caught.value.used) == (4, 9)


async def test_unlimited_account_is_issued_exactly_the_missing_credits(desk: Desk) -> None:
    account = await desk.accounts.create("Ada", credits=3, unlimited=True)
    charge = await desk.charges.take(desk.request(account.id, credits=10))
    assert charge.balance_after == 0
    assert await kinds(desk, charge.request_id) == [("bonus", 7), ("deduction", 10)]
    assert await desk.charges.close(charge, used=4) == Closed(4, 6)


async def test_last_committed_balance_is_cached(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    assert desk.balances.nowait(account.id) == 100
    charge = await desk.charges.take(desk.request(account.id, credits=5))
    assert desk.balances.nowait(account.id) == 95
    await desk.accounts.grant(account.id, 1000)
    assert desk.balances.nowait(account.id) == 1095
    await desk.charges.close(charge, used=2)
    assert desk.balances.nowait(account.id) == 1098
    fresh = Desk(desk.store)
    assert fresh.balances.nowait(account.id) is None
    assert await fresh.balances.read(account.id) == 1098
    assert fresh.balances.nowait(account.id) == 1098
    with pytest.raises(AccountUnknown):
        await fresh.balances.read("acc_none")


async def test_balance_read_does_not_overwrite_a_newer_balance(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    slow = SlowReads(desk.store)
    fresh = Desk(slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fresh.balances.read, account.id)
        await slow.has_read.wait()
        await fresh.accounts.grant(account.id, 11)
        slow.go.set()
    assert fresh.balances.nowait(account.id) == 111


async def test_cached_balance_matches_the_ledger_for_any_order_of_calls(desk: Desk) -> None:
    """Method: many tasks take, settle and refund; the memory must end at the database's value."""
    account = await desk.accounts.create("Ada", credits=100_000)
    rng = random.Random(3)

    async def work() -> None:
        for _ in range(20):
            charge = await desk.charges.take(desk.request(account.id, credits=rng.randint(0, 9)))
            assert desk.balances.nowait(account.id) is not None
            if rng.random() < 0.5:
                desk.charges.settle_nowait(charge)
            else:
                await desk.charges.close(charge, used=rng.randint(0, charge.credits))

    async with trio.open_nursery() as nursery:
        for _ in range(32):
            nursery.start_soon(work)
    await desk.store.ping()
    assert desk.balances.nowait(account.id) == (await desk.accounts.get(account.id)).balance


async def test_closings_refused_by_the_store_are_finished_later() -> None:
    store = open_inline([MIGRATIONS])
    desk = Desk(store)
    account = await desk.accounts.create("Ada")
    settled, refunded = [await desk.charges.take(desk.request(account.id, credits=5)) for _ in range(2)]
    store.failing = StoreUnavailable("the disk is full")
    desk.charges.settle_nowait(settled)
    with pytest.raises(StoreUnavailable):
        await desk.charges.close(refunded, used=1)
    with pytest.raises(StoreUnavailable):
        await desk.charges.finish()
    assert desk.charges.unfinished() == 2
    store.failing = None
    assert await report(desk, account.id) == (90, 10)
    assert await desk.charges.finish() == 2
    assert await desk.charges.finish() == 0
    assert await report(desk, account.id) == (94, 0)
    await desk.assert_sound()
    store.close()


def lose(tx: Tx, charge: Charge) -> None:
    """Restore the store's state from before the charge, like a standby without the latest writes."""
    tx.run("DELETE FROM charges WHERE id = ?", (charge.row[0],))
    back = "SET balance = balance + ?, held = held - ?, place = place - 1, version = version + 1"
    tx.run(f"UPDATE accounts {back} WHERE id = ?", (charge.credits, charge.credits, charge.account_id))


@pytest.mark.critical
async def test_lost_charge_does_not_prevent_closing_others(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    account = await desk.accounts.create("Ada")
    take = partial(desk.request, account.id, credits=5)
    other, settled, refunded = [await desk.charges.take(take()) for _ in range(3)]
    for one in (settled, refunded):
        await desk.store.write(partial(lose, charge=one))
    with caplog.at_level(logging.CRITICAL + 1):
        desk.charges.settle_nowait(settled)
        with pytest.raises(ChargeUnknown):
            await desk.charges.close(refunded, used=2)
        desk.charges.finish_later(other.request_id, partial(desk.charges.close, other, used=5))
        assert await desk.charges.finish() == 1
    assert (desk.charges.unfinished(), desk.charges.lost_total) == (0, 1)
    assert await report(desk, account.id) == (95, 0)


@pytest.mark.critical
async def test_failed_closing_does_not_prevent_closing_others(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    charge = await desk.charges.take(desk.request(account.id, credits=5))

    async def fail() -> Closed:
        await trio.lowlevel.checkpoint()
        raise HandlerFailed("broken")

    desk.charges.finish_later("req_broken", fail)
    desk.charges.finish_later(charge.request_id, partial(desk.charges.close, charge, used=5))
    with pytest.raises(HandlerFailed):
        await desk.charges.finish()
    assert desk.charges.unfinished() == 1
    assert await report(desk, account.id) == (95, 0)


@pytest.mark.critical
async def test_settlements_of_a_lost_account_do_not_affect_others(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    gone, charge = [await desk.charges.take(desk.request(account.id, credits=5)) for _ in range(2)]
    gone = replace(gone, request_id="req_gone", account_id="acc_gone", row=(b"req_gone", *gone.row[1:]))
    outcomes = await desk.store.write(partial(desk.charges.judge, requests=[gone, charge]))
    assert [type(one) for one in outcomes] == [ChargeUnknown, Charge]
    assert await report(desk, account.id) == (90, 5)


@pytest.mark.sqlite
async def test_full_disk_refuses_charges_and_delays_settlements(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Method: SQLite's page limit simulates a full disk during calls."""
    async with open_desk(f"sqlite:///{tmp_path / 'billing.db'}") as desk:
        account = await desk.accounts.create("Ada", credits=1000)
        charges = [await desk.charges.take(desk.request(account.id)) for _ in range(40)]
        await desk.store.write(lambda tx: tx.run("PRAGMA max_page_count = 1"))
        filler = ChargeRequest("req_big", account.id, None, 1, "x" * 100_000, "y")
        with caplog.at_level(logging.CRITICAL + 1):
            with pytest.raises(StoreUnavailable, match="full"):
                await desk.charges.take(filler)
            for charge in charges:
                desk.charges.settle_nowait(charge)
            with pytest.raises(StoreUnavailable):
                await desk.charges.take(filler)
        assert desk.charges.unfinished() == 40
        await desk.store.write(lambda tx: tx.run("PRAGMA max_page_count = 100000"))
        await desk.charges.finish()
        assert await report(desk, account.id) == (960, 0)
        await desk.assert_sound()


async def test_cancelled_call_leaves_no_open_charge(desk: Desk) -> None:
    """Goal: conservation. Method: cancel the billed flow at random moments, then call `finish` like a node does."""
    account, key = await desk.customer(credits=1000)
    rng = random.Random(5)
    outcomes: list[int] = []

    async def billed(charges: Charges) -> None:
        charge = await charges.take(desk.request(account.id, key.id, credits=3))
        cost = 0
        try:
            await trio.sleep(rng.random() * 0.002)
            cost = 2
        finally:
            with trio.move_on_after(rng.choice([0, 0.0005, 5]), shield=True):
                await charges.close(charge, used=cost)
            outcomes.append(cost)

    async def call() -> None:
        with trio.move_on_after(rng.random() * rng.choice([0.006, 0.06])):
            await billed(desk.charges)

    for _ in range(12):
        async with trio.open_nursery() as nursery:
            for _ in range(25):
                nursery.start_soon(call)
    await desk.charges.finish()
    spent = sum(outcomes)
    assert spent > 0
    assert await report(desk, account.id) == (1000 - spent, 0)
    assert await used(desk, key.id) == spent


async def test_call_cancelled_at_any_step_is_refunded(desk: Desk) -> None:
    """Method: cancel at the first checkpoint, then at the second, and so on until the call completes."""
    account = await desk.accounts.create("Ada", credits=1000)
    for steps in range(100):
        scope = trio.CancelScope()
        with scope:
            charge = await desk.charges.take(desk.request(account.id))
            try:
                await walk(scope, steps)
            finally:
                with trio.CancelScope(shield=True):
                    await desk.charges.close(charge, used=0)
        if not scope.cancelled_caught:
            break
    assert steps == 20
    assert await report(desk, account.id) == (1000, 0)


async def walk(scope: trio.CancelScope, steps: int) -> None:
    for step in range(20):
        scope.deadline = -math.inf if step == steps else math.inf
        await trio.lowlevel.checkpoint()
