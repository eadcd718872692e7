"""Billed calls of one of many nodes: its own stores and cache, a scripted upstream, and a real shared state."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from time import time
from types import MappingProxyType
from typing import Any

import trio

from billing.keys.cache import Key
from billing.ledger.verification import verify
from billing.prices import credits_for
from gateway.calls.execute import BilledCalls
from gateway.calls.idempotency import Claims
from gateway.calls.request import CallFailed, CallRequest, CallResult, cache_key, claim_of
from gateway.config.secrets import load_secret
from gateway.config.settings import BreakerSettings, Config, PlatformSettings, StoreSettings, UpstreamSettings
from gateway.node.sites import ROUND_TRIP_S, open_sharing, open_sites
from gateway.node.state import open_state
from gateway.node.stores import Stores, open_stores
from limits.errors import LimitError
from storage.supervision import unsupervised
from tests.fakes.runtime import runtime_of
from tests.fakes.scripted_exchange import Scripted, ScriptedExchange, Slow, http_answer
from tests.fakes.stores import store_at
from tests.simulation.platform import PLATFORM
from upstreams.cache.response_cache import Cache
from upstreams.catalog import Catalog
from upstreams.model.cursors import CursorSigner
from upstreams.model.errors import UpstreamError
from upstreams.transport.http import Exchange, HttpCall

CREDITS = 1000
BROKEN = http_answer({"message": "broken"}, 503)


def thing(text: str = "text") -> Scripted:
    """Return a complete answer from `sim/thing`."""
    return http_answer({"id": "1", "text": text})


def after(seconds: float, then: Scripted | None = None) -> Slow:
    """Return the same answer after a delay."""
    answer = then or thing()
    assert not isinstance(answer, Slow)
    return Slow(seconds, answer)


def short_pages(call: HttpCall) -> Scripted:
    """Script `sim/gathered` with one thing per page, fewer than requested."""
    number = int(call.target.split("p=")[1].split("&")[0])
    return http_answer({"items": [{"id": str(number), "text": "text"}]})


@dataclass(slots=True)
class Sharer:
    """The parts of one node that a billed call needs, with one account."""

    calls: BilledCalls
    stores: Stores
    catalog: Catalog
    key: Key
    credits: int
    _numbers: Any = field(default_factory=count)

    def ask(self, resource: str = "thing", *, claim: str = "", refresh: bool = False, **values: Any) -> CallRequest:
        """Build one request of the account."""
        listing = self.catalog.by_id(f"sim/{resource}")
        assert listing is not None
        values = listing.endpoint.with_defaults(values or {"id": "1"})
        named = cache_key(listing, values)
        ask = CallRequest(
            self.key,
            listing,
            credits_for(listing.endpoint.tier),
            values,
            named,
            f"req_{next(self._numbers)}",
            self.stores.billing.charges.settle_nowait,
            refresh,
        )
        ask.claim = claim_of(ask, claim) if claim else None
        return ask

    async def get(self, resource: str = "thing", **more: Any) -> CallResult:
        """Make one request and return its result."""
        return await self.calls.call(self.ask(resource, **more))

    async def spent(self) -> int:
        """Return the credits spent so far, after checking that no credits are reserved and the ledger is sound."""
        await self.stores.store.write(lambda _tx: None)
        report = await self.stores.billing.ledger.report(self.key.account_id)
        assert report.held == 0
        assert await self.stores.store.read(verify) == []
        return self.credits - report.balance

    def fault(self) -> bool:
        """Return whether the node considers the shared state unavailable."""
        assert self.calls.shared is not None
        return self.calls.shared._state.fault is not None


async def all_at_once(
    nodes: list[Sharer], times: int, resource: str = "thing"
) -> tuple[list[CallResult], Counter[str]]:
    """Make the same request several times on each node. Return the answers, and the failures by name."""
    outcomes: list[CallResult] = []
    failures: Counter[str] = Counter()

    async def ask(node: Sharer) -> None:
        try:
            outcomes.append(await node.get(resource))
        except (CallFailed, UpstreamError, LimitError) as exc:
            failures[type(exc.__cause__ if isinstance(exc, CallFailed) else exc).__name__] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(times):
            for node in nodes:
                nursery.start_soon(ask, node)
    return outcomes, failures


def _config(folder: Path, *, timeout_s: float, failures: int) -> Config:
    folder.mkdir(exist_ok=True)
    sim = PlatformSettings(retries=0, timeout_s=timeout_s)
    return Config(
        store=StoreSettings(store_at(folder / "sluice.db")),
        upstreams=UpstreamSettings(platforms=MappingProxyType({"sim": sim})),
        breaker=BreakerSettings(failures=failures, open_s=5.0),
    )


@asynccontextmanager
async def open_sharer(
    folder: Path,
    url: str,
    exchange: ScriptedExchange,
    *,
    credits: int = CREDITS,  # noqa: A002 - the specification's name
    timeout_s: float = 20.0,
    failures: int = 1000,
) -> AsyncIterator[Sharer]:
    """Open a node whose state is at `url`, until the block ends."""

    @asynccontextmanager
    async def open_exchange(*, max_connections: int, egress: str, **_rest: object) -> AsyncIterator[Exchange]:
        yield exchange

    config, secrets, ids = _config(folder, timeout_s=timeout_s, failures=failures), _secrets(), count(1)
    cache = Cache(1_000_000, trio.current_time)
    runtime = runtime_of(now=time, make_id=lambda prefix: f"{prefix}{next(ids):08d}", log=io.BytesIO())
    async with (
        open_stores(config, secrets, now=time, make_id=runtime.make_id) as stores,
        open_sites(config, [PLATFORM], environ={}, rng=Random(1), open_exchange=open_exchange) as sites,
        open_state(url, round_trip_s=ROUND_TRIP_S, keep=unsupervised) as state,
        open_sharing(state, cache, sites) as shared,
    ):
        calls = BilledCalls(
            stores.billing.charges,
            stores.billing.balances,
            Claims(stores.store, stores.billing.charges, now=time),
            cache=cache,
            signer=CursorSigner(secrets.cursors),
            runtime=runtime,
            timeout_s=timeout_s,
            base_url="https://node.test",
            disk=stores.disk,
            shared=shared,
        )
        account = await stores.billing.accounts.create("test", credits=credits)
        made = await stores.billing.keys.create(account.id)
        yield Sharer(calls, stores, Catalog(sites), await stores.billing.keys.find(made.key), credits)


def _secrets() -> Any:
    return load_secret({"SLUICE_SECRET": "a secret of tests, long enough"}, Path())
