"""The errors of a store whose file is taken away from under it, and the state afterwards."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import trio

from storage.errors import CommitUnknown, StorageError, StoreInUse, StoreUnavailable
from storage.opening import open_store
from storage.sqlite.watch import DatabaseFiles
from storage.store import Store, Tx
from tests.storage.tables import NOTES, add_note, add_notes, all_texts, url


async def wait_refused(store: Store) -> None:
    with trio.fail_after(30):
        while True:
            try:
                await all_texts(store)
            except StoreUnavailable:
                return
            await trio.sleep(0.01)


async def wait_refused_unheard(store: Store) -> None:
    """Until a call that nobody waits for is refused as it is made; the thread that commits refuses those before."""
    with trio.fail_after(30):
        while True:
            try:
                store.submit_nowait(add_notes, "z")
            except StoreUnavailable:
                return
            await trio.sleep(0.01)


async def wait_back(store: Store) -> None:
    with trio.fail_after(30):
        while True:
            try:
                await store.ping()
            except StoreUnavailable:
                await trio.sleep(0.01)
            else:
                return


async def test_a_commit_into_a_file_that_is_gone_is_unknown_and_in_doubt(store: Store, tmp_path: Path) -> None:
    told: list[str] = []

    def write(tx: Tx) -> None:
        tx.run("INSERT INTO notes (text) VALUES ('perhaps')")
        tx.on_commit(lambda: told.append("committed"))
        tx.on_doubt(lambda: told.append("doubted"))

    file, away = tmp_path / "store.db", tmp_path / "away.db"
    file.rename(away)
    with pytest.raises(CommitUnknown, match=r"store\.db was removed during a commit"):
        await store.write(write)
    await wait_refused(store)
    assert told == ["doubted"]
    for call in (partial(store.write, add_note("x")), partial(store.submit, add_notes, "y"), store.ping):
        with pytest.raises(StoreUnavailable, match="restore the same file"):
            await call()
    await wait_refused_unheard(store)
    away.rename(file)
    await wait_back(store)
    assert await all_texts(store) == ["perhaps"]
    assert told == ["doubted"]
    await store.write(add_note("after"))
    assert await all_texts(store) == ["perhaps", "after"]


@pytest.mark.parametrize("lost", ["store.db", "store.db-wal", "store.db-shm"])
async def test_all_that_was_committed_is_in_the_file_that_is_still_open(tmp_path: Path, lost: str) -> None:
    """Method: a second name, given while the store is open, is read once the store is closed."""
    kept = tmp_path / "kept.db"
    async with open_store(url(tmp_path), [NOTES]) as store:
        kept.hardlink_to(tmp_path / "store.db")
        for number in range(20):
            await store.write(add_note(f"note {number}"))
        (tmp_path / lost).unlink()
        await wait_refused(store)
    with closing(sqlite3.connect(kept)) as other:
        assert other.execute("SELECT count(*) FROM notes").fetchone() == (20,)


async def test_the_same_process_does_not_open_a_store_twice_and_the_first_keeps_its_locks(tmp_path: Path) -> None:
    """Goal: a refused opening does not drop SQLite's locks, by which another program's closing would take the log."""
    async with open_store(url(tmp_path), [NOTES]) as store:
        await store.write(add_note("one"))
        with pytest.raises(StoreInUse):
            async with open_store(url(tmp_path), [NOTES]):
                pass
        await trio.run_process(["python3", "-c", READ, str(tmp_path / "store.db")])
        assert (tmp_path / "store.db-wal").stat().st_size > 0
        await store.write(add_note("two"))
        assert await all_texts(store) == ["one", "two"]


READ = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM notes').fetchall(); c.close()"


def test_one_look_at_the_folder_is_enough_while_it_has_not_changed_for_a_while(tmp_path: Path) -> None:
    """Goal: nothing is missed that happens within the grain of the folder's time, where two changes look like one."""
    path = tmp_path / "x.db"
    names = [path.with_name(f"x.db{end}") for end in ("", "-wal", "-shm")]
    for name in names:
        name.touch()
    files = DatabaseFiles(path)
    for name in names:
        assert files.fault_after_commit() is None
        name.rename(tmp_path / "away")
        assert files.fault_after_commit() == f"{name} was removed"
        name.touch()
        assert files.fault_after_commit() == f"{name} was replaced"
        (tmp_path / "away").replace(name)


async def test_what_only_linux_has_is_done_without_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a file whose contents were replaced is noticed, and is not mixed with its old log. Method: no locks of open
    files and no attributes of folders, as on macOS."""
    monkeypatch.delattr("fcntl.F_OFD_SETLK")
    monkeypatch.delattr("os.setxattr")
    monkeypatch.delattr("os.getxattr")
    file, other = tmp_path / "store.db", tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE others (id INTEGER)")
        database.commit()
    async with open_store(url(tmp_path), [NOTES]) as store:
        await store.write(add_note("x"))
        file.write_bytes(other.read_bytes())
        await wait_refused(store)
        with pytest.raises(StoreUnavailable, match="were replaced while it was in use"):
            await store.ping()
    with pytest.raises(StorageError):
        async with open_store(url(tmp_path), [NOTES]):
            pass
