"""What tests of more than one package stand on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.postgres import PostgresServer, open_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole session; each test takes a fresh database of it."""
    with open_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store, on each engine in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.fresh()
