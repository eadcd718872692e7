"""The files that a store refuses to open, and helpful messages."""

import fcntl
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import trio

from storage.errors import StoreCorrupt, StoreInUse, StoreUnavailable, StoreUnusable
from storage.opening import open_store, read_owner_note
from storage.sqlite.owner import own, read_note
from storage.store import Tx
from tests.storage.tables import NOTES, add, add_note, all_texts, texts, url

OWNER = """
import sys, trio
from storage.opening import open_store

async def main():
    async with open_store(sys.argv[1], []) as store:
        store.announce({"admin_url": "http://127.0.0.1:1"})
        print("open", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def refusal(address: str) -> StoreUnusable:
    with pytest.raises(StoreUnusable) as caught, trio.fail_after(10):
        async with open_store(address, [NOTES]):
            pass
    return caught.value


@pytest.mark.parametrize(
    "address", ["", "sqlite:///", "sqlite://x.db", "mysql://localhost/x", "data/x.db", "postgresql:/x"]
)
async def test_address_of_another_kind_is_refused(address: str) -> None:
    assert "expected sqlite:///" in str(await refusal(address))


async def test_missing_folders_are_created_and_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "store.db"
    async with open_store(f"sqlite:///{path}", [NOTES]):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_relative_address_is_below_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_store("sqlite:///data/x.db", [NOTES]):
        assert (tmp_path / "data" / "x.db").exists()


async def test_uncreatable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert f"cannot create the data folder {tmp_path / 'file'}" in str(await refusal(f"sqlite:///{tmp_path}/file/x.db"))


async def test_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    assert "Is a directory" in str(await refusal(url(tmp_path)))


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
async def test_read_only_folder_is_refused(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o500)
    assert "Permission denied" in str(await refusal(url(tmp_path)))


async def test_file_that_is_not_a_database_is_refused_with_instructions(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database at all" * 500)
    error = await refusal(url(tmp_path))
    assert isinstance(error, StoreCorrupt)
    assert ".recover" in str(error)


async def test_damaged_page_is_found_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_store(url(tmp_path), [NOTES]) as store:
        for number in range(50):
            await store.write(add_note(f"{number}" * 500))
    content = bytearray(path.read_bytes())
    content[3 * 4096 : 3 * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    assert isinstance(await refusal(url(tmp_path)), StoreCorrupt)


async def test_store_has_one_owner(tmp_path: Path) -> None:
    async with open_store(url(tmp_path), [NOTES]) as store:
        error = await refusal(url(tmp_path))
        assert isinstance(error, StoreInUse)
        assert await all_texts(store) == []
    async with open_store(url(tmp_path), [NOTES]):
        pass


@pytest.mark.parametrize("note", [b"[" * 4096, b"\xff" * 4096, b"7".ljust(4096), b"", b'{"a":'])
def test_invalid_note_is_ignored(tmp_path: Path, note: bytes) -> None:
    database = tmp_path / "store.db"
    with own(database):
        database.with_name("store.db.lock").write_bytes(note)
        assert read_note(database) == {}


async def test_owners_note_can_be_read_while_the_store_is_open(tmp_path: Path) -> None:
    assert read_owner_note(url(tmp_path)) is None
    async with open_store(url(tmp_path), [NOTES]) as store:
        assert read_owner_note(url(tmp_path)) == {}
        store.announce({"admin_url": "http://127.0.0.1:65535"})
        store.announce({"admin_url": "http://127.0.0.1:1"})
        assert read_owner_note(url(tmp_path)) == {"admin_url": "http://127.0.0.1:1"}
    assert read_owner_note(url(tmp_path)) is None


async def test_reading_the_note_does_not_block_an_owner(tmp_path: Path) -> None:
    """Method: hold the lock like `read_owner_note` does, but long enough for the owner to hit it."""
    async with open_store(url(tmp_path), [NOTES]):
        pass
    looking = os.open(tmp_path / "store.db.lock", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)

    async def look_away() -> None:
        await trio.sleep(0.05)
        os.close(looking)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_away)
        async with open_store(url(tmp_path), [NOTES]) as store:
            assert await all_texts(store) == []


def test_killed_owner_leaves_neither_lock_nor_note(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, url(tmp_path)], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"open\n"
        assert read_owner_note(url(tmp_path)) == {"admin_url": "http://127.0.0.1:1"}
        owner.kill()
    assert read_owner_note(url(tmp_path)) is None
    trio.run(reopen, url(tmp_path))


async def reopen(address: str) -> None:
    with trio.fail_after(10):
        async with open_store(address, []):
            pass


async def test_write_lock_of_another_program_fails_calls_instead_of_hanging(tmp_path: Path) -> None:
    async with open_store(url(tmp_path), [NOTES]) as store:
        await store.write(lambda tx: tx.run("PRAGMA busy_timeout = 50"))  # it takes seconds by default
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.write(add_note("no"))
        other.close()
        await store.write(add_note("yes"))
        assert await store.read(texts) == ["yes"]


async def test_no_other_write_happens_between_a_calls_read_and_write(tmp_path: Path) -> None:
    async with open_store(url(tmp_path), [NOTES]) as store:

        def read_then_write(tx: Tx) -> None:
            assert texts(tx) == []
            with (
                closing(sqlite3.connect(tmp_path / "store.db", timeout=0)) as other,
                pytest.raises(sqlite3.OperationalError, match="locked"),
            ):
                other.execute("INSERT INTO notes (text) VALUES ('intruder')")
            add(tx, "mine")

        await store.write(read_then_write)
        assert await all_texts(store) == ["mine"]
