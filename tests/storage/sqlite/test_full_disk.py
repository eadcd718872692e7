"""A full disk, on SQLite."""

from functools import partial

import pytest

from storage.errors import StoreUnavailable
from storage.store import Store, Tx
from tests.contract.calls import submit_all
from tests.storage.tables import add_note, add_notes, all_texts


async def test_full_disk_is_reported_and_the_store_recovers(store: Store) -> None:
    """Method: SQLite's own page limit simulates a full disk."""

    def limit(pages: int, tx: Tx) -> None:
        tx.run(f"PRAGMA max_page_count = {pages}")

    await store.write(partial(limit, 1))  # SQLite raises the limit to the size of the file
    with pytest.raises(StoreUnavailable, match="full"):
        await store.write(add_note("x" * 100_000))
    results = await submit_all(store, [partial(store.submit, add_notes, "y" * 100_000) for _ in range(2)])
    assert [type(result) for result in results] == [StoreUnavailable] * 2
    await store.write(partial(limit, 100_000))
    await store.write(add_note("z" * 100_000))
    assert len(await all_texts(store)) == 1
