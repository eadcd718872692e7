"""One node of a simulated world, from its start to its death: the product's own objects, and their observers."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from types import MappingProxyType

import trio

from gateway.config.secrets import Secrets, load_secret
from gateway.config.settings import (
    BreakerSettings,
    Config,
    LimitSettings,
    LogSettings,
    PlatformSettings,
    ServerSettings,
    UpstreamSettings,
)
from gateway.node.node import Node, NodeSetting
from gateway.node.wiring import open_node
from gateway.observability.logs import Log
from gateway.server.asgi import ReceiveMessage, SendMessage
from gateway.server.errors import ClientGone
from limits.breaker import BreakerRules
from storage.supervision import Keep, unsupervised
from tests.simulation.admission import Gate, watch
from tests.simulation.breaker_model import BreakerModel
from tests.simulation.platform import PLATFORM, SOURCES
from tests.simulation.requests import Sent
from tests.simulation.store import SimStore
from tests.simulation.trace import Trace
from tests.simulation.upstream import Upstream
from upstreams.fetching.source import Source
from upstreams.transport.http import Exchange

EPOCH = 1_790_000_000.0


def first_config() -> Config:
    """Low limits and short times, so that a short-lived node reaches all of them."""
    return Config(
        server=ServerSettings(request_timeout_s=15.0),
        limits=LimitSettings(requests_per_minute=25, concurrent_requests=4),
        upstreams=UpstreamSettings(platforms=MappingProxyType({"sim": PlatformSettings(timeout_s=6.0, retries=2)})),
        breaker=BreakerSettings(failures=3, window_s=30.0, open_s=8.0),
        log=LogSettings(level="error", access=False),
    )


@cache
def _secrets() -> Secrets:
    return load_secret({"SLUICE_SECRET": "a secret of simulated worlds"}, Path())


@dataclass
class Life:
    """A serving node."""

    node: Node
    store: SimStore
    gate: Gate
    models: dict[str, BreakerModel]

    @staticmethod
    @asynccontextmanager
    async def begin(
        store: SimStore, upstream: Upstream, rng: Random, trace: Trace, *, config: Callable[[], Config]
    ) -> AsyncIterator[Life]:
        """Run a node on this store and these upstreams, under observation."""

        @asynccontextmanager
        async def open_exchange(
            *, max_connections: int, egress: str, proxy: str = "", body_bytes_max: int = 0, keep: Keep = unsupervised
        ) -> AsyncIterator[Exchange]:
            yield upstream.exchange

        now = config()
        setting = NodeSetting(
            config=now,
            read_config=config,
            secrets=_secrets(),
            environ={},
            base_url="https://node.test",
            log=Log("error", access=False, stream=io.BytesIO()),
            platforms=[PLATFORM],
            now=lambda: EPOCH + trio.current_time(),
            rng=rng,
            open_store=store.open,
            open_exchange=open_exchange,
        )
        rules = BreakerRules(now.breaker.failures, now.breaker.window_s, now.breaker.open_s)
        models = {name: BreakerModel(rules, trace.hold, name) for name in SOURCES}
        upstream.meet(models)
        limits = now.limits
        gate = Gate(trace, per_minute=limits.requests_per_minute, at_once=limits.concurrent_requests)
        async with open_node(setting) as node:
            watch(node.admission, gate)
            for source in node.catalog.sites["sim"].sources.values():
                assert isinstance(source, Source)
                upstream.watch(source)
            yield Life(node, store, gate, models)
            assert not any(node.supervision.failures().values()), node.supervision.failures()

    async def answer(self, sent: Sent) -> None:
        """Pass a request to the node like a server does."""
        head: list[tuple[int, list[tuple[bytes, bytes]]]] = []
        body = bytearray()

        came = iter(({"type": "http.request", "body": b"", "more_body": False},))

        async def receive() -> ReceiveMessage:
            await trio.lowlevel.checkpoint()
            for message in came:
                return message
            await trio.sleep_until(sent.patience_ends_at)
            return {"type": "http.disconnect"}

        async def send(message: SendMessage) -> None:
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            if is_last or sent.wants_events:
                self.gate.tell(sent)
            await trio.sleep(0.0 if sent.patience_ends_at > trio.current_time() else 0.01)
            if sent.patience_ends_at <= trio.current_time():
                raise ClientGone
            if message["type"] == "http.response.start":
                head.append((message["status"], message["headers"]))
            elif message["type"] == "http.response.body":
                body.extend(message["body"])
                if not message.get("more_body"):
                    sent.take(*head[0], bytes(body))

        await self.node.api(sent.scope(), receive, send)

    def compare(self) -> None:
        """Compare the node's memory with its expected contents."""
        self.gate.compare(self.node.admission)
        now = trio.current_time()
        for name, source in self.node.catalog.sites["sim"].sources.items():
            self.models[name].compare(source.breaker, now)

    def leftover_counts(self) -> dict[str, int]:
        """Return the counts that must be zero when no request runs."""
        return {
            "leases": self.node.admission.gate.statistics().leases,
            "flights": len(self.node.calls.flights),
            "unfinished": self.node.stores.billing.charges.unfinished(),
            "closing": len(self.store.closing()),
        }
