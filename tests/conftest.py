"""What tests of more than one package stand on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.commands import Commands, open_commands
from tests.servers.postgres import PostgresServer, open_postgres
from tests.servers.redis import RedisServer, open_redis


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


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for the whole session; a test takes it as `empty_redis`."""
    with open_redis(tmp_path_factory.mktemp("redis"), options=("--enable-debug-command", "local")) as server:
        yield server


@pytest.fixture
def empty_redis(redis_server: RedisServer) -> RedisServer:
    """A running server without any key or script, whatever the test before has done to it."""
    redis_server.empty()
    return redis_server


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """What runs short commands."""
    with open_commands() as commands:
        yield commands
