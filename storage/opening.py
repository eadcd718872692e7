"""Opens the store at an address."""

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
    """Open the store at `url`. On exit, submitted calls are committed.

    `sqlite:///data/x.db` is relative to the working folder, and `sqlite:////srv/x.db` is absolute. This process owns
    the file while the block runs. A `postgresql://` database can be open in many processes. `migrations` must contain
    all sets of the program, because a database with an unknown migration is refused. If a store existed here and its
    file is missing, a new file is created only with `new_store`.

    Raises:
        StoreInUse, StoreCorrupt, StoreTooNew, StoreUnusable: with a message for the operator.
    """
    sets = [*migrations, NODES]
    if url.startswith(POSTGRES):
        from storage.postgres.store import open_postgres  # noqa: PLC0415 - 15 MB, loaded only if needed

        async with open_postgres(_checked(url), sets) as shared:
            yield shared
    else:
        from storage.sqlite.store import open_sqlite  # noqa: PLC0415 - most commands only contact a node

        async with open_sqlite(_file(url), sets, new_store=new_store) as store:
            yield store


def try_store(url: str) -> None:
    """Check that the store at `url` can be opened, by logging in to the database or checking the file. Change nothing.

    Raises:
        StoreUnusable: the store cannot be reached; the message says why, without a password.
    """
    if not url.startswith(POSTGRES):
        file = _file(url)
        if file.exists() and not os.access(file, os.R_OK | os.W_OK):
            raise StoreUnusable(f"this user cannot read and write {file}")
        return
    from psycopg import Error  # noqa: PLC0415 - as above

    from storage.postgres.link import open_link  # noqa: PLC0415 - as above
    from storage.postgres.schema import check_version  # noqa: PLC0415 - as above

    try:
        link = open_link(_checked(url), name="sluice-check", query_only=True)
    except Error as exc:
        raise StoreUnusable(f"the database does not respond: {' '.join(str(exc).split())}") from exc
    try:
        check_version(link)
    finally:
        link.close()


def read_owner_note(url: str) -> dict[str, str] | None:
    """Return the note from the owner of the store at `url`, or None if the store has no owner or needs no note."""
    return None if url.startswith(POSTGRES) else read_note(_file(url))


def is_shared(url: str) -> bool:
    """Return whether several nodes can use the store at the same time."""
    return url.startswith(POSTGRES)


def refuse_lost(url: str) -> None:
    """Raise StoreUnusable if the file of an earlier store is missing and no running node has it open."""
    if url.startswith(SQLITE) and url != SQLITE and read_note(_file(url)) is None:
        refuse_missing(_file(url), new_store=False)


def linked_folder(url: str) -> Path | None:
    """Return the folder of the database if the path in `url` is a symbolic link to the file, otherwise None."""
    is_link = url.startswith(SQLITE) and os.path.islink(url.removeprefix(SQLITE))
    return _file(url).parent if is_link else None


def exposures_of(url: str) -> list[str]:
    """Return warnings if other users can enter the folder or read the file of the database at `url`."""
    return exposures(_file(url)) if url.startswith(SQLITE) and url != SQLITE else []


def _file(url: str) -> Path:
    """Return the file's path without links, from which the names of the log and of the owner's note are derived."""
    if not url.startswith(SQLITE) or url == SQLITE:
        without_password = url.rpartition("@")[2]
        raise StoreUnusable(f"not a store address: {without_password!r}; {EXPECTED}")
    return Path(os.path.realpath(url.removeprefix(SQLITE)))


def _checked(url: str) -> str:
    """Return the parsed address of a server.

    Error messages do not contain the address, because it may include a password.
    """
    from psycopg import ProgrammingError  # noqa: PLC0415 - as above
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - as above

    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError as exc:
        raise StoreUnusable(f"not a database address; {EXPECTED}") from exc
    if not parts.get("dbname"):
        raise StoreUnusable(f"the address is missing the database name; {EXPECTED}")
    return url
