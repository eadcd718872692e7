"""A PostgreSQL server that goes away: calls fail soon with correct errors, and it is used again when it returns."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial

import psycopg
import pytest
import trio

from storage.errors import CommitUnknown, StoreContended, StoreUnavailable
from storage.opening import open_store
from storage.store import Store, Tx
from tests.servers.cutter import Cutter, open_cutter
from tests.servers.postgres import PostgresServer
from tests.storage.tables import NOTES, add_note, add_notes, all_texts


@pytest.fixture
def cutter(postgres: PostgresServer) -> Iterator[Cutter]:
    postgres.fresh()
    with open_cutter(postgres.port) as opened:
        yield opened


@pytest.fixture
async def store(postgres: PostgresServer, cutter: Cutter) -> AsyncIterator[Store]:
    with trio.fail_after(60):
        async with open_store(postgres.url(cutter.port), [NOTES]) as opened:
            yield opened


async def when_back(call: Callable[[], Awaitable[object]], within_s: float = 30.0) -> None:
    """Make a call of the store. Retry while the store is unavailable, because a refused call has not happened."""
    with trio.fail_after(within_s):
        while True:
            try:
                await call()
                return
            except StoreUnavailable:
                await trio.sleep(0.01)


async def wait_back(store: Store) -> None:
    await when_back(store.ping)


def at_commit(cutter: Cutter, *, arrives: bool, then: Callable[[], None] = lambda: None) -> threading.Event:
    """Cut the connection at the commit, before or after the server has received it, and then set the event."""
    done = threading.Event()

    def to_server(data: bytes) -> bool:
        if not done.is_set() and b"COMMIT" in data:
            done.set()
            then()
            if arrives:
                cutter.to_client = lambda data: cutter.cut() is not None
                return True
            cutter.cut()
            return False
        return True

    cutter.to_server = to_server
    return done


async def test_lost_commit_that_happened_is_detected(store: Store, cutter: Cutter) -> None:
    """Method: the connection ends once the server has answered the commit, and the answer never arrives."""
    cut = at_commit(cutter, arrives=True)
    committed: list[str] = []

    def write(tx: Tx) -> str:
        tx.run_many("INSERT INTO notes (text) VALUES {rows}", [("one",)])
        tx.on_commit(lambda: committed.append("one"))
        return "done"

    async with trio.open_nursery() as nursery:

        async def heal() -> None:
            await trio.sleep(0.1)
            cutter.to_client = lambda data: True

        nursery.start_soon(heal)
        assert await store.write(write) == "done"
    assert cut.is_set()
    assert committed == ["one"]
    await wait_back(store)
    assert await all_texts(store) == ["one"]


async def test_commit_that_never_arrived_is_repeated(store: Store, cutter: Cutter) -> None:
    """The writer detects that it has not happened, and runs the same calls again."""
    cut = at_commit(cutter, arrives=False)
    results: list[str] = []

    async def submit(text: str) -> None:
        results.append(await store.submit(add_notes, text))

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(submit, f"note {number}")
    assert cut.is_set()
    assert len(results) == 10
    assert sorted(await all_texts(store)) == [f"note {number}" for number in range(10)]


async def test_commit_with_unknown_outcome_raises_commit_unknown(store: Store, cutter: Cutter) -> None:
    at_commit(cutter, arrives=True, then=lambda: setattr(cutter, "refuses", True))
    doubted: list[str] = []
    committed: list[str] = []

    def write(tx: Tx) -> None:
        tx.run("INSERT INTO notes (text) VALUES ('perhaps')")
        tx.on_commit(lambda: committed.append("perhaps"))
        tx.on_doubt(lambda: doubted.append("perhaps"))

    began = trio.current_time()
    with pytest.raises(CommitUnknown):
        await store.write(write)
    assert trio.current_time() - began < 10
    assert (doubted, committed) == (["perhaps"], [])
    cutter.to_client, cutter.refuses = lambda data: True, False
    await wait_back(store)
    assert await all_texts(store) in (["perhaps"], [])


async def test_statements_of_a_lost_connection_never_take_effect_later(
    store: Store, cutter: Cutter, postgres: PostgresServer
) -> None:
    """Goal: once the store is back, a lost commit has either happened or never will.

    Method: the network delays the commit, the client gives up, and the old connection stays open on the server's side.
    """
    held: list[bytes] = []

    def keep_commit(data: bytes) -> bool:
        if b"COMMIT" in data and not held:
            held.append(data)
            cutter.to_server = lambda data: False
            return False
        return True

    def locked(tx: Tx) -> None:
        tx.run("INSERT INTO notes (text) VALUES ('late')")

    cutter.to_server = keep_commit
    async with trio.open_nursery() as nursery:

        async def write() -> None:
            with pytest.raises(StoreUnavailable):
                await store.write(locked)

        nursery.start_soon(write)
        with trio.fail_after(5):
            while not held:  # noqa: ASYNC110 - the proxy's thread has no event for us
                await trio.sleep(0.01)
        with psycopg.connect(postgres.url(), autocommit=True) as other:
            (count,) = other.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE application_name LIKE 'sluice-writer%' AND state LIKE 'idle in%'"
            ).fetchone() or (0,)
        assert count == 1
        await trio.sleep(5)  # until the client gives up waiting
        cutter.to_server = lambda data: True
    await wait_back(store)
    assert await all_texts(store) in ([], ["late"])
    await store.write(add_note("later"))
    with psycopg.connect(postgres.url(), autocommit=True) as other:
        (count,) = other.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'sluice-writer%'"
        ).fetchone() or (0,)
    assert count == 1


async def test_idle_store_survives_a_server_restart_without_an_error(store: Store, postgres: PostgresServer) -> None:
    await store.write(add_note("before"))
    assert await all_texts(store) == ["before"]
    await trio.to_thread.run_sync(postgres.kill)
    await trio.to_thread.run_sync(postgres.start)
    refused = ""
    try:
        await store.write(add_note("after"))
    except StoreUnavailable as exc:
        refused = str(exc)
        await wait_back(store)
        await store.write(add_note("after"))
    assert not refused or "is unavailable" in refused, (
        "only a concurrent heartbeat may report it, not a broken connection"
    )
    assert await all_texts(store) == ["before", "after"]


async def test_calls_fail_immediately_while_the_server_is_unavailable(
    store: Store, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Method: kill the server under load, and measure the slowest of many calls while it is known to be away."""
    await trio.to_thread.run_sync(postgres.kill)
    try:
        with pytest.raises(StoreUnavailable):
            await store.write(add_note("lost"))
        slowest = 0.0
        for number in range(50):
            began = trio.current_time()
            for call in (partial(store.write, add_note("lost")), partial(all_texts, store), store.ping):
                with pytest.raises(StoreUnavailable):
                    await call()
            with pytest.raises(StoreUnavailable):
                store.submit_nowait(add_notes, f"lost {number}")
            slowest = max(slowest, trio.current_time() - began)
            await trio.sleep(0.002)
        assert slowest < 0.5, "no call waits for a connection"
    finally:
        with trio.move_on_after(30, shield=True):
            await trio.to_thread.run_sync(postgres.start)
    await wait_back(store)
    assert await all_texts(store) == []
    await store.write(add_note("back"))
    down, up = (record.getMessage() for record in caplog.records)
    assert down.startswith("the link to PostgreSQL is down: ")
    assert up == "the link to PostgreSQL is up"


async def test_waiting_calls_fail_when_the_server_becomes_unavailable(store: Store, cutter: Cutter) -> None:
    running, go = threading.Event(), threading.Event()

    def hold(tx: Tx, requests: Sequence[None]) -> list[None]:
        running.set()
        assert go.wait(10)
        tx.all("SELECT 1")
        return [None] * len(requests)

    errors: list[Exception] = []

    async def write(number: int) -> None:
        try:
            await store.write(add_note(f"{number}"))
        except StoreUnavailable as exc:
            errors.append(exc)

    store.submit_nowait(hold, None)
    async with trio.open_nursery() as nursery:
        await trio.to_thread.run_sync(running.wait, 5)
        for number in range(20):
            nursery.start_soon(write, number)
        await trio.sleep(0.05)
        cutter.refuses = True
        cutter.cut()
        go.set()
    assert len(errors) == 20
    cutter.refuses = False
    await wait_back(store)


async def test_frozen_server_is_abandoned(store: Store, postgres: PostgresServer) -> None:
    await store.write(add_note("before"))
    await trio.to_thread.run_sync(postgres.freeze)
    try:
        began = trio.current_time()
        with pytest.raises(StoreUnavailable):
            await store.write(add_note("stuck"))
        assert trio.current_time() - began < 20
        with pytest.raises(StoreUnavailable, match="unavailable"):
            await store.write(add_note("refused"))
    finally:
        with trio.move_on_after(30, shield=True):
            await trio.to_thread.run_sync(postgres.thaw)
    await wait_back(store)
    await store.write(add_note("after"))
    texts = await all_texts(store)
    assert texts[0] == "before"
    assert texts[-1] == "after"
    assert "refused" not in texts


async def test_readers_and_writer_recover_from_cut_connections(store: Store, cutter: Cutter) -> None:
    assert await all_texts(store) == []
    cutter.cut()
    assert await all_texts(store) == []
    await when_back(lambda: store.write(add_note("on")))
    assert await all_texts(store) == ["on"]


async def test_lock_that_is_never_released_fails_calls_instead_of_hanging(
    store: Store, postgres: PostgresServer
) -> None:
    await store.write(add_note("one"))
    with psycopg.connect(postgres.url()) as other:
        other.execute("SELECT * FROM notes FOR UPDATE")
        with trio.fail_after(10), pytest.raises(StoreContended):
            await store.write(lambda tx: tx.all("SELECT text FROM notes {lock}"))
        other.rollback()
        assert await store.write(lambda tx: tx.all("SELECT text FROM notes {lock}")) == [("one",)]


async def test_emptied_database_is_unavailable_until_restored(store: Store, postgres: PostgresServer) -> None:
    """Method: another program moves all tables away, checks the result of each kind of call, and moves them back."""
    await store.write(add_note("before"))
    assert await all_texts(store) == ["before"]
    with psycopg.connect(postgres.url(), autocommit=True) as other:
        other.execute("ALTER SCHEMA public RENAME TO hidden")
        for exists in (False, True):  # a missing schema, then an empty one
            if exists:
                other.execute("CREATE SCHEMA public")
            for call in (store.ping, partial(store.write, add_note("x")), partial(store.submit, add_notes, "y")):
                with pytest.raises(StoreUnavailable, match="was emptied or changed"):
                    await call()
            with pytest.raises(StoreUnavailable, match="was emptied or changed"):
                await all_texts(store)
        other.execute("DROP SCHEMA public")
        other.execute("ALTER SCHEMA hidden RENAME TO public")
    await store.ping()
    assert await all_texts(store) == ["before"]


async def test_recreated_database_is_unavailable(store: Store, postgres: PostgresServer) -> None:
    """A new node would create its tables; a running one has lost its data, and reports that."""
    await store.write(add_note("before"))
    name = postgres.url().rpartition("/")[2].partition("?")[0]
    with psycopg.connect(postgres.url().replace(f"/{name}", "/template1"), autocommit=True) as other:
        other.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        other.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
    for _ in range(10):
        for call in (store.ping, partial(store.write, add_note("x")), partial(all_texts, store)):
            with pytest.raises(StoreUnavailable):
                await call()
        await trio.sleep(0.01)
