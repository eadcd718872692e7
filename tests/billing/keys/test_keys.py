"""API keys: found in memory, limited, and revoked immediately."""

import re
from contextlib import closing, suppress
from functools import partial

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from billing.errors import AccountUnknown, KeyUnknown, KeyUnusable, SealBroken, TermsInvalid, TooManyKeys
from billing.keys.cache import ENTRIES_MAX, Key, KeyCache
from billing.keys.keys import Keys
from billing.keys.sealing import Cipher
from billing.keys.text import KeyText, digest
from billing.migrations import MIGRATIONS
from tests.billing.desk import Desk
from tests.fakes.inline_store import open_inline
from tests.fakes.slow_reads import SlowReads


async def reason(desk: Desk, presented: str) -> str:
    with pytest.raises(KeyUnusable) as caught:
        await desk.keys.find(presented)
    return caught.value.reason


async def test_key_has_the_specified_form_and_is_found(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    new = await desk.keys.create(account.id, name="laptop")
    assert re.fullmatch(r"sl_[A-Za-z0-9_-]{43}", new.key)
    assert new.last4 == new.key[-4:]
    found = await desk.keys.find(new.key)
    assert found == Key(new.id, account.id, "laptop", None)
    assert desk.keys.find_nowait(new.key) == found


async def test_only_a_digest_and_a_sealed_copy_are_stored(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    new = await desk.keys.create(account.id)
    rows = await desk.store.read(lambda tx: tx.all("SELECT * FROM keys"))
    assert new.key not in repr(rows)
    assert await desk.keys.reveal(new.id) == new.key


MALFORMED = ("", "sl_", "x", *(f"sl_{'a' * 42}{end}" for end in ("", "aa", "é", "\n")), "sk_" + "a" * 43)


def test_malformed_key_is_refused_without_reading_the_store() -> None:
    with closing(open_inline([MIGRATIONS])) as store:
        for presented in MALFORMED:
            with pytest.raises(KeyUnusable) as caught:
                Desk(store).keys.find_nowait(presented)
            assert caught.value.reason == "malformed", presented


@given(st.text(max_size=60))
def test_any_text_is_recognized_as_a_key_or_refused(presented: str) -> None:
    assert len(digest(presented)) == 64
    with suppress(KeyUnusable):
        KeyText("sl_").check(presented)


async def test_unknown_key_is_cached(desk: Desk) -> None:
    unknown = "sl_" + "a" * 43
    assert desk.keys.find_nowait(unknown) is None
    assert await reason(desk, unknown) == "unknown"
    with pytest.raises(KeyUnusable):
        desk.keys.find_nowait(unknown)


async def test_revocation_takes_effect_on_the_next_lookup(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    new = await desk.keys.create(account.id)
    await desk.keys.find(new.key)
    record = await desk.keys.revoke(new.id)
    assert record.revoked_at == desk.time
    assert desk.keys.find_nowait(new.key) is None
    assert await reason(desk, new.key) == "revoked"
    assert await reason(desk, new.key) == "revoked"
    desk.time += 5
    assert (await desk.keys.revoke(new.id)).revoked_at == desk.time - 5


async def test_lookup_during_revocation_leaves_no_stale_key(desk: Desk) -> None:
    """Goal: no key stays usable from memory. Method: the key is revoked after a lookup has read its row."""
    account = await desk.accounts.create("Ada")
    new = await desk.keys.create(account.id)
    slow = SlowReads(desk.store)
    keys = Keys(slow, Cipher(b"k" * 32), now=desk.now, make_id=desk.make_id)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keys.find, new.key)
        await slow.has_read.wait()
        await keys.revoke(new.id)
        slow.go.set()
    assert keys.find_nowait(new.key) is None


async def test_forgotten_keys_are_read_from_the_store_again(desk: Desk) -> None:
    """Method: another node revokes the key, and its message never arrives."""
    account = await desk.accounts.create("Ada")
    new = await desk.keys.create(account.id)
    await desk.keys.find(new.key)
    await Keys(desk.store, Cipher(b"k" * 32), now=desk.now, make_id=desk.make_id).revoke(new.id)
    assert desk.keys.find_nowait(new.key) is not None
    desk.keys.forget_all()
    assert await reason(desk, new.key) == "revoked"


async def test_expiry_is_checked_at_every_lookup(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    new = await desk.keys.create(account.id, expires_at=desk.time + 60)
    await desk.keys.find(new.key)
    desk.time += 60
    with pytest.raises(KeyUnusable) as caught:
        desk.keys.find_nowait(new.key)
    assert caught.value.reason == "expired"
    assert await reason(desk, new.key) == "expired"


async def test_account_has_at_most_five_active_keys(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    made: list[str] = []
    refused: list[int] = []

    async def create() -> None:
        await trio.lowlevel.checkpoint()
        try:
            made.append((await desk.keys.create(account.id, expires_at=desk.time + 60)).id)
        except TooManyKeys as exc:
            refused.append(exc.limit)

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(create)
    assert (len(made), refused) == (5, [5] * 3)
    await desk.keys.revoke(made[0])
    await desk.keys.create(account.id)
    desk.time += 60  # the other four have expired
    for _ in range(4):
        await desk.keys.create(account.id)


async def test_key_limit_can_be_set_changed_and_removed_and_its_counter_reset(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    new = await desk.keys.create(account.id, credit_limit=10)
    await desk.charges.take(desk.request(account.id, new.id, credits=4))
    assert (await desk.keys.get(new.id)).used == 4
    assert (await desk.keys.update(new.id, credit_limit=20)).credit_limit == 20
    record = await desk.keys.update(new.id, reset_usage=True)
    assert (record.credit_limit, record.used) == (20, 0)
    assert (await desk.keys.update(new.id, credit_limit=None)).credit_limit is None
    for limit in (-1, 2**63):
        with pytest.raises(TermsInvalid):
            await desk.keys.update(new.id, credit_limit=limit)
        with pytest.raises(TermsInvalid):
            await desk.keys.create(account.id, credit_limit=limit)


async def test_keys_are_listed_by_account_or_all(desk: Desk) -> None:
    ada, bob = await desk.accounts.create("Ada"), await desk.accounts.create("Bob")
    ids = [(await desk.keys.create(account.id)).id for account in (ada, bob, ada)]
    await desk.keys.revoke(ids[0])
    assert [key.id for key in await desk.keys.list()] == ids
    assert [key.id for key in await desk.keys.list(ada.id)] == [ids[0], ids[2]]
    assert [key.id for key in await desk.keys.list(limit=1)] == ids[:1]


async def test_unknown_account_and_key_ids_are_refused(desk: Desk) -> None:
    with pytest.raises(AccountUnknown):
        await desk.keys.create("acc_none")
    for call in (desk.keys.revoke, desk.keys.update, desk.keys.reveal, desk.keys.get):
        with pytest.raises(KeyUnknown):
            await partial(call, "key_none")()


async def test_another_master_secret_cannot_open_a_sealed_key(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    new = await desk.keys.create(account.id)
    other = Keys(desk.store, Cipher(b"x" * 32), now=desk.now, make_id=desk.make_id)
    with pytest.raises(SealBroken):
        await other.reveal(new.id)


@given(st.text(), st.text())
def test_sealed_text_opens_only_with_its_binding(text: str, place: str) -> None:
    cipher = Cipher(b"k" * 32)
    sealed = cipher.seal(text, bound_to=place)
    assert cipher.unseal(sealed, bound_to=place) == text
    assert cipher.seal(text, bound_to=place) != sealed
    for broken, where in ((sealed, place + "x"), ("", place), ("AAAA", place), (sealed[:-4], place), ("§", place)):
        with pytest.raises(SealBroken):
            cipher.unseal(broken, bound_to=where)


def test_guessing_keys_does_not_grow_memory_or_evict_real_ones() -> None:
    cache = KeyCache()
    real, lookup = Key("key_1", "acc_1", "", None), cache.begin_lookup()
    cache.keep("real", real, lookup)
    for number in range(ENTRIES_MAX + 10):
        cache.keep(str(number), "unknown", lookup)
    assert cache.active("real") == real
    assert cache.refused("0") is None
    assert cache.refused(str(ENTRIES_MAX)) == "unknown"
    assert len(cache._refused) == ENTRIES_MAX
