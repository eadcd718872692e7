"""A bad network between the nodes and each of their servers: charges are correct, whatever the responses are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import trio

from tests.many.harness import Cluster, Node, open_cluster, until
from tests.many.load import MISS, ask_all, open_load
from tests.processes.fleet import Fleet
from tests.servers.poison import Poison
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.servers.toxic import Toxic, open_toxic

LIMIT = 150
POISONED_S = 1.0
WELL_S = 30.0
POISONS = {
    "latency": Poison(latency_s=0.01, jitter_s=0.02),
    "stall": Poison(is_stalled=True),
    "reset": Poison(reset_after=700),
    "slow close": Poison(close_delay_s=0.5),
    "cut": Poison(cut_after=500),
    "bandwidth": Poison(bytes_per_s=20_000),
}
SERVED_OR_REFUSED = {200, 409, 429, 503}


async def test_no_network_fault_breaks_the_window_or_the_charges(
    fleet: Fleet, tmp_path: Path, postgres: PostgresServer, empty_redis: RedisServer
) -> None:
    """Method: the same nodes with one fault after another, first on the way to Redis, then to PostgreSQL."""
    direct_url = postgres.fresh()
    async with (
        open_toxic("127.0.0.1", empty_redis.port) as to_redis,
        open_toxic("127.0.0.1", postgres.port) as to_postgres,
        open_cluster(
            fleet,
            tmp_path,
            store_url=postgres.url(to_postgres.port),
            state_url=f"redis://127.0.0.1:{to_redis.port}",
            direct_url=direct_url,
            limits__requests_per_minute=LIMIT,
        ) as cluster,
    ):
        for name, poison in POISONS.items():
            try:
                await _check_fault(cluster, to_redis, poison, hang_up=empty_redis.hang_up)
                await _check_fault(cluster, to_postgres, poison, hang_up=postgres.hang_up)
                await cluster.assert_sound()
            except BaseException as exc:
                exc.add_note(f"the poison was: {name}")
                raise


async def _check_fault(cluster: Cluster, toxic: Toxic, poison: Poison, *, hang_up: Callable[[], None]) -> None:
    """Make calls with one key, some of them identical, while a server is hard to reach. Then everything recovers."""
    (_, key), (_, other_key) = await cluster.new_key(balance=1000), await cluster.new_key(balance=1000)
    once = MISS.format(n=f"-once-{next(cluster.numbers)}")
    async with open_load(cluster, key=key) as answers:
        await trio.sleep(0.2)
        toxic.set(poison)
        if poison.close_delay_s:
            hang_up()
        answers.extend(await ask_all(cluster, [once] * 6, key=key, tries=1, idempotency_key=once))
        await trio.sleep(POISONED_S)
        toxic.heal()
    statuses = {answer.status for answer in answers}
    assert statuses <= SERVED_OR_REFUSED
    if poison.is_stalled or poison.cut_after or poison.reset_after:
        assert 503 in statuses, "the fault must affect some requests"
    assert sum(answer.status == 200 for answer in answers) <= LIMIT, "the window's limit is respected"
    for node in cluster.nodes:
        await until(partial(_is_served, cluster, node, other_key), within_s=WELL_S)


async def _is_served(cluster: Cluster, node: Node, key: str) -> bool:
    answer = await cluster.ask(node, MISS.format(n=next(cluster.numbers)), key)
    return answer.status == 200
