"""The stores of tests of a whole gateway: files, or with `SLUICE_TEST_STORE=postgresql` databases on a server.

A test identifies its store by the path of a file: the same path is the same store on both engines. To change a store
without the gateway's knowledge, tests use `tests/fakes/outsider.py`, which supports both engines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2s
from pathlib import Path
from typing import Any

import psycopg

from tests.servers.postgres import open_postgres

SWITCH = "SLUICE_TEST_STORE"
SERVER = "SLUICE_TEST_STORE_SERVER"
"""The address of the running server. Child processes inherit it, like the switch itself."""
ENGINES = ("sqlite", "postgresql")
NAME = "of_a_test_"


def engine() -> str:
    """Return the engine of this run."""
    chosen = os.environ.get(SWITCH) or ENGINES[0]
    assert chosen in ENGINES, f"{SWITCH} is {chosen!r}, not one of {ENGINES}"
    return chosen


def store_at(file: Path, template: str = "template0") -> str:
    """Return the address of the store for `file`: empty or a copy of `template` at first, and the same store later."""
    if engine() == "sqlite":
        return f"sqlite:///{file}"
    server = os.environ[SERVER]
    name = NAME + blake2s(os.fsencode(file), digest_size=12).hexdigest()
    with psycopg.connect(server, autocommit=True) as connection:
        known = connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchall()
        if not known:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode())
    return server.rpartition("/")[0] + f"/{name}"


def drop_store(url: str) -> None:
    """Drop the database for this address, which `store_at` created."""
    name = url.rpartition("/")[2]
    with psycopg.connect(os.environ[SERVER], autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


class Stores:
    """The databases that tests have created on the server."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        """The caller must close `connection`."""
        self._connection = connection

    @contextmanager
    def dropping(self) -> Iterator[None]:
        """Drop everything that was created during the block when the block ends."""
        before = self._names()
        yield
        for name in self._names() - before:
            self._connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def _names(self) -> set[str]:
        sql = "SELECT datname FROM pg_database WHERE starts_with(datname, %s)"
        return {name for (name,) in self._connection.execute(sql, (NAME,))}


@contextmanager
def open_stores() -> Iterator[Stores | None]:
    """Run the server that `SLUICE_TEST_STORE` requests while the block runs; None if it requests none."""
    if engine() == "sqlite" or SERVER in os.environ:
        yield None
        return
    with open_postgres() as server, psycopg.connect(server.url(), autocommit=True) as connection:
        os.environ[SERVER] = server.url()
        try:
            yield Stores(connection)
        finally:
            del os.environ[SERVER]
