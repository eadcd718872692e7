"""Exclusive ownership of a database file: a lock on the file itself, which the kernel releases with the process.

The lock is taken with flock(2). It identifies the file by its inode instead of its name, and is independent of SQLite's
record locks. If a process closes any descriptor of a file, it loses all its record locks on that file. The locked
descriptor is therefore closed only after SQLite has closed the file, and no other code here opens the database.

A note next to the file gives information to processes that find the file in use. The note is locked too, because nodes
of earlier versions used only the note's lock.
"""

import errno
import fcntl
import json
import os
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from storage.errors import StoreInUse, StoreUnusable
from storage.private_files import FILE_MODE, open_private, refuse_other_kinds

NOTE_BYTES_MAX = 4096
SHARED_LOCK_AT = 0x40000002
SHARED_LOCK_BYTES = 510
"""The length of the lock that all of SQLite's connections share.

When a connection closes and can lock this range exclusively, it is the last one, and removes the log.
"""


class Ownership:
    """The locks of a database and of its note."""

    def __init__(self, database: Path, file: int, note: int) -> None:
        """`file` and `note` are the locked descriptors. `close` closes them."""
        self.file = file
        self._database = database
        self._note = note
        self._text = b""
        self._lock = threading.Lock()

    def announce(self, note: Mapping[str, str]) -> None:
        """Replace the note that `read_note` returns to other processes."""
        text = json.dumps(dict(note)).encode()
        assert len(text) <= NOTE_BYTES_MAX
        with self._lock:
            # A single write, padded to the length of the old note, so that readers never see parts of both notes.
            self._text = text.ljust(NOTE_BYTES_MAX)
            os.pwrite(self._note, self._text, 0)

    def keep_note(self) -> None:
        """Create the note again if it was removed. If that fails, the next call tries again."""
        with self._lock, suppress(OSError):
            if _is_at(_note_path(self._database), self._note):
                return
            made = open_private(_note_path(self._database))
            try:
                fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.pwrite(made, self._text, 0)
            except OSError:
                os.close(made)
                raise
            os.close(self._note)
            self._note = made

    def keep_log_apart(self) -> None:
        """Make SQLite leave the log in place when it closes, instead of writing it into the file.

        A shared lock that does not belong to the process makes SQLite believe that another user has the file open.
        """
        lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, SHARED_LOCK_AT, SHARED_LOCK_BYTES, 0)
        with suppress(OSError, AttributeError):  # only Linux has such locks; elsewhere only the mark protects the file
            fcntl.fcntl(self.file, fcntl.F_OFD_SETLK, lock)

    def close(self) -> None:
        """Unlock the file. SQLite must already have closed it."""
        os.close(self._note)
        os.close(self.file)


@contextmanager
def own(database: Path) -> Iterator[Ownership]:
    """Hold the lock of `database`, a path without links, while the block runs. The file is created if missing.

    A process can own a database only once. If it tries again, the note's lock refuses this before the file is opened.

    Raises:
        StoreInUse: another process holds the lock, or this process holds it already.
        StoreUnusable: the file cannot be written or locked, or has a second name.
    """
    ownership = _take(database)
    try:
        _begin_note(ownership, database)
        yield ownership
    finally:
        ownership.close()


def read_note(database: Path) -> dict[str, str] | None:
    """Return the owner's note, or None if `database` has no owner or the note was just removed.

    Raises:
        StoreUnusable: this user has no permission to check the lock.
    """
    path = _note_path(database)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise StoreUnusable(f"cannot read {path}: {exc.strerror}") from exc
    try:
        if _is_free(descriptor):
            return None
        return _parse(os.pread(descriptor, NOTE_BYTES_MAX, 0))
    except OSError as exc:
        raise StoreUnusable(f"cannot read {path}: {exc.strerror}") from exc
    finally:
        os.close(descriptor)


def _take(database: Path) -> Ownership:
    _refuse_other_kinds(database)
    note = _locked(_note_path(database), database)
    try:
        file = _locked(database, database)
    except BaseException:
        os.close(note)
        raise
    ownership = Ownership(database, file, note)
    try:
        _refuse_other_names(file, database)
    except BaseException:
        ownership.close()
        raise
    return ownership


def _begin_note(ownership: Ownership, database: Path) -> None:
    try:
        ownership.announce({})
    except OSError as exc:
        raise StoreUnusable(f"cannot write {_note_path(database)}: {exc.strerror}") from exc


def _refuse_other_kinds(database: Path) -> None:
    """Refuse a database that is not a regular file, before creating a note."""
    try:
        with suppress(FileNotFoundError):
            refuse_other_kinds(database)
    except OSError as exc:
        raise StoreUnusable(f"cannot use the database {database}: {exc.strerror}") from exc


def _locked(path: Path, database: Path) -> int:
    """Return a descriptor of the locked file at `path`."""
    try:
        descriptor = open_private(path)
    except OSError as exc:
        raise StoreUnusable(f"cannot write {path}: {exc.strerror}") from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(descriptor)
        if exc.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            words = f"{database} is in use by another process; stop it, or use its admin address"
            raise StoreInUse(words) from exc
        raise StoreUnusable(f"cannot lock {path}: {exc.strerror}; a database needs a local disk") from exc
    with suppress(OSError):  # a restored backup may be accessible to all users, and the log gets its mode
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


def _refuse_other_names(file: int, database: Path) -> None:
    """Refuse a file with a second name, under which it could get a second log. Two logs destroy a database."""
    if not _is_at(database, file):
        raise StoreInUse(f"{database} was replaced while it was being opened")
    names = os.fstat(file).st_nlink
    if names > 1:
        raise StoreUnusable(
            f"{database} has more than one name ({names} hard links), and SQLite keeps a log beside each; "
            "remove the other names (find them with: find DIR -samefile FILE), or copy the file"
        )
    if _is_mounted(database):
        raise StoreUnusable(f"{database} is mounted without its log; mount its folder instead")


def _is_mounted(path: Path) -> bool:
    """Return whether a file is a mount point. Mount points are detected only on Linux."""
    escaped = os.fsencode(path).replace(b"\\", b"\\134").replace(b" ", b"\\040").replace(b"\t", b"\\011")
    try:
        mounts = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return False
    return any(mount.split(b" ")[4] == escaped for mount in mounts)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _note_path(database: Path) -> Path:
    return database.with_name(database.name + ".lock")


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _parse(text: bytes) -> dict[str, str]:
    """Parse a note. The result is empty if the owner has just started and has not written the note yet."""
    try:
        note = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {str(key): str(value) for key, value in note.items()} if isinstance(note, dict) else {}
