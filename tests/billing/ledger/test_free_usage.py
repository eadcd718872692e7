"""Hits and refusals are in hourly usage, together with charged calls."""

from collections.abc import Callable
from typing import cast

import pytest

from billing.ledger import free_usage
from billing.ledger.free_usage import PLACES_MAX, SEEN_MAX, FreeUsage
from storage.errors import StoreUnavailable
from storage.store import Store, Tx
from tests.billing.desk import Desk

READ = """
SELECT accounts.id, keys.id, endpoints.path, hour, calls, hits, refusals, credits FROM usage
JOIN accounts ON accounts.number = account JOIN keys ON keys.number = key JOIN endpoints ON endpoints.id = endpoint
ORDER BY hour, accounts.id, keys.id, endpoints.path
"""
PATH, OTHER = "/v1/github/repository", "/v1/github/user"


def usage_of(desk: Desk, store: Store | None = None) -> FreeUsage:
    usage = FreeUsage(store or desk.store, now=desk.now)
    for path in (PATH, OTHER):
        usage.declare(path, "github")
    return usage


async def test_hits_and_refusals_are_counted_by_key_endpoint_and_hour(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    one, two = [(await desk.keys.create(account.id)).id for _ in range(2)]
    usage, hour = usage_of(desk), int(desk.time // 3600)
    for _ in range(600):  # more than are kept between flushes
        usage.hit((account.id, one, PATH))
    usage.hit((account.id, two, OTHER))
    usage.refusal((account.id, one, PATH))
    usage.refusal((account.id, one, "/v1/account/credits"))  # not a charged endpoint
    assert await usage.flush() == 2
    assert await usage.flush() == 0
    desk.time += 3600
    usage.refusal((account.id, one, PATH))
    usage.hit((account.id, one, PATH))
    assert await usage.flush() == 1
    assert await desk.store.read(lambda tx: tx.all(READ)) == [
        (account.id, one, PATH, hour, 0, 600, 1, 0),
        (account.id, two, OTHER, hour, 0, 1, 0, 0),
        (account.id, one, PATH, hour + 1, 0, 1, 1, 0),
    ]
    await desk.assert_sound()


@pytest.mark.critical
async def test_missing_key_does_not_block_other_usage(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    gone, kept = [(await desk.keys.create(account.id)).id for _ in range(2)]
    usage, hour = usage_of(desk), int(desk.time // 3600)
    usage.hit((account.id, gone, PATH))
    usage.hit((account.id, kept, PATH))
    usage.hit(("acc_gone", kept, PATH))
    await desk.store.write(lambda tx: tx.run("DELETE FROM keys WHERE id = ?", (gone,)))
    await usage.flush()
    assert await usage.flush() == 0
    assert await desk.store.read(lambda tx: tx.all(READ)) == [(account.id, kept, PATH, hour, 0, 1, 0, 0)]


async def test_charged_call_and_hit_share_a_row(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    key = (await desk.keys.create(account.id)).id
    request = desk.request(account.id, key, credits=5)
    await desk.charges.close(await desk.charges.take(request), used=5)
    usage = FreeUsage(desk.store, now=desk.now)
    usage.declare(request.endpoint, request.platform)
    usage.hit((account.id, key, request.endpoint))
    await usage.flush()
    ((*_place, calls, hits, refusals, credits_),) = await desk.store.read(lambda tx: tx.all(READ))
    assert (calls, hits, refusals, credits_) == (1, 1, 0, 5)
    await desk.assert_sound()


async def test_failed_flush_is_retried(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_usage, "FLUSHED_AT_ONCE", 1)
    account = await desk.accounts.create("Ada")
    key = (await desk.keys.create(account.id)).id
    store = FailingStore(desk.store)
    usage = usage_of(desk, cast("Store", store))
    for path in (PATH, OTHER):
        usage.hit((account.id, key, path))
    with pytest.raises(StoreUnavailable):
        await usage.flush()
    assert await usage.flush() == 1
    found = await desk.store.read(lambda tx: tx.all(READ))
    assert [(row[2], row[5]) for row in found] == [(PATH, 1), (OTHER, 1)]


async def test_counts_are_bounded_while_the_store_is_unavailable(desk: Desk) -> None:
    usage = usage_of(desk)
    for number in range(PLACES_MAX + SEEN_MAX):
        usage.refusal(("acc_none", f"key_{number}", PATH))
        if not number % SEEN_MAX:
            usage._add_up()
    usage._add_up()
    assert len(usage._refusals) == PLACES_MAX


class FailingStore:
    """A store whose second write fails."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writes = 0

    async def write(self, fn: Callable[[Tx], None]) -> None:
        self._writes += 1
        if self._writes == 2:
            raise StoreUnavailable("away")
        await self._store.write(fn)
