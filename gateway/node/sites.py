"""The upstream side of a node: every enabled platform with its sources, credentials, breakers and connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from random import Random
from typing import Protocol

import trio

from gateway.config.settings import Config, PlatformSettings
from limits.breaker import Breaker, BreakerRules
from limits.shared_hints import CircuitHints
from storage.state import State
from upstreams.cache.response_cache import Cache
from upstreams.cache.shared_cache import SharedCache, open_shared_cache
from upstreams.fetching.aside import Aside
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules, Source
from upstreams.model.endpoint import Platform
from upstreams.transport import open_transport
from upstreams.transport.http import Exchange

_VERSION = "0.1"
ROUND_TRIP_S = 2.0
"""Answers are long: they have a link of their own, so that no admission waits behind one, and more time."""


class OpenExchange(Protocol):
    """Opens the way to one platform's upstreams."""

    def __call__(self, *, max_connections: int, egress: str) -> AbstractAsyncContextManager[Exchange]:
        """As the platform's settings and the egress say."""
        ...


@asynccontextmanager
async def open_exchange(*, max_connections: int, egress: str) -> AsyncIterator[Exchange]:
    """The way over HTTP, with connections of its own."""
    async with open_transport(max_connections=max_connections, egress=egress) as transport:
        yield transport.exchange


@asynccontextmanager
async def open_sites(
    config: Config,
    platforms: Sequence[Platform],
    *,
    environ: Mapping[str, str],
    rng: Random,
    open_exchange: OpenExchange = open_exchange,
) -> AsyncIterator[list[Site]]:
    """A site a platform that config.toml does not disable, each with its own connections."""
    async with AsyncExitStack() as stack:
        sites = []
        aside = Aside()
        for platform in platforms:
            settings = config.upstreams.platforms[platform.slug]
            if settings.enabled:
                exchange = await stack.enter_async_context(
                    open_exchange(max_connections=settings.max_connections, egress=config.upstreams.egress)
                )
                site = _site(platform, settings, config, exchange=exchange, environ=environ, rng=rng, aside=aside)
                sites.append(site)
        yield sites


def _site(
    platform: Platform,
    settings: PlatformSettings,
    config: Config,
    *,
    exchange: Exchange,
    environ: Mapping[str, str],
    rng: Random,
    aside: Aside,
) -> Site:
    clock = trio.lowlevel.current_clock().current_time
    sources = {
        name: Source(
            name,
            base_url,
            exchange=exchange,
            breaker=Breaker(breaker_rules(config), clock),
            judge=platform.judge,
            backoff=platform.rest,
            method_of=platform.method_of,
            rules=source_rules(settings),
            rng=rng,
            now=clock,
            aside=aside,
            pace=platform.pace,
            hidden=platform.hidden_error,
        )
        for name, base_url in platform.sources.items()
    }
    contact = config.upstreams.operator_contact
    user_agent = f"sluice/{_VERSION} (+{contact})" if contact else f"sluice/{_VERSION}"
    return Site(platform, sources, credentials=_credentials(settings, environ), user_agent=user_agent, aside=aside)


def breakers_of(sites: Sequence[Site]) -> dict[str, Breaker]:
    """Every source's breaker, by the name that it has on all nodes."""
    return {f"{site.platform.slug}/{name}": source.breaker for site in sites for name, source in site.sources.items()}


def breaker_rules(config: Config) -> BreakerRules:
    """The breaker's settings as its rules."""
    return BreakerRules(config.breaker.failures, config.breaker.window_s, config.breaker.open_s)


def source_rules(settings: PlatformSettings) -> Rules:
    """A platform's settings as the rules of its sources."""
    return Rules(timeout_s=settings.timeout_s, retries=settings.retries)


def _credentials(settings: PlatformSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The values of the named environment variables; one that is not set counts as not configured."""
    names = {"token": settings.token_env, "key": settings.key_env}
    names |= {"identifier": settings.identifier_env, "password": settings.password_env}
    return {what: value for what, name in names.items() if name and (value := environ.get(name))}


@asynccontextmanager
async def open_sharing(state: State | None, cache: Cache, sites: Sequence[Site]) -> AsyncIterator[SharedCache | None]:
    """The cache that this node shares over `state`, while its sites' circuits are shared too.

    None where the state is this node's own memory. The link is not that of the admissions; see `ROUND_TRIP_S`.
    """
    if state is None:
        yield None
        return
    async with open_shared_cache(cache, state) as shared, trio.open_nursery() as nursery:
        nursery.start_soon(CircuitHints(state, breakers_of(sites)).listen)
        yield shared
        nursery.cancel_scope.cancel()
