"""The commit log is written into the file in parallel to commits."""

import subprocess
from pathlib import Path

import trio

from storage.opening import open_store
from tests.storage.tables import NOTES, add_note, all_texts

TEXT = "what was committed a moment ago"


async def is_in(path: Path, text: str) -> bool:
    """Check in another process, because closing the file here would end the locks of the store's connections."""
    found = await trio.run_process(["grep", "-qa", text, str(path)], check=False, stdout=subprocess.DEVNULL)
    return found.returncode == 0


async def test_flush_writes_the_log_into_the_file_during_commits(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_store(f"sqlite:///{path}", [NOTES]) as store:
        await store.write(add_note(TEXT))
        assert not await is_in(path, TEXT)
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(store.write, add_note(f"note {number}"))
            nursery.start_soon(store.flush_log)
        assert await is_in(path, TEXT)
        assert len(await all_texts(store)) == 201
