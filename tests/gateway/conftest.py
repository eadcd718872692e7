from collections.abc import Iterator

import pytest

from tests.servers.redis import RedisServer, open_redis


@pytest.fixture(scope="package")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with open_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def empty_redis(redis_server: RedisServer) -> RedisServer:
    """A running server without any key."""
    if redis_server.popen is None:
        redis_server.start()
    redis_server.ask("FLUSHALL")
    return redis_server
