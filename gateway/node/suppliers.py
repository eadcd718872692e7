"""Opens the suppliers of a node, and stores what their calls cost and what the operator must know (decisions 25)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Final

import trio

from gateway.config.settings import Config, SupplierSettings
from gateway.node.sites import OpenExchange, breaker_rules, open_exchange
from limits.breaker import Breaker
from storage.supervision import Keep, unsupervised
from upstreams.fetching.source import Rules, Source
from upstreams.fetching.supplier_costs import SupplierCosts
from upstreams.fetching.suppliers import Supplier, SupplierWatch
from upstreams.model.errors import UpstreamError
from upstreams.suppliers import interface_names, load_interface

SANDBOX_KEY: Final = "SLUICE_SANDBOX_SUPPLIER_KEY"
"""The environment variable with the key of a sandbox's suppliers."""


class Unwatched:
    """Ignores what happens at suppliers, for commands that make single calls."""

    def failed(self, supplier: str, platform: str, failure: UpstreamError) -> None:
        """See `SupplierWatch`."""

    def alert(self, supplier: str, kind: str) -> None:
        """See `SupplierWatch`."""


@dataclass(frozen=True, slots=True)
class Suppliers:
    """The suppliers of a node whose keys are configured, by name."""

    by_name: Mapping[str, Supplier]
    settings: Mapping[str, SupplierSettings]

    def chain(self, interface: str) -> tuple[Supplier, ...]:
        """Return the suppliers with this interface in the order in which to call them."""
        fallbacks = {one.fallback for one in self.settings.values()}
        names: dict[str, None] = {}
        for head, one in self.settings.items():
            name = head if one.interface == interface and head not in fallbacks else ""
            while name:
                names[name] = None
                name = self.settings[name].fallback
        return tuple(self.by_name[name] for name in names if name in self.by_name)


@asynccontextmanager
async def open_suppliers(
    config: Config,
    *,
    environ: Mapping[str, str],
    rng: Random,
    now: Callable[[], float],
    watch: SupplierWatch | None = None,
    open_exchange: OpenExchange = open_exchange,
    keep: Keep = unsupervised,
) -> AsyncIterator[Suppliers]:
    """Open every supplier that is enabled and whose key is set, each with its own connections. `now` is Unix time."""
    by_name: dict[str, Supplier] = {}
    async with AsyncExitStack() as stack:
        for name, settings in config.suppliers.items():
            key = environ.get(settings.key_env, "")
            if settings.enabled and key:
                exchange = await stack.enter_async_context(
                    open_exchange(
                        max_connections=settings.max_connections,
                        egress=config.upstreams.egress,
                        proxy="" if config.upstreams.egress else settings.proxy,
                        keep=keep,
                    )
                )
                interface, clock = load_interface(settings.interface), trio.lowlevel.current_clock().current_time
                source = Source(
                    name,
                    settings.base_url or interface.base_url,
                    exchange=exchange,
                    breaker=Breaker(breaker_rules(config), clock, needs_several=True),
                    judge=interface.judge,
                    backoff=lambda _answer: None,
                    method_of=lambda _path: "",
                    rules=supplier_rules(settings),
                    rng=rng,
                    now=clock,
                    paces=() if interface.pace is None else (interface.pace,),
                    hidden=interface.hidden_error,
                    address_of=interface.group_of,
                )
                costs = SupplierCosts(now, settings.daily_budget)
                by_name[name] = Supplier(name, interface, source, key=key, costs=costs, watch=watch or Unwatched())
        yield Suppliers(by_name, config.suppliers)


def supplier_rules(settings: SupplierSettings) -> Rules:
    """Return the time limit and the retries of calls to a supplier."""
    return Rules(timeout_s=settings.timeout_s, retries=settings.retries)


def sandbox_suppliers() -> dict[str, SupplierSettings]:
    """Return one supplier for each interface, all of which the sandbox simulates."""
    return {name: SupplierSettings(interface=name, key_env=SANDBOX_KEY) for name in interface_names()}
