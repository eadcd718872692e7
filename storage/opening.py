"""Opening the store that an address names."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from storage.errors import StoreUnusable
from storage.migrations import MigrationSet
from storage.nodes import MIGRATIONS as NODES
from storage.private_files import exposures
from storage.sqlite.marks import refuse_missing
from storage.sqlite.owner import read_note
from storage.store import Store

SQLITE = "sqlite:///"
POSTGRES = ("postgresql://", "postgres://")
EXPECTED = f"expected {SQLITE}path/to/file.db or {POSTGRES[0]}user:password@host/database"


@asynccontextmanager
async def open_store(url: str, migrations: Sequence[MigrationSet], *, new_store: bool = False) -> AsyncIterator[Store]:
    """The store at `url`; what was submitted is committed on leaving.

    `sqlite:///data/x.db` is relative to the working folder, `sqlite:////srv/x.db` is absolute; the file is owned by
    this process while the block runs. A `postgresql://` database may be open in many. `migrations` are all sets of the
    program, since a database with an unknown one is refused. A file that is gone from where there was one is made anew
    only if `new_store`.

    Raises:
        StoreInUse, StoreCorrupt, StoreTooNew, StoreUnusable: with words for the operator.
    """
    sets = [*migrations, NODES]
    if url.startswith(POSTGRES):
        from storage.postgres.store import open_postgres  # noqa: PLC0415 - 15 MB that only who asks for it pays

        async with open_postgres(_checked(url), sets) as shared:
            yield shared
    else:
        from storage.sqlite.store import open_sqlite  # noqa: PLC0415 - most commands ask a node, and open no store

        async with open_sqlite(_file(url), sets, new_store=new_store) as store:
            yield store


def try_store(url: str) -> None:
    """Reach the store at `url` and change nothing in it: log in to the database, or look at the file.

    Raises:
        StoreUnusable: it cannot be reached; the text says why, without a password.
    """
    if not url.startswith(POSTGRES):
        file = _file(url)
        if file.exists() and not os.access(file, os.R_OK | os.W_OK):
            raise StoreUnusable(f"{file} cannot be read and written")
        return
    from psycopg import Error  # noqa: PLC0415 - as above

    from storage.postgres.link import open_link  # noqa: PLC0415 - as above
    from storage.postgres.schema import check_version  # noqa: PLC0415 - as above

    try:
        link = open_link(_checked(url), name="sluice-check", query_only=True)
    except Error as exc:
        raise StoreUnusable(f"the database does not answer: {' '.join(str(exc).split())}") from exc
    try:
        check_version(link)
    finally:
        link.close()


def read_owner_note(url: str) -> dict[str, str] | None:
    """Return the note of the process that owns the store at `url`; None while nobody owns it, or nobody has to."""
    return None if url.startswith(POSTGRES) else read_note(_file(url))


def is_shared(url: str) -> bool:
    """Whether several nodes can use the store at the same time."""
    return url.startswith(POSTGRES)


def refuse_lost(url: str) -> None:
    """Raises StoreUnusable where there was a store whose file is gone, and no node has it open any more."""
    if url.startswith(SQLITE) and url != SQLITE and read_note(_file(url)) is None:
        refuse_missing(_file(url), new_store=False)


def linked_folder(url: str) -> Path | None:
    """The folder of the database if `url` names a symbolic link to it."""
    is_link = url.startswith(SQLITE) and os.path.islink(url.removeprefix(SQLITE))
    return _file(url).parent if is_link else None


def exposures_of(url: str) -> list[str]:
    """Warnings of others than their owner who may enter the folder or read the file of the database at `url`."""
    return exposures(_file(url)) if url.startswith(SQLITE) and url != SQLITE else []


def _file(url: str) -> Path:
    """The file without links in its path: SQLite makes the log's name of it, and its owner the note's."""
    if not url.startswith(SQLITE) or url == SQLITE:
        without_password = url.rpartition("@")[2]
        raise StoreUnusable(f"not the address of a store: {without_password!r}; {EXPECTED}")
    return Path(os.path.realpath(url.removeprefix(SQLITE)))


def _checked(url: str) -> str:
    """The address, if it can be read; what is wrong with it is not repeated, since it may hold a password."""
    from psycopg import ProgrammingError  # noqa: PLC0415 - as above
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - as above

    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError as exc:
        raise StoreUnusable(f"not the address of a database; {EXPECTED}") from exc
    if not parts.get("dbname"):
        raise StoreUnusable(f"the address names no database; {EXPECTED}")
    return url
