"""The errors of a store whose file is removed while it is open, and the state afterwards."""

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


async def wait_until_background_calls_fail(store: Store) -> None:
    """Wait until a background call is refused when it is made; earlier calls are refused by the commit thread."""
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


async def test_commit_into_a_missing_file_raises_commit_unknown(store: Store, tmp_path: Path) -> None:
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
    await wait_until_background_calls_fail(store)
    away.rename(file)
    await wait_back(store)
    assert await all_texts(store) == ["perhaps"]
    assert told == ["doubted"]
    await store.write(add_note("after"))
    assert await all_texts(store) == ["perhaps", "after"]


@pytest.mark.parametrize("lost", ["store.db", "store.db-wal", "store.db-shm"])
async def test_all_commits_are_in_the_file_that_is_still_open(tmp_path: Path, lost: str) -> None:
    """Method: a hard link, created while the store is open, is read after the store was closed."""
    kept = tmp_path / "kept.db"
    async with open_store(url(tmp_path), [NOTES]) as store:
        kept.hardlink_to(tmp_path / "store.db")
        for number in range(20):
            await store.write(add_note(f"note {number}"))
        (tmp_path / lost).unlink()
        await wait_refused(store)
    with closing(sqlite3.connect(kept)) as other:
        assert other.execute("SELECT count(*) FROM notes").fetchone() == (20,)


async def test_second_opening_in_a_process_is_refused_and_keeps_locks(tmp_path: Path) -> None:
    """Goal: a refused opening does not drop SQLite's locks, which would let another program remove the log."""
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


def test_each_removal_and_replacement_of_a_file_is_detected(tmp_path: Path) -> None:
    """Goal: two changes within the resolution of the folder's timestamp, which look like one, are both detected."""
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


async def test_replaced_contents_are_detected_without_features_of_linux(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: replaced contents are detected, and not mixed with the old log.

    Method: no locks of open files and no attributes of folders, like on macOS.
    """
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
