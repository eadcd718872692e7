from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.many.harness import Cluster, open_cluster
from tests.processes.commands import Commands
from tests.processes.fleet import Fleet, open_fleet
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer


@pytest.fixture
def fleet(commands: Commands) -> Iterator[Fleet]:
    with open_fleet(commands) as opened:
        yield opened


OpenCluster = Callable[..., AbstractAsyncContextManager[Cluster]]


@pytest.fixture
def cluster_of(fleet: Fleet, tmp_path: Path, postgres: PostgresServer, empty_redis: RedisServer) -> OpenCluster:
    """Opens three nodes on fresh servers. Takes the arguments of `open_cluster`, including `Setting`s."""
    return partial(open_cluster, fleet, tmp_path, store_url=postgres.fresh(), state_url=empty_redis.url)


@pytest.fixture
async def cluster(cluster_of: OpenCluster) -> AsyncIterator[Cluster]:
    """Three nodes whose limits refuse no request."""
    async with cluster_of() as opened:
        yield opened
