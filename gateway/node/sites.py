"""Opens the upstreams of a node: every enabled platform with its sources, credentials, breakers and connections."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

import orjson
import trio

from billing.errors import SealBroken
from billing.keys.sealing import Cipher
from gateway.config.settings import Config, PlatformSettings, WebSettings
from limits.breaker import Breaker, BreakerRules
from limits.shared_hints import CircuitHints
from storage.state import State
from storage.supervision import Keep, unsupervised
from upstreams.cache.response_cache import Cache
from upstreams.cache.shared_cache import SharedCache, open_shared_cache
from upstreams.fetching.aside import Aside
from upstreams.fetching.hosts import NamedSource
from upstreams.fetching.sessions import SharedSession
from upstreams.fetching.site import AnySource, Site
from upstreams.fetching.source import Rules, Source
from upstreams.fetching.spending import SharedUnits, Spending
from upstreams.fetching.suppliers import PartnerSource, Supplier
from upstreams.guard.addresses import HTTPS, OPEN_WEB, TargetRules
from upstreams.guard.pinned import PinnedExchange
from upstreams.guard.resolver import Resolve, SystemResolver
from upstreams.model.budgets import Budget
from upstreams.model.endpoint import Platform
from upstreams.model.sign_in import SignIn
from upstreams.model.steps import SignInSteps
from upstreams.transport.http import BODY_BYTES_MAX, Exchange
from upstreams.transport.pooled import open_transport
from upstreams.transport.proxy import read_proxy
from upstreams.transport.revalidating import Revalidating
from upstreams.transport.tunnels import reporting_proxy
from upstreams.web.browser.wanted import RENDER_S
from upstreams.web.browser.wanted import SOURCE as BROWSER
from upstreams.workers.pool import ProcessPool

if TYPE_CHECKING:
    from upstreams.web.browser.rendering import Rendering

_VERSION = "0.1"
_RESOLVING_MAX: Final = 100
"""Maximum number of concurrent DNS lookups of hosts that callers name."""
PAGE_BYTES_MAX: Final = 10 * 1024 * 1024
"""The maximum size of a web page, in bytes."""
ROUND_TRIP_S = 2.0
"""The time limit in seconds for a round trip that transfers a shared response.

Responses are long, so they get more time than admissions, and a separate link that delays no admission.
"""


class OpenExchange(Protocol):
    """Opens an exchange, which sends the requests to one platform's upstreams."""

    def __call__(
        self,
        *,
        max_connections: int,
        egress: str,
        proxy: str = "",
        body_bytes_max: int = BODY_BYTES_MAX,
        keep: Keep = unsupervised,
    ) -> AbstractAsyncContextManager[Exchange]:
        """Open the exchange with these limits, through `egress` or the proxy at a URL unless they are empty."""
        ...


ShareSession = Callable[[str, Mapping[str, str]], SharedSession | None]
"""Returns the session with this name, which all nodes share, opened with these credentials. The name is the slug of the
platform, or slug and source if the source has its own session."""


OpenSpending = Callable[[str, Budget], Spending]
"""Returns the count of a budget with this name, which is the same on all nodes."""

ChainOf = Callable[[str], Sequence[Supplier]]
"""Returns the suppliers with this interface in the order in which to call them."""


@asynccontextmanager
async def open_exchange(
    *,
    max_connections: int,
    egress: str,
    proxy: str = "",
    body_bytes_max: int = BODY_BYTES_MAX,
    keep: Keep = unsupervised,
) -> AsyncIterator[Exchange]:
    """Open the exchange over HTTP, with its own connections."""
    async with open_transport(
        max_connections=max_connections,
        egress=egress,
        proxy=read_proxy(proxy) if proxy else None,
        body_bytes_max=body_bytes_max,
        keep=keep,
    ) as transport:
        yield transport.exchange


@asynccontextmanager
async def open_sites(
    config: Config,
    platforms: Sequence[Platform],
    *,
    environ: Mapping[str, str],
    rng: Random,
    open_exchange: OpenExchange = open_exchange,
    resolve: Resolve | None = None,
    rendering: Rendering | None = None,
    share_session: ShareSession = lambda _slug, _credentials: None,
    chain_of: ChainOf = lambda _interface: (),
    report_proxy: Callable[[str, str], None] = lambda _slug, _problem: None,
    open_spending: OpenSpending = lambda _name, budget: Spending(budget, time.time),
    keep: Keep = unsupervised,
) -> AsyncIterator[list[Site]]:
    """Open a site for each platform that config.toml does not disable, with its own connections.

    `rendering` is used only for the web. `share_session` returns the session that all nodes share on a platform, and
    `chain_of` the suppliers with an interface. `report_proxy` receives the slug and the problem when the outbound proxy
    of a platform fails. `open_spending` returns the counts of the platforms' budgets.
    """
    by_slug: dict[str, Site] = {}  # complete before the first call
    async with AsyncExitStack() as stack:
        aside, workers = Aside(), ProcessPool()
        stack.callback(workers.close)
        find = None if config.upstreams.egress else resolve or SystemResolver(threads=_RESOLVING_MAX)
        for platform in platforms:
            settings = config.upstreams.platforms[platform.slug]
            if settings.enabled:
                exchange = await stack.enter_async_context(
                    open_exchange(
                        max_connections=settings.max_connections,
                        egress=config.upstreams.egress,
                        proxy="" if config.upstreams.egress else settings.proxy,
                        body_bytes_max=PAGE_BYTES_MAX if platform.open_web else BODY_BYTES_MAX,
                        keep=keep,
                    )
                )
                if settings.proxy:
                    exchange = reporting_proxy(exchange, partial(report_proxy, platform.slug))
                guarded = PinnedExchange(exchange, find, rules=_target_rules(platform))
                builder = _SiteBuilder(
                    platform,
                    settings,
                    config,
                    exchange=exchange,
                    guarded=guarded,
                    rng=rng,
                    aside=aside,
                    workers=workers,
                    rendering=rendering,
                    share_session=share_session,
                    chain_of=chain_of,
                    others=by_slug,
                    spendings=[
                        open_spending(f"{platform.slug}:{place}", budget)
                        for place, budget in enumerate(platform.budgets)
                    ],
                )
                site = by_slug[platform.slug] = builder.site(environ)
                if platform.open_web and rendering is not None:
                    rendering.join(site, guarded)
        yield list(by_slug.values())


@dataclass(frozen=True, slots=True)
class _SiteBuilder:
    """The parts that all sources of one platform share."""

    platform: Platform
    settings: PlatformSettings
    config: Config
    exchange: Exchange
    guarded: Exchange
    rng: Random
    aside: Aside
    workers: ProcessPool
    rendering: Rendering | None
    share_session: ShareSession
    chain_of: ChainOf
    others: Mapping[str, Site]
    spendings: Sequence[Spending]

    def site(self, environ: Mapping[str, str]) -> Site:
        """Return the platform with its sources."""
        platform = self.platform
        credentials = _credentials(self.settings, environ)
        if platform.slug == "web":
            credentials |= _search_engines(self.config.web, environ)
            credentials |= {} if self.rendering is None else {"browser_url": self.config.web.browser_url}
        if platform.revalidates is not None and all(map(credentials.__contains__, platform.revalidates)):
            return replace(self, exchange=Revalidating(self.exchange))._site(credentials)
        return self._site(credentials)

    def _site(self, credentials: Mapping[str, str]) -> Site:
        platform, contact = self.platform, self.config.upstreams.operator_contact
        sources: dict[str, AnySource] = {}
        for name, written in platform.sources.items():
            if name in platform.partners:
                if chain := self.chain_of(platform.partners[name]):
                    sources[name] = PartnerSource(name, platform.slug, chain)
                    credentials = {**credentials, name: chain[0].key}
                continue
            # A source that needs an operator's setting is left out if that setting is missing.
            address = credentials.get(written[1:], "") if written.startswith("$") else written
            if not address:
                continue
            param = platform.host_of(name)
            sources[name] = self._source(name, address) if param is None else self._named(name, param, credentials)
        plain = {"contact": contact, "robots": "" if self.config.web.respect_robots else "ignored"}
        known = {**credentials, **{name: value for name, value in plain.items() if value}}
        return Site(
            platform,
            sources,
            credentials=known,
            user_agent=f"sluice/{_VERSION} (+{contact})" if contact else f"sluice/{_VERSION}",
            aside=self.aside,
            workers=self.workers,
            others=self.others,
            share_session=partial(self._shared_session, known)
            if platform.shares_session
            else lambda _name, _steps: None,
        )

    def _shared_session(self, known: Mapping[str, str], source: str, sign_in: SignInSteps) -> SharedSession | None:
        """Return the store of a session that all nodes share. It is bound to the credentials that sign in."""
        slug = self.platform.slug
        own = {name: known.get(name, "") for name in sign_in.names} if isinstance(sign_in, SignIn) else known
        return self.share_session(f"{slug}:{source}" if source else slug, own)

    def _named(self, name: str, param: str, credentials: Mapping[str, str]) -> NamedSource:
        platform = self.platform
        params = (one for endpoint in platform.endpoints for one in endpoint.params if one.name == param)
        choice = next(params, None)
        are_ours = choice is not None and not choice.is_host
        return NamedSource(
            name,
            platform.sources[name],
            param,
            title=platform.title,
            default=None if choice is None or choice.default is None else str(choice.default),
            are_ours=are_ours,
            make=partial(self._source, name, allows_any_host=True, by_page=not are_ours),
            secrets=credentials.values(),
            rules=_target_rules(platform),
            now=trio.lowlevel.current_clock().current_time,
        )

    def _source(self, name: str, address: str, *, allows_any_host: bool = False, by_page: bool = False) -> Source:
        platform, clock = self.platform, trio.lowlevel.current_clock().current_time
        return Source(
            name,
            address,
            exchange=self._exchange(name, allows_any_host=allows_any_host),
            breaker=Breaker(breaker_rules(self.config), clock, needs_several=by_page),
            judge=platform.judge,
            backoff=platform.rest,
            method_of=platform.method_of,
            rules=source_rules(self.settings, name),
            rng=self.rng,
            now=clock,
            aside=self.aside,
            paces=platform.paces_of(name),
            budgets=[] if allows_any_host else [one for one in self.spendings if one.budget.of(name)],
            hidden=platform.hidden_error,
            allows_any_host=allows_any_host,
            by_page=by_page,
        )

    def _exchange(self, name: str, *, allows_any_host: bool) -> Exchange:
        if name == BROWSER and self.rendering is not None:
            return self.rendering.exchange
        return self.guarded if allows_any_host else self.exchange


def make_rendering(config: Config, *, warn: Callable[[str], None] = lambda _: None) -> Rendering | None:
    """Return the renderer that uses the operator's browser, or None if none is configured.

    If the browser cannot be used, `warn` is called with the reason.
    """
    if not config.web.browser_url:
        return None
    from upstreams.web.browser.browser import Browser  # noqa: PLC0415 - few nodes have a browser, also the next one
    from upstreams.web.browser.rendering import Rendering  # noqa: PLC0415

    browser = Browser(config.web.browser_url, contact=config.upstreams.operator_contact, warn=warn)
    return Rendering(browser, pages_max=config.web.browser_pages)


def breakers_of(sites: Sequence[Site]) -> dict[str, Breaker]:
    """Return the breaker of every source, by a name that is the same on all nodes.

    Breakers of hosts that callers name are not included, because they are not shared between nodes.
    """
    own = {
        f"{site.platform.slug}/{name}": source.breaker
        for site in sites
        for name, source in site.sources.items()
        if isinstance(source, Source)
    }
    partners = (partner for site in sites for partner in site.partners.values())
    return own | {f"supplier/{one.name}": one.source.breaker for partner in partners for one in partner.chain}


def breaker_rules(config: Config) -> BreakerRules:
    """Return the breaker rules from the config."""
    return BreakerRules(config.breaker.failures, config.breaker.window_s, config.breaker.open_s)


def source_rules(settings: PlatformSettings, name: str) -> Rules:
    """Return the rules for one source, from the settings of its platform.

    The browser has its own time limit, which is the limit for rendering a page.
    """
    return Rules(timeout_s=RENDER_S if name == BROWSER else settings.timeout_s, retries=settings.retries)


def _target_rules(platform: Platform) -> TargetRules:
    """Return the rules for hosts that the platform's callers name."""
    return OPEN_WEB if platform.open_web else HTTPS


def _search_engines(settings: WebSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of search engines whose environment variable is set, and the address of the operator's engine."""
    named = {
        "brave_key": settings.search.brave_key_env,
        "marginalia_key": settings.search.marginalia_key_env,
        "tavily_key": settings.search.tavily_key_env,
    }
    keys = {name: value for name, variable in named.items() if variable and (value := environ.get(variable))}
    return keys | ({"searxng_url": settings.search.searxng_url} if settings.search.searxng_url else {})


def _credentials(settings: PlatformSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the named environment variables. An unset variable counts as not configured."""
    return {what: value for what, name in settings.credentials.items() if name and (value := environ.get(name))}


def shared_session(
    state: State | None, cipher: Cipher, slug: str, credentials: Mapping[str, str]
) -> SharedSession | None:
    """Return the session that all nodes share on a platform, encrypted and bound to the credentials that open it.

    Returns None without `state`, because there are no other nodes.
    """
    if state is None:
        return None
    digest = sha256(orjson.dumps(sorted(credentials.items()))).hexdigest()
    bound_to = f"session of {slug} by {digest}"

    def unseal(sealed: str) -> str | None:
        try:
            return cipher.unseal(sealed, bound_to=bound_to)
        except SealBroken:
            return None

    return SharedSession(state, slug, seal=partial(cipher.seal, bound_to=bound_to), unseal=unseal)


def spending_over(state: State | None, now: Callable[[], float], name: str, budget: Budget) -> Spending:
    """Return the count of a budget, shared by all nodes with this state. `now` is Unix time."""
    return Spending(budget, now, None if state is None else SharedUnits(state, name))


@asynccontextmanager
async def open_sharing(
    state: State | None, cache: Cache, sites: Sequence[Site], *, keep: Keep = unsupervised
) -> AsyncIterator[SharedCache | None]:
    """Share this node's cache and its sites' circuits over `state` while the block runs.

    Yields None if `state` is None, because there is nothing to share with. Admissions use another link (see
    `ROUND_TRIP_S`).
    """
    if state is None:
        yield None
        return
    async with open_shared_cache(cache, state, keep=keep) as shared, trio.open_nursery() as nursery:
        nursery.start_soon(keep, "circuit_hints", CircuitHints(state, breakers_of(sites)).listen)
        yield shared
        nursery.cancel_scope.cancel()
