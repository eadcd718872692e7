"""Two nodes that need the same rows take turns; if they cannot, nothing is lost or done twice."""

import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial

import psycopg
import pytest
import trio

from storage.opening import open_store
from storage.store import Store, Tx
from tests.contract.calls import submit_all
from tests.servers.postgres import PostgresServer
from tests.storage.tables import NOTES, add, add_note, all_texts

TAKEN = "abcdef"
GIVEN_BACK_S = 0.3


@pytest.fixture
async def stores(postgres: PostgresServer) -> AsyncIterator[list[Store]]:
    url = postgres.fresh()
    with trio.fail_after(60):
        async with open_store(url, [NOTES]) as one, open_store(url, [NOTES]) as other:
            yield [one, other]


class Meeting:
    """Calls of two batches that lock a row, and wait for each other the first time that they hold it."""

    def __init__(self) -> None:
        self._both = threading.Barrier(2)
        self._waited: set[str] = set()
        self.runs: list[str] = []

    def lock(self, who: str, text: str, tx: Tx) -> str:
        self.runs.append(who)
        tx.all("SELECT id FROM notes WHERE text = ? {lock}", (text,))
        if who.endswith("first") and who not in self._waited:
            self._waited.add(who)
            self._both.wait(10)
        add(tx, who)
        return who


async def test_two_batches_that_need_each_others_locks_both_succeed(stores: list[Store]) -> None:
    """Method: each commit has two calls. The first calls lock one row each, and the second ones need the other's row.

    The server needs a second to detect the deadlock, and no call waits for that.
    """
    for text in "ab":
        await stores[0].write(add_note(text))
    meeting = Meeting()
    results: list[object] = []

    async def run(store: Store, name: str, texts: str) -> None:
        calls = [
            partial(store.write, partial(meeting.lock, f"{name} first", texts[0])),
            partial(store.write, partial(meeting.lock, f"{name} second", texts[1])),
        ]
        results.extend(await submit_all(store, calls))

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, stores[0], "one", "ab")
        nursery.start_soon(run, stores[1], "other", "ba")
    took_s = trio.current_time() - began
    everyone = ["one first", "one second", "other first", "other second"]
    assert sorted(map(str, results)) == everyone
    assert sorted(await all_texts(stores[0])) == ["a", "b", *everyone]
    assert len(meeting.runs) > 4, "at least one batch had to be retried"
    assert took_s < 5


async def test_calls_of_one_commit_succeed_despite_many_locks(stores: list[Store], postgres: PostgresServer) -> None:
    """Method: six calls wait together for rows that others hold and release one after another."""
    for text in TAKEN:
        await stores[0].write(add_note(text))

    def lock(text: str, tx: Tx) -> str:
        tx.all("SELECT id FROM notes WHERE text = ? {lock}", (text,))
        return text

    async def give_back(holders: list["psycopg.Connection[object]"]) -> None:
        for holder in holders:
            await trio.sleep(GIVEN_BACK_S)
            holder.rollback()

    with ExitStack() as connections:
        holders = [connections.enter_context(psycopg.connect(postgres.url())) for _ in TAKEN]
        for holder, text in zip(holders, TAKEN, strict=True):
            holder.execute("SELECT id FROM notes WHERE text = %s FOR UPDATE", (text,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_back, holders)
            calls = [partial(stores[0].write, partial(lock, text)) for text in TAKEN]
            assert await submit_all(stores[0], calls) == list(TAKEN)


async def test_concurrent_increments_of_two_nodes_lose_no_update(stores: list[Store]) -> None:
    """Method: both increment in Python what they read, without a lost update."""
    await stores[0].write(lambda tx: tx.run("CREATE TABLE counts (id TEXT PRIMARY KEY, n BIGINT)"))
    await stores[0].write(lambda tx: tx.run("INSERT INTO counts VALUES ('x', 0)"))

    def count(tx: Tx) -> None:
        ((n,),) = tx.all("SELECT n FROM counts WHERE id = 'x' {lock}")
        tx.run("UPDATE counts SET n = ? WHERE id = 'x'", (n + 1,))

    async with trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(stores[number % 2].write, count)
    assert await stores[0].read(lambda tx: tx.all("SELECT n FROM counts")) == [(200,)]


async def test_names_are_locked_before_a_row_exists(stores: list[Store]) -> None:
    def add_once(tx: Tx) -> bool:
        tx.lock(["the note"])
        if tx.all("SELECT 1 FROM notes WHERE text = 'once'"):
            return False
        tx.run_many("INSERT INTO notes (text) VALUES {rows}", [("once",)])
        return True

    added: list[bool] = []

    async def run(store: Store) -> None:
        added.append(await store.write(add_once))

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(run, stores[number % 2])
    assert sum(added) == 1
