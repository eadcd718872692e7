"""Reads use one snapshot, and change nothing."""

import pytest
import trio

from storage.errors import StoreUnavailable
from storage.store import Store, Tx
from tests.storage.tables import add_note, all_texts, texts


async def test_readers_cannot_write(store: Store) -> None:
    with pytest.raises(StoreUnavailable, match="read-only"):
        await store.read(lambda tx: tx.run("INSERT INTO notes (text) VALUES ('x')"))


async def test_reader_sees_one_snapshot_after_earlier_commits(store: Store) -> None:
    await store.write(add_note("before"))
    looked, go = trio.Event(), trio.Event()

    def twice(tx: Tx) -> list[list[str]]:
        first = texts(tx)
        trio.from_thread.run_sync(looked.set)
        trio.from_thread.run(go.wait)
        return [first, texts(tx)]

    seen: list[list[str]] = []
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:

            async def look() -> None:
                seen.extend(await store.read(twice))

            nursery.start_soon(look)
            await looked.wait()
            await store.write(add_note("during"))
            go.set()
    assert seen == [["before"], ["before"]]
    assert await all_texts(store) == ["before", "during"]


async def test_more_readers_than_connections_take_turns(store: Store) -> None:
    counts: list[list[str]] = []

    async def look() -> None:
        counts.append(await store.read(texts))

    async with trio.open_nursery() as nursery:
        for _ in range(40):
            nursery.start_soon(look)
    assert counts == [[]] * 40
