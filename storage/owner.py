"""Exclusive ownership of a database file: a lock that ends with the process, and a note for those who find it taken."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from storage.errors import StoreInUse, StoreUnusable

NOTE_BYTES_MAX = 4096


class Ownership:
    """The held lock of `<database>.lock`."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor` is the locked file."""
        self._descriptor = descriptor

    def announce(self, note: Mapping[str, str]) -> None:
        """Replace the note that `read_note` gives to other processes."""
        text = json.dumps(dict(note)).encode()
        assert len(text) <= NOTE_BYTES_MAX
        # One write, padded over the old note, so that a reader never sees half of each.
        os.pwrite(self._descriptor, text.ljust(NOTE_BYTES_MAX), 0)


@contextmanager
def own(database: Path) -> Iterator[Ownership]:
    """Hold the lock of `database` while the block runs; the kernel frees it should the process die.

    Raises:
        StoreInUse: another process, or another opening in this one, holds it.
        StoreUnusable: the lock file cannot be made.
    """
    try:
        descriptor = os.open(_lock_path(database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise StoreUnusable(f"cannot write {_lock_path(database)}: {exc.strerror}") from exc
    try:
        _lock(descriptor, database)
        ownership = Ownership(descriptor)
        ownership.announce({})
        yield ownership
    finally:
        os.close(descriptor)


def read_note(database: Path) -> dict[str, str] | None:
    """The owner's note while somebody owns `database`; None when nobody does.

    Raises:
        StoreUnusable: this user may not see the lock.
    """
    try:
        descriptor = os.open(_lock_path(database), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StoreUnusable(f"cannot read {_lock_path(database)}: {exc.strerror}") from exc
    try:
        if _is_free(descriptor):
            return None
        return _parse(os.pread(descriptor, NOTE_BYTES_MAX, 0))
    finally:
        os.close(descriptor)


def _lock_path(database: Path) -> Path:
    return database.with_name(database.name + ".lock")


def _lock(descriptor: int, database: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        raise StoreInUse(f"{database} is in use by another process; stop it, or use its admin address") from exc


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _parse(text: bytes) -> dict[str, str]:
    """An owner that has only just begun may not have written its note yet: empty."""
    try:
        note = json.loads(text)
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in note.items()} if isinstance(note, dict) else {}
