"""Opening the store that an address names."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from storage.errors import StoreUnusable
from storage.migrations import MigrationSet
from storage.owner import read_note
from storage.sqlite import open_sqlite
from storage.store import Store

SQLITE = "sqlite:///"


@asynccontextmanager
async def open_store(url: str, migrations: Sequence[MigrationSet]) -> AsyncIterator[Store]:
    """The store at `url`, owned by this process while the block runs; what was submitted is committed on leaving.

    `sqlite:///data/x.db` is relative to the working folder, `sqlite:////srv/x.db` is absolute. `migrations` are all
    sets of the program, since a database with an unknown one is refused.

    Raises:
        StoreInUse, StoreCorrupt, StoreTooNew, StoreUnusable: with words for the operator.
    """
    async with open_sqlite(_file(url), migrations) as store:
        yield store


def read_owner_note(url: str) -> dict[str, str] | None:
    """What the process that owns the store at `url` has announced; None while nobody owns it."""
    return read_note(_file(url))


def _file(url: str) -> Path:
    if not url.startswith(SQLITE) or url == SQLITE:
        raise StoreUnusable(f"not the address of a store: {url!r}; expected {SQLITE}path/to/file.db")
    return Path(url.removeprefix(SQLITE))
