"""Watches the files of an open database, since SQLite goes on in files that were removed or replaced.

Each commit is followed by a look at the files' names, and a thread looks at more, twice a second. A file that was moved
away may come back; contents that were replaced never do.

Contents are known by two fields of the database's header: the application id is drawn at each opening, and the user
version counts the half seconds in which there were commits. Both are written into the file by checkpoints. So a backup
of another life has another id, and one from before the last checkpoint a lower count; a later one differs from the file
only in pages that stand in the log too.
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
# A folder's time has the grain of the kernel's clock: of what changes within it, it does not tell.
SETTLED_S = 1.0
HEADER_BYTES = 100
COUNT_AT, ID_AT = 60, 68

_log = logging.getLogger(__name__)


class DatabaseFiles:
    """The database, its log and its index, by the names under which they were opened."""

    def __init__(self, path: Path) -> None:
        """All three are there now."""
        self._names = tuple(f"{path}{end}" for end in ("", "-wal", "-shm"))
        self._opened = [_identity(os.stat(name)) for name in self._names]
        self._folder = str(path.parent)
        self._seen: tuple[int, int, int] | None = None

    def fault(self) -> str | None:
        """Name the file that is not the one that was opened; None while all are."""
        for name, opened in zip(self._names, self._opened, strict=True):
            try:
                found = _identity(os.stat(name))
            except (FileNotFoundError, NotADirectoryError):
                return f"{name} was removed"
            except OSError as exc:
                return f"{name} cannot be looked at: {exc.strerror}"
            if found != opened:
                return f"{name} was replaced"
        return None

    def fault_after_commit(self) -> str | None:
        """As `fault`, by one look at the folder while no entry of it has changed since the last."""
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
    """Tells why the database cannot be used: `fault`, None while it can."""

    def __init__(
        self, path: Path, ownership: Ownership, connection: sqlite3.Connection, publish: Callable[[str | None], None]
    ) -> None:
        """`connection` is the watching thread's; `tell` is told each change of `fault`, from any thread."""
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
        # Where another program was reading, no checkpoint has written this life's id into the file yet.
        self._ids = {self._id, _number(self._header(), ID_AT)}

    def check(self) -> None:
        """Raises StoreUnavailable while there is a fault."""
        if self.fault is not None:
            raise StoreUnavailable(self.fault)

    def next_count(self) -> int | None:
        """The user version that goes into the next commit, twice a second at most."""
        now = time.monotonic()
        if now < self._count_at:
            return None
        self._count_at = now + WATCH_S
        self._counted += 1
        return self._counted

    def check_commit(self) -> None:
        """Raises CommitUnknown if the commit that was just made may be in a file that is not kept."""
        if fault := self.fault or self._files.fault_after_commit():
            self._wake.set()
            raise CommitUnknown(f"{fault} during a commit")

    def run(self) -> None:
        """The thread: look until `stop`."""
        while not self._stopping:
            self._wake.wait(WATCH_S)
            self._wake.clear()
            self._look()

    def stop(self) -> None:
        """End the thread's work after a last look: closing writes the log into the file."""
        self._stopping = True
        self._wake.set()

    def _look(self) -> None:
        self._ownership.keep_note()
        if self._is_final:
            return
        if self._is_overwritten():
            self._ownership.keep_log_apart()
            mark_replaced(self._path)
            self._is_final = True
            self._change(
                f"the contents of {self._path} were replaced while it was in use: stop the node, put the file that is "
                f"wanted in its place, remove {self._path.name}-wal and {self._path.name}-shm, and start"
            )
        elif self._is_restored():
            self._is_final = True
            self._change(f"another program has put other contents into {self._path}: restart the node")
        else:
            self._look_at_names()

    def _look_at_names(self) -> None:
        fault = self._files.fault()
        self._is_saved = fault is not None and (self._is_saved or self._save_log())
        self._change(None if fault is None else f"{fault}: {self._advice(fault)}")

    def _save_log(self) -> bool:
        """Write what was committed into the file that is open: the log may be gone, or apart from it, from now on."""
        with suppress(sqlite3.Error):
            ((is_busy, _, _),) = self._connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
            return not is_busy
        return False

    def _advice(self, fault: str) -> str:
        if not self._is_saved:
            return "leave the node running until it has written what was committed into the file that it has open"
        if not fault.startswith(f"{self._path} "):
            return "remove it if it is there, and restart the node; what was committed is in the database"
        held = f"/proc/{os.getpid()}/fd/{self._ownership.file}"
        return (
            f"put the same file back; or, before the node ends, copy {held} to {self._path}, which holds all that was "
            "committed, and restart the node"
        )

    def _is_overwritten(self) -> bool:
        """Whether the file's header is another's, and still is after a moment: the first look may meet a write."""
        if self._has_header():
            return False
        time.sleep(AGAIN_S)
        return not self._has_header()

    def _has_header(self) -> bool:
        try:
            header = self._header()
        except OSError:
            return True  # a disk that cannot be read is not another one
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
