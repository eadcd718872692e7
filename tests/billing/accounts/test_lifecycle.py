"""Accounts that are suspended, resumed and deleted: work is refused, open work is closed exactly, nothing is lost."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from billing.accounts.lifecycle import Lifecycle, end_deletion, list_deleting
from billing.charges.batch_rows import Charge
from billing.errors import AccountDeleted, AccountSuspended, AccountUnknown, BillingError, KeyUnknown, KeyUnusable
from billing.keys.keys import Keys
from billing.keys.sealing import Cipher
from tests.billing.desk import Desk
from tests.fakes.slow_reads import SlowReads

ROUNDS = 8
RUNNING = 50


async def look_up(desk: Desk, key: str) -> str:
    """Return the result of a lookup, which must be the same from the store and from memory."""
    found = [await looked_up(desk, key) for _ in range(2)]
    assert found[0] == found[1]
    return found[0]


async def looked_up(desk: Desk, key: str) -> str:
    try:
        await desk.keys.find(key)
    except KeyUnusable as exc:
        return exc.reason
    return "good"


async def test_suspended_account_is_refused_until_resumed(desk: Desk) -> None:
    account = (await desk.accounts.create("Ada", credits=100)).id
    key = await desk.keys.create(account)
    for _ in range(3):
        assert await look_up(desk, key.key) == "good"
        for _ in range(2):
            assert (await desk.lifecycle.suspend(account)).state == "suspended"
        assert await look_up(desk, key.key) == "suspended"
        for key_id in (key.id, None):
            with pytest.raises(AccountSuspended):
                await desk.charges.take(desk.request(account, key_id))
        for _ in range(2):
            assert (await desk.lifecycle.resume(account)).state == "active"
        assert await look_up(desk, key.key) == "good"
        for key_id in (key.id, None):
            charge = await desk.charges.take(desk.request(account, key_id))
            await desk.charges.close(charge, used=1)
    assert desk.published.accounts == [("suspended", account), ("resumed", account)] * 3
    assert (await desk.accounts.get(account)).balance == 94


async def test_suspension_affects_only_its_account_and_keeps_revoked_keys_revoked(desk: Desk) -> None:
    ada, bob = [(await desk.accounts.create(name)).id for name in ("Ada", "Bob")]
    revoked, of_bob = await desk.keys.create(ada), await desk.keys.create(bob)
    await desk.keys.revoke(revoked.id)
    await desk.lifecycle.suspend(ada)
    made = await desk.keys.create(ada)
    assert [await look_up(desk, key.key) for key in (revoked, made, of_bob)] == ["revoked", "suspended", "good"]
    await desk.lifecycle.resume(ada)
    assert [await look_up(desk, key.key) for key in (revoked, made, of_bob)] == ["revoked", "good", "good"]


async def test_lookup_during_suspension_leaves_no_stale_key(desk: Desk) -> None:
    """Goal: no key stays usable from memory. Method: the account is suspended after a lookup has read its row."""
    account = await desk.accounts.create("Ada")
    new = await desk.keys.create(account.id)
    slow = SlowReads(desk.store)
    keys = Keys(slow, Cipher(b"k" * 32), now=desk.now, make_id=desk.make_id)
    lifecycle = Lifecycle(desk.store, keys.changes, now=desk.now)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keys.find, new.key)
        await slow.has_read.wait()
        await lifecycle.suspend(account.id)
        slow.go.set()
    assert keys.find_nowait(new.key) is None


@pytest.mark.parametrize("end", ["suspend", "delete"])
async def test_suspended_or_deleted_account_gets_no_new_charges_and_its_open_ones_can_be_closed(
    desk: Desk, end: str
) -> None:
    """Goal: no credit is lost, and no charge is taken too late. Method: charges run concurrently with the change."""
    for _ in range(ROUNDS):
        account = (await desk.accounts.create("Ada", credits=1_000)).id
        key = await desk.keys.create(account)
        charges: list[Charge] = []
        refused: list[BillingError] = []
        is_over = False

        async def begin(account: str, key_id: str | None) -> None:
            was_over = is_over  # noqa: B023 - of this round, which the nursery ends with
            try:
                charges.append(await desk.charges.take(desk.request(account, key_id)))  # noqa: B023
            except BillingError as exc:
                refused.append(exc)  # noqa: B023
            else:
                assert not was_over, "a charge that began after the change was taken"

        async with trio.open_nursery() as nursery:
            for number in range(RUNNING):
                nursery.start_soon(begin, account, key.id if number % 2 else None)
            balance = (await getattr(desk.lifecycle, end)(account)).balance
            is_over = True
            for number in range(RUNNING):
                nursery.start_soon(begin, account, key.id if number % 2 else None)
        assert len(refused) == 2 * RUNNING - len(charges) >= RUNNING
        assert balance == 1_000 - len(charges)
        for number, charge in enumerate(charges):
            await desk.charges.close(charge, used=number % 2)
        after = await desk.accounts.get(account)
        assert (after.balance, after.held) == (1_000 - len(charges) // 2, 0)


async def test_deletion_keeps_the_ledger_and_erases_names(desk: Desk) -> None:
    account = (await desk.accounts.create("Ada", credits=100)).id
    keys = [await desk.keys.create(account, name=name) for name in ("laptop", "server")]
    await desk.keys.revoke(keys[0].id)
    assert [await look_up(desk, key.key) for key in keys] == ["revoked", "good"]
    open_charge = await desk.charges.take(desk.request(account, keys[1].id, credits=10))
    for _ in range(2):
        deleted = await desk.lifecycle.delete(account)
        assert (deleted.name, deleted.state, deleted.balance) == ("", "deleting", 90)
    assert [await look_up(desk, key.key) for key in keys] == ["revoked", "unknown"]
    assert [key.id for key in desk.published.keys] == [key.id for key in keys], "each key is revoked once"
    assert await desk.keys.list(account) == await desk.keys.list() == []
    assert await desk.store.read(list_deleting) == [account]
    assert not await desk.store.write(partial(end_deletion, account_id=account)), "a charge is open"
    await desk.charges.close(open_charge, used=4)
    assert await desk.store.write(partial(end_deletion, account_id=account))
    assert await desk.store.read(list_deleting) == []
    after = await desk.lifecycle.delete(account)
    assert (after.state, after.balance) == ("deleted", 96)
    lines = (await desk.ledger.transactions(account, limit=10)).lines
    assert sum(line.amount for line in lines) == 96
    kept = await desk.store.read(lambda tx: tx.all("SELECT name, sealed, last4, hash FROM keys ORDER BY id"))
    assert kept == [("", "", "", f"erased {key.id}") for key in keys]


async def test_deleted_account_cannot_be_changed(desk: Desk) -> None:
    account = (await desk.accounts.create("Ada")).id
    key = await desk.keys.create(account)
    await desk.lifecycle.delete(account)
    for change in (
        desk.accounts.grant(account, 5),
        desk.accounts.change_plan(account, "pro"),
        desk.keys.create(account),
        desk.lifecycle.suspend(account),
        desk.lifecycle.resume(account),
        desk.charges.take(desk.request(account)),
        desk.charges.take(desk.request(account, key.id)),
    ):
        with pytest.raises(AccountDeleted):
            await change
    for change_of_key in (desk.keys.revoke(key.id), desk.keys.update(key.id, credit_limit=5), desk.keys.reveal(key.id)):
        with pytest.raises(KeyUnknown):
            await change_of_key
    for change in (desk.lifecycle.suspend("acc_none"), desk.lifecycle.delete("acc_none")):
        with pytest.raises(AccountUnknown):
            await change
    assert (await desk.accounts.list())[0].id == account
