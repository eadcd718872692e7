"""Marks next to a database that remain when the database is removed.

One mark records that the database existed, the other that its contents were replaced while a node was running.

The first mark is a hidden file, which `rm data/*` does not delete, and also an attribute of the folder if the file
system supports it.
"""

import os
from contextlib import suppress
from pathlib import Path

from storage.errors import StoreUnusable
from storage.private_files import open_private

MISSING = (
    "{database} is missing or empty, but a store existed here: restore it, or a backup with its secret; "
    "to start with an empty one: sluice serve --new-store"
)
REPLACED = (
    "the contents of {database} were replaced while a node ran, and {log} belongs to the old contents: to continue "
    "from a backup, copy it into place again, remove {log} and {index}, and start"
)


def refuse_missing(database: Path, *, new_store: bool) -> None:
    """Raise StoreUnusable if the file of an earlier store is missing, unless a new store is wanted."""
    if new_store or not _was_made(database):
        return
    with suppress(OSError):
        if database.stat().st_size > 0:
            return
    raise StoreUnusable(MISSING.format(database=database))


def mark_made(database: Path) -> None:
    """Write the marks of a new store.

    If either the file or the attribute cannot be written, the other is sufficient.
    """
    with suppress(OSError):
        os.close(open_private(_made_mark(database)))
    with suppress(OSError, AttributeError):  # only Linux has attributes of files
        os.setxattr(database.parent, _attribute(database), b"1")


def mark_replaced(database: Path) -> None:
    """Write a mark that says that the log no longer belongs to the file."""
    with suppress(OSError):
        os.close(open_private(_replaced_mark(database)))


def refuse_mixed(database: Path) -> None:
    """Raise StoreUnusable while the old log still exists next to a file with replaced contents.

    Otherwise remove the mark.
    """
    mark = _replaced_mark(database)
    if not mark.exists():
        return
    log, index = (database.with_name(database.name + end) for end in ("-wal", "-shm"))
    if log.exists():
        raise StoreUnusable(REPLACED.format(database=database, log=log.name, index=index.name))
    with suppress(OSError):
        mark.unlink()


def _was_made(database: Path) -> bool:
    if _made_mark(database).exists():
        return True
    with suppress(OSError, AttributeError):
        return bool(os.getxattr(database.parent, _attribute(database)))
    return False


def _made_mark(database: Path) -> Path:
    return database.with_name(f".{database.name}.made")


def _replaced_mark(database: Path) -> Path:
    return database.with_name(f"{database.name}-replaced")


def _attribute(database: Path) -> str:
    return f"user.sluice.made.{database.name}"
