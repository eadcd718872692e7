"""Stores that already have all tables of the program: copies of one migrated store, made in a tenth of the time."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from gateway.node.stores import MIGRATIONS
from storage.errors import StoreUnusable
from storage.nodes import MIGRATIONS as NODES
from storage.postgres.link import open_link
from storage.postgres.schema import migrate as migrate_postgres
from storage.sqlite.files import migrate as migrate_sqlite
from storage.sqlite.marks import refuse_missing
from storage.sqlite.transaction import connect
from tests.fakes.stores import SERVER, engine, store_at

SETS = (*MIGRATIONS, NODES)
TEMPLATE = "migrated"
PATIENCE_MS = 60_000


def migrated_at(file: Path) -> str:
    """Return the address of the store for `file`.

    The store is created with all tables; later calls return the same store.
    """
    if engine() != "sqlite":
        return store_at(file, template=_template(os.environ[SERVER]))
    with suppress(StoreUnusable):  # a node, and not this function, must report a lost store
        refuse_missing(file, new_store=False)
        if not file.exists():
            file.touch(mode=0o600)
            file.write_bytes(_migrated_file())
    return store_at(file)


@cache
def _migrated_file() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "store.db"
        with closing(connect(file)) as connection:
            migrate_sqlite(connection, SETS)
        return file.read_bytes()


@cache
def _template(server: str) -> str:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0 STRATEGY file_copy".encode())
    address = server.rpartition("/")[0] + f"/{TEMPLATE}"
    link = open_link(address, name="template", statement_ms=PATIENCE_MS, lock_ms=PATIENCE_MS)
    try:
        migrate_postgres(link, SETS)
    finally:
        link.close()
    return TEMPLATE
