"""Texts that accounts store for their keys, on each real engine: each text once, up to a share, newest kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio

from limits.errors import ReplayUnavailable
from limits.idempotency import (
    MIGRATIONS,
    Claim,
    ClaimRecord,
    StoredReply,
    finished,
    forget_old,
    judge,
    read_claims,
    save_claims,
)
from limits.shares import CHECKS_PER_SHARE, Shares, StoredShare, Trimmed, trim
from limits.stored_replies import KEPT_S, ROW_BYTES, TOUCH_S, forget_old_replies
from storage.errors import StoreUnavailable
from storage.opening import open_store
from storage.store import Store, Tx
from tests.fakes.inline_store import InlineStore

NOW = 1_750_000_000.0
ROOMY = StoredShare()


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    with trio.fail_after(60):
        async with open_store(store_url, [MIGRATIONS]) as opened:
            yield opened


def claim(key: str, account_id: str = "acc_1") -> Claim:
    return Claim(account_id, key, "GET a/b", "print", f"req {key}")


async def finish(store: Store, key: str, text: str, at: float = NOW, *, free: bool = False, of: str = "acc_1") -> None:
    one = claim(key, of)
    begun = judge(None, one, at)
    assert isinstance(begun, ClaimRecord)
    held = finished(begun, StoredReply(200, text, one.owner), at, free=free)
    await store.write(partial(save_claims, claims={one.id: held}))


async def ask(store: Store, key: str, at: float = NOW, of: str = "acc_1") -> str:
    """Return the response to a repeated request: the text, or the name of the refusal or of the new claim."""
    one = claim(key, of)
    found = await store.read(partial(read_claims, ids=[one.id]))
    verdict = judge(found.get(one.id), one, at)
    return str(verdict.text) if isinstance(verdict, StoredReply) else type(verdict).__name__


async def texts(store: Store) -> list[tuple[str, str]]:
    rows = await store.read(lambda tx: tx.all("SELECT account_id, body FROM replies ORDER BY account_id, body"))
    return [(account_id, body) for account_id, body in rows]


async def test_text_is_stored_once_per_account_for_any_number_of_keys(store: Store) -> None:
    for number in range(20):
        await finish(store, f"key {number}", "same")
    await finish(store, "another", "other")
    await finish(store, "another", "same", of="acc_2")
    assert await texts(store) == [("acc_1", "other"), ("acc_1", "same"), ("acc_2", "same")]
    assert {await ask(store, f"key {number}") for number in range(20)} == {"same"}
    assert (await ask(store, "another"), await ask(store, "another", of="acc_2")) == ("other", "same")


async def test_texts_of_one_commit_are_stored_once(store: Store) -> None:
    held: dict[str, ClaimRecord | None] = {
        one.id: ClaimRecord("acc_1", one.place, one.fingerprint, one.owner, NOW, StoredReply(200, "same", one.owner))
        for one in map(claim, map(str, range(130)))
    }
    await store.write(partial(save_claims, claims=held))
    assert await texts(store) == [("acc_1", "same")]
    assert await ask(store, "129") == "same"


@pytest.mark.parametrize("again_s", [0.0, TOUCH_S - 1, TOUCH_S + 1, KEPT_S / 2])
async def test_text_stays_until_its_newest_claim_expires(store: Store, again_s: float) -> None:
    await finish(store, "old", "same")
    await finish(store, "new", "same", NOW + again_s)
    ends_at = NOW + again_s + KEPT_S
    for forget in (forget_old, forget_old_replies):
        await store.write(partial(forget, now=ends_at - 1))
    assert await ask(store, "new", ends_at - 1) == "same"
    assert await store.write(partial(forget_old_replies, now=ends_at + TOUCH_S + 1)) == 1
    assert await texts(store) == []


async def test_old_replies_are_removed_in_small_steps(store: Store) -> None:
    for number in range(120):
        await finish(store, str(number), f"text {number}")
    later = NOW + KEPT_S + TOUCH_S + 1
    assert [await store.write(partial(forget_old_replies, now=later)) for _ in range(4)] == [50, 50, 20, 0]
    assert [await store.write(partial(forget_old, now=later)) for _ in range(2)] == [120, 0]


async def test_oldest_texts_beyond_the_share_are_removed_but_keys_stay_used(store: Store) -> None:
    for number in range(10):
        await finish(store, str(number), f"{number}" * 488, NOW + number)
    await finish(store, "theirs", "x" * 488, of="acc_2")
    assert await trim(store, "acc_1", StoredShare(bytes=10_000), pause_s=0) == Trimmed(0, 0)
    assert await trim(store, "acc_1", StoredShare(bytes=4_000), pause_s=0) == Trimmed(6, 0)
    told = [await ask(store, str(number)) for number in range(10)]
    assert told == [ReplayUnavailable.__name__] * 6 + [f"{number}" * 488 for number in range(6, 10)]
    assert await ask(store, "theirs", of="acc_2") == "x" * 488
    assert ROW_BYTES + 488 == 1000


async def test_text_used_again_is_not_among_the_oldest(store: Store) -> None:
    for number in range(4):
        await finish(store, str(number), f"{number}" * 488, NOW + number)
    await finish(store, "again", "0" * 488, NOW + TOUCH_S + 1)
    assert await trim(store, "acc_1", StoredShare(bytes=2_000), pause_s=0) == Trimmed(2, 0)
    assert [len(await ask(store, key)) for key in ("0", "again", "3")] == [488, 488, 488]
    assert await ask(store, "1") == ReplayUnavailable.__name__


async def test_oldest_free_keys_are_forgotten_but_paid_ones_are_not(store: Store) -> None:
    for number in range(10):
        await finish(store, str(number), "same", NOW + number, free=number % 2 == 0)
    assert await trim(store, "acc_1", StoredShare(free_keys=2), pause_s=0) == Trimmed(0, 3)
    told = [await ask(store, str(number)) for number in range(10)]
    assert told == ["ClaimRecord", "same", "ClaimRecord", "same", "ClaimRecord", *["same"] * 5]


async def test_large_excess_is_removed_completely(store: Store) -> None:
    for number in range(130):
        await finish(store, str(number), f"text {number}", NOW + number)
    assert await trim(store, "acc_1", StoredShare(bytes=1), pause_s=0) == Trimmed(130, 0)


async def test_account_is_checked_after_storing_part_of_its_share(store: Store) -> None:
    shares = Shares(StoredShare(bytes=16_000 * CHECKS_PER_SHARE, free_keys=1_000))
    for _ in range(3):
        shares.put("acc_1", StoredReply(200, "x" * 4_000, "req"))
        shares.put("acc_2", StoredReply(200, None, "req"))
    with trio.move_on_after(0.05) as waiting:
        await shares.trim_next(store)
    assert waiting.cancelled_caught
    shares.put("acc_1", StoredReply(200, "x" * 4_000, "req"))
    assert await shares.trim_next(store) == ("acc_1", Trimmed(0, 0))
    for _ in range(1_000 // CHECKS_PER_SHARE):  # keys without texts count too
        shares.put("acc_2", StoredReply(200, None, "req"))
    assert await shares.trim_next(store) == ("acc_2", Trimmed(0, 0))


async def test_counted_accounts_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("limits.shares.ACCOUNTS_MAX", 2)
    shares = Shares(StoredShare(bytes=16_000 * CHECKS_PER_SHARE, free_keys=1_000))
    for number in range(5):
        shares.put(f"acc_{number}", StoredReply(200, None, "req"))
        assert len(shares._put) <= 2
    looked_at = [(await shares.trim_next(store))[0] for _ in range(3)]
    assert looked_at == ["acc_0", "acc_1", "acc_2"], "the oldest accounts are checked early instead of being forgotten"


async def test_failed_trim_is_retried() -> None:
    store = InlineStore([MIGRATIONS])
    share = StoredShare(bytes=3_000)
    shares = Shares(share)
    for number in range(5):
        await finish(store, str(number), f"{number}" * 488, NOW + number)
        shares.put("acc_1", StoredReply(200, "x" * 488, "req"))
    store.failing = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        await shares.trim_next(store)
    store.failing = None
    assert await shares.trim_next(store) == ("acc_1", Trimmed(2, 0))
    store.close()


async def test_claims_of_the_previous_version_are_moved_with_their_texts(store_url: str) -> None:
    """Method: migrate a store of the previous migration with one row of each kind."""
    before = type(MIGRATIONS)(MIGRATIONS.name, MIGRATIONS.migrations[:3])
    rows = [
        ("running", "req_1", None, None, 0),
        ("finished", "req_2", 200, '"data":"é \\"1\\""', 0),
        ("cached", "req_3", 200, '"data":1', 1),
        ("too long", "req_4", 404, None, 0),
    ]
    columns = "id, place, fingerprint, owner, at, status, body, cached"
    insert = f"INSERT INTO claims ({columns}) VALUES (?, 'p', 'f', ?, ?, ?, ?, ?)"

    def fill(tx: Tx) -> None:
        for id_, owner, status, body, cached in rows:
            tx.run(insert, (id_, owner, NOW, status, body, cached))

    with trio.fail_after(60):
        async with open_store(store_url, [before]) as old:
            await old.write(fill)
        async with open_store(store_url, [MIGRATIONS]) as new:
            assert await new.read(partial(read_claims, ids=[row[0] for row in rows])) == {
                id_: ClaimRecord(
                    "", "p", "f", owner, NOW, None if status is None else StoredReply(status, body, owner, bool(cached))
                )
                for id_, owner, status, body, cached in rows
            }
            for forget in (forget_old, forget_old_replies):
                assert await new.write(partial(forget, now=NOW + KEPT_S + TOUCH_S + 1)) > 0
