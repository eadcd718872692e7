"""A platform on hosts that the caller names, with a scripted upstream."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import trio

from limits.breaker import Breaker, BreakerRules
from tests.fakes.scripted_exchange import Script, ScriptedExchange
from tests.platforms.drive import endpoint
from tests.scheduler.webhooks.receivers import PUBLIC, Resolver
from upstreams.fetching.fetch import fetch
from upstreams.fetching.hosts import NamedSource
from upstreams.fetching.plan import plan
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules, Source
from upstreams.guard.pinned import PinnedExchange
from upstreams.model.endpoint import Platform
from upstreams.model.params import Args, State
from upstreams.model.steps import Page, Single

_LONG_S = 20.0


class Hosted:
    """Opens the platform on any host, without retries. `script` answers each call."""

    def __init__(self, platform: Platform, script: Script) -> None:
        self.platform = platform
        self.exchange = ScriptedExchange(script=script)
        guarded = PinnedExchange(self.exchange, Resolver([PUBLIC]))

        def make(name: str, base_url: str) -> Source:
            return Source(
                name, base_url, exchange=guarded, breaker=Breaker(BreakerRules(), trio.current_time),
                judge=platform.judge, backoff=platform.rest, method_of=platform.method_of, rules=Rules(retries=0),
                rng=Random(1), allows_any_host=True,
            )  # fmt: skip

        sources = {
            name: NamedSource(name, address, param, title=platform.title, default=None, make=partial(make, name))
            for name, address in platform.sources.items()
            if (param := platform.host_of(name)) is not None
        }
        self.site = Site(platform, sources, credentials={}, user_agent="sluice/1")

    async def get(self, resource: str, cursor: State | None = None, **params: Any) -> Page | Single:
        """Return the result of a request.

        Raises:
            UpstreamError, LimitError: The request failed.
        """
        one = endpoint(self.platform, resource)
        planned = plan(self.site, one, Args(one.canonical(params), cursor))
        return (await fetch(planned, trio.current_time() + _LONG_S)).result

    def asked(self) -> list[str]:
        """Return the host and path of each call since the last time this method was called."""
        asked = [f"{call.origin.host}{call.target.partition('?')[0]}" for call in self.exchange.calls]
        self.exchange.calls.clear()
        return asked
