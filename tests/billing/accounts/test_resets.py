"""A key's counter is reset while charges are open: their refunds must not change the new counter."""

from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio

from billing.charges.batch_rows import Charge, CloseRequest, Request
from billing.charges.charges import close_request
from billing.charges.recovery import recover
from billing.migrations import MIGRATIONS
from storage.errors import StoreUnavailable
from storage.migrations import MigrationSet
from storage.opening import open_store
from storage.store import Tx
from tests.billing.desk import Desk
from tests.billing.old_ledger import OldLedger
from tests.fakes.inline_calls import InlineCalls
from tests.fakes.inline_store import open_inline


async def used(desk: Desk, key_id: str) -> int:
    return (await desk.keys.get(key_id)).used


def inline(desk: Desk) -> InlineCalls:
    assert isinstance(desk.store, InlineCalls)
    return desk.store


def together(desk: Desk, requests: Sequence[Request]) -> None:
    inline(desk).together(desk.charges.judge, requests)


async def close_whole(desk: Desk, charge: Charge) -> None:
    await desk.charges.close(charge, used=0)


async def close_partly(desk: Desk, charge: Charge) -> None:
    await desk.charges.close(charge, used=3)


async def close_unremembered(desk: Desk, charge: Charge) -> None:
    await trio.lowlevel.checkpoint()
    together(desk, [CloseRequest(charge.request_id, charge.account_id, charge.key_id, 0)])


async def close_with_others(desk: Desk, charge: Charge) -> None:
    """Settle and refund, in one batch with a charge of the same key that the counter includes."""
    newer = [await desk.charges.take(desk.request(charge.account_id, charge.key_id, credits=4)) for _ in range(2)]
    closing: list[Request] = [close_request(newer[0], used=0), close_request(charge, used=1), newer[1]]
    together(desk, closing)


async def die(desk: Desk, _charge: Charge) -> None:
    """Simulate the death of the process: its open charges are refunded, including the newer one."""
    await recover(desk.store, now=desk.now)


async def lose_the_store(desk: Desk, charge: Charge) -> None:
    inline(desk).failing = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        await desk.charges.close(charge, used=0)
    inline(desk).failing = None
    assert await desk.charges.finish() == 1


ENDS = {
    close_whole: 2,
    close_partly: 2,
    close_unremembered: 2,
    close_with_others: 6,
    die: 0,
    lose_the_store: 2,
}


@pytest.mark.parametrize(("end", "left"), ENDS.items(), ids=lambda one: getattr(one, "__name__", str(one)))
async def test_refund_of_a_charge_from_before_a_reset_keeps_the_counter(
    end: Callable[[Desk, Charge], Awaitable[None]], left: int
) -> None:
    """Method: 5 credits are held when the counter is reset, 2 are taken after it, and then the first charge ends."""
    store = open_inline([MIGRATIONS])
    desk = Desk(store)
    account, key = await desk.customer()
    charge = await desk.charges.take(desk.request(account.id, key.id, credits=5))
    await desk.keys.update(key.id, reset_usage=True)
    assert await used(desk, key.id) == 0
    await desk.charges.take(desk.request(account.id, key.id, credits=2))
    await end(desk, charge)
    assert await used(desk, key.id) == left
    await desk.assert_sound()
    store.close()


async def test_refund_of_a_charge_from_after_a_reset_lowers_the_counter(desk: Desk) -> None:
    account, key = await desk.customer()
    await desk.keys.update(key.id, reset_usage=True)
    charge = await desk.charges.take(desk.request(account.id, key.id, credits=5))
    await desk.charges.close(charge, used=2)
    assert await used(desk, key.id) == 2


async def test_uncounted_charges_of_an_older_version_are_refunded_without_the_counter(
    store_url: str,
) -> None:
    """Method: a store of the previous migration, with a counter below the key's open charges."""
    before = MigrationSet(MIGRATIONS.name, MIGRATIONS.migrations[:3])
    with trio.fail_after(60):
        async with open_store(store_url, [before]) as old:
            await old.write(_leave_open)
        async with open_store(store_url, [MIGRATIONS]) as new:
            desk = Desk(new)
            assert (await recover(new, now=desk.now)).credits == 12
            assert [await used(desk, key) for key in ("key_0", "key_x")] == [2, 0]
            await desk.assert_sound()


def _leave_open(tx: Tx) -> None:
    """Two open charges of different keys: 5 credits on a key with a reset counter at 2, and 7 credits on another key.

    The counter of the other key includes its charge.
    """
    ledger = OldLedger()
    account = ledger.account(100)
    for request_id, credits in (("req_a", 5), ("req_b", 7)):  # noqa: A001
        ledger.take(account, request_id, credits)
    ledger.fill(tx)
    tx.run("UPDATE keys SET used = 2")
    columns = "account_id, name, sealed, last4, created_at"
    tx.run(f"INSERT INTO keys (id, hash, used, {columns}) SELECT 'key_x', 'x', 7, {columns} FROM keys")
    tx.run("UPDATE charges SET key_id = 'key_x' WHERE request_id = 'req_b'")
