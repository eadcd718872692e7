"""Watches the files of an open database, because SQLite does not notice when they are removed or replaced.

After each commit, the files' names are checked. A thread makes more checks twice a second. If a file was moved away, it
can be moved back. If the contents of a file were replaced, the database stays unusable until the node restarts.

Contents are identified by two fields of the database header. The application id is a random number for each opening,
and the user version counts the half seconds in which there were commits. Checkpoints write both into the file. A backup
from another opening therefore has a different id, and a backup from before the last checkpoint has a lower count. A
later backup differs from the file only in pages that are also in the log, so it does no harm.
"""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from storage.errors import CommitUnknown, StoreUnavailable
from storage.sqlite.marks import mark_replaced
from storage.sqlite.owner import Ownership

WATCH_S = 0.5
AGAIN_S = 0.01
# A folder's modification time has the granularity of the kernel's clock, so changes within one tick are not visible.
SETTLED_S = 1.0
HEADER_BYTES = 100
COUNT_AT, ID_AT = 60, 68

_log = logging.getLogger(__name__)


class DatabaseFiles:
    """The database, its log and its index, under the names with which they were opened."""

    def __init__(self, path: Path) -> None:
        """Record the identities of the three files, which must exist."""
        self._names = tuple(f"{path}{end}" for end in ("", "-wal", "-shm"))
        self._opened = [_identity(os.stat(name)) for name in self._names]
        self._folder = str(path.parent)
        self._seen: tuple[int, int, int] | None = None

    def fault(self) -> str | None:
        """Return a message if a file was removed, was replaced or cannot be checked; None if all files are in place."""
        for name, opened in zip(self._names, self._opened, strict=True):
            try:
                found = _identity(os.stat(name))
            except (FileNotFoundError, NotADirectoryError):
                return f"{name} was removed"
            except OSError as exc:
                return f"{name} cannot be checked: {exc.strerror}"
            if found != opened:
                return f"{name} was replaced"
        return None

    def fault_after_commit(self) -> str | None:
        """Like `fault`, but check only the folder if the folder has not changed since the last call."""
        try:
            folder = os.stat(self._folder)
        except OSError:
            return self.fault()
        seen = (folder.st_dev, folder.st_ino, folder.st_mtime_ns)
        if seen == self._seen:
            return None
        fault = self.fault()
        if fault is None and time.time() - folder.st_mtime > SETTLED_S:
            self._seen = seen
        return fault


class FileWatch:
    """Checks the files. If the database cannot be used, `fault` is the reason; otherwise it is None."""

    def __init__(
        self, path: Path, ownership: Ownership, connection: sqlite3.Connection, publish: Callable[[str | None], None]
    ) -> None:
        """The watching thread uses `connection`. `publish` is called with each new `fault`, from any thread."""
        self.fault: str | None = None
        self._path = path
        self._ownership = ownership
        self._connection = connection
        self._publish = publish
        self._files = DatabaseFiles(path)
        self._id = _id_of(connection)
        self._count = self._counted = 0
        self._count_at = 0.0
        self._is_saved = self._is_final = False
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        # If another program is reading, perhaps no checkpoint has written this opening's id into the file yet.
        self._ids = {self._id, _number(self._header(), ID_AT)}

    def check(self) -> None:
        """Raise StoreUnavailable while there is a fault."""
        if self.fault is not None:
            raise StoreUnavailable(self.fault)

    def next_count(self) -> int | None:
        """Return the user version for the next commit, or None if it was already changed in this half second."""
        now = time.monotonic()
        if now < self._count_at:
            return None
        self._count_at = now + WATCH_S
        self._counted += 1
        return self._counted

    def check_commit(self) -> None:
        """Raise CommitUnknown if the last commit may be in a file that was removed or replaced."""
        if fault := self.fault or self._files.fault_after_commit():
            self._wake.set()
            raise CommitUnknown(f"{fault} during a commit")

    def run(self) -> None:
        """Run the thread: check the files until `stop` is called."""
        while not self._stopping:
            self._wake.wait(WATCH_S)
            self._wake.clear()
            self._check_files()

    def stop(self) -> None:
        """End the thread after a last check.

        Call this before closing SQLite, because closing writes the log into the file.
        """
        self._stopping = True
        self._wake.set()

    def _check_files(self) -> None:
        self._ownership.keep_note()
        if self._is_final:
            return
        if self._is_overwritten():
            self._ownership.keep_log_apart()
            mark_replaced(self._path)
            self._is_final = True
            self._change(
                f"the contents of {self._path} were replaced while it was in use: stop the node, put the right file "
                f"in its place, remove {self._path.name}-wal and {self._path.name}-shm, and start"
            )
        elif self._is_restored():
            self._is_final = True
            self._change(f"another program has replaced the contents of {self._path}: restart the node")
        else:
            self._look_at_names()

    def _look_at_names(self) -> None:
        fault = self._files.fault()
        self._is_saved = fault is not None and (self._is_saved or self._save_log())
        self._change(None if fault is None else f"{fault}: {self._advice(fault)}")

    def _save_log(self) -> bool:
        """Write committed data into the open file, because its log may be removed or replaced at any time.

        Return whether all data was written.
        """
        with suppress(sqlite3.Error):
            ((is_busy, _, _),) = self._connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
            return not is_busy
        return False

    def _advice(self, fault: str) -> str:
        if not self._is_saved:
            return "keep the node running until it has written all commits into the file that it has open"
        if not fault.startswith(f"{self._path} "):
            return "delete it if it still exists, and restart the node; all commits are in the database"
        held = f"/proc/{os.getpid()}/fd/{self._ownership.file}"
        return (
            f"restore the same file; or, before the node ends, copy {held} to {self._path}, which contains all that "
            "was committed, and restart the node"
        )

    def _is_overwritten(self) -> bool:
        """Return whether the file has another header.

        The header is read twice, because the first read may overlap a write.
        """
        if self._has_header():
            return False
        time.sleep(AGAIN_S)
        return not self._has_header()

    def _has_header(self) -> bool:
        try:
            header = self._header()
        except OSError:
            return True  # a read error does not prove that the file was replaced
        id_, count = _number(header, ID_AT), _number(header, COUNT_AT)
        if len(header) < HEADER_BYTES or id_ not in self._ids:
            return False
        if id_ != self._id:
            return True
        self._ids = {self._id}
        is_older, self._count = count < self._count, max(count, self._count)
        return not is_older

    def _header(self) -> bytes:
        return os.pread(self._ownership.file, HEADER_BYTES, 0)

    def _is_restored(self) -> bool:
        with suppress(sqlite3.Error):
            return _id_of(self._connection) != self._id
        return False

    def _change(self, fault: str | None) -> None:
        if fault == self.fault:
            return
        self.fault = fault
        if fault is None:
            _log.warning("the database is back")
        else:
            _log.error("the database cannot be used: %s", fault)
        self._publish(fault)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _id_of(connection: sqlite3.Connection) -> int:
    ((id_,),) = connection.execute("PRAGMA application_id").fetchall()
    return int(id_)


def _number(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 4], "big")
