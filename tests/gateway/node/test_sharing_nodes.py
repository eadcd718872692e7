"""Two whole nodes with one Redis, called as a server calls them: what callers see of the shared state."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import time
from types import MappingProxyType
from typing import Any

import orjson
import trio
from prometheus_client.parser import text_string_to_metric_families

from gateway.config.secrets import load_secret
from gateway.config.settings import Config, PlatformSettings, StateSettings, StoreSettings, UpstreamSettings
from gateway.node.node import Node, NodeSetting
from gateway.node.wiring import open_node
from gateway.observability.logs import Log
from tests.fakes.scripted_exchange import ScriptedExchange
from tests.fakes.sharer import after, thing
from tests.fakes.stores import store_at
from tests.servers.redis import RedisServer
from tests.servers.waiting import until
from tests.simulation.platform import PLATFORM
from upstreams.transport.http import Exchange

WAIT_S = 60
THING = "/v1/sim/thing?id=1"


@dataclass(slots=True)
class Running:
    node: Node
    key: str

    async def get(self, target: str, **headers: str) -> tuple[dict[str, str], dict[str, Any]]:
        """Return the headers and the body of a response."""
        path, _, query = target.partition("?")
        named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope: Any = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": query.encode(),
            "headers": [(b"x-api-key", self.key.encode()), *named],
        }
        sent: list[Any] = []

        async def receive() -> Any:
            await trio.sleep_forever()

        async def send(message: Any) -> None:
            await trio.lowlevel.checkpoint()
            sent.append(message)

        await self.node.api(scope, receive, send)
        response_headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return response_headers, orjson.loads(sent[1]["body"])

    async def metric(self, name: str) -> float:
        """Return a metric's value from a scrape."""
        metrics = text_string_to_metric_families((await self.node.admin._scrape()).decode())
        return next(sample.value for metric in metrics for sample in metric.samples if sample.name == name)


@asynccontextmanager
async def open_running(folder: Path, url: str, exchange: ScriptedExchange) -> AsyncIterator[Running]:
    @asynccontextmanager
    async def open_exchange(*, max_connections: int, egress: str, **_rest: object) -> AsyncIterator[Exchange]:
        yield exchange

    config = Config(
        store=StoreSettings(store_at(folder / "sluice.db")),
        state=StateSettings(url),
        upstreams=UpstreamSettings(platforms=MappingProxyType({"sim": PlatformSettings(retries=0)})),
    )
    setting = NodeSetting(
        config=config,
        read_config=lambda: config,
        secrets=load_secret({"SLUICE_SECRET": "a secret of tests, long enough"}, folder),
        environ={},
        base_url="https://node.test",
        log=Log("error", access=False, stream=io.BytesIO()),
        platforms=[PLATFORM],
        now=time,
        rng=Random(),
        open_exchange=open_exchange,
    )
    async with open_node(setting) as node:
        account = await node.operations.run("account.create", {"name": "test", "credits": 100})
        key = await node.operations.run("key.create", {"account": account["id"]})
        yield Running(node, key["key"])


async def test_nodes_with_shared_state_use_each_others_cache(tmp_path: Path, empty_redis: RedisServer) -> None:
    upstream = ScriptedExchange(after(0.3), thing("new"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with trio.fail_after(WAIT_S):
        async with (
            open_running(tmp_path / "one", empty_redis.url, upstream) as one,
            open_running(tmp_path / "two", empty_redis.url, upstream) as two,
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one.get, THING)
                await until(lambda: upstream.calls)
                headers, body = await two.get(THING)
            assert (headers["x-cache"], headers["x-credits-used"], headers["x-credits-remaining"]) == (
                "HIT",
                "0",
                "100",
            )
            assert (body["cached"], body["credits_used"]) == (True, 0)
            assert float(headers["x-sluice-overhead-ms"]) < 200, "waiting for another node is not overhead"
            assert (
                await two.metric("sluice_cache_shared_found_total")
                == await two.metric("sluice_cache_shared_waits_total")
                == 1
            )
            assert await one.metric("sluice_cache_shared_alone_total") == 0

            second_thing = "/v1/sim/thing?id=2"
            assert (await one.get(second_thing))[0]["x-cache"] == "MISS"
            await until(lambda: empty_redis.ask("KEYS", "*:lock") == [])
            assert (await two.get(f"{second_thing}&dry_run=1"))[1]["data"]["would_hit_cache"] is True
            fresh = await two.get(f"{second_thing}&dry_run=1", cache_control="no-cache")
            assert fresh[1]["data"]["would_hit_cache"] is False
            assert (await two.get(f"{second_thing}&max_credits=0"))[0]["x-cache"] == "HIT"
            refused = (await two.get("/v1/sim/thing?id=3&max_credits=0"))[1]
            assert refused["error"]["details"]["reason"] == "above_max_credits"
            assert len(upstream.calls) == 2


async def test_single_node_shares_no_cache_and_counts_no_sharing(tmp_path: Path) -> None:
    async with open_running(tmp_path, "memory:", ScriptedExchange(thing())) as alone:
        assert alone.node.calls.shared is None
        assert (await alone.get(THING))[0]["x-cache"] == "MISS"
        assert [await alone.metric(f"sluice_cache_shared_{what}_total") for what in ("found", "waits", "alone")] == [
            0,
            0,
            0,
        ]
