"""The operations on the circuits of a node's platforms, and all that the node knows of their sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import msgspec
import trio

from gateway.admin.operations import Nothing, Operation, OperationRefused, Operations
from gateway.observability.metrics import Waits
from upstreams.catalog import Catalog
from upstreams.fetching.hosts import NamedSource
from upstreams.fetching.site import Site
from upstreams.fetching.source import Source


class PlatformName(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `platform.isolate` and `platform.reset`."""

    platform: str


class Circuits:
    """The operations on every source of one platform: keep it out, or close its circuits and forget its failures."""

    def __init__(self, catalog: Catalog, waits_for: Callable[[str], Waits]) -> None:
        """`waits_for` tells how long requests have waited for a platform."""
        self._catalog = catalog
        self._waits_for = waits_for

    def add_to(self, operations: Operations) -> None:
        """Offer them."""
        operations.add("platform.list", Operation(Nothing, self._list))
        operations.add("platform.isolate", Operation(PlatformName, self._isolate))
        operations.add("platform.reset", Operation(PlatformName, self._reset))

    async def _list(self, _args: Nothing) -> Any:
        await trio.lowlevel.checkpoint()
        return [self._figures(site) for site in self._catalog.sites.values()]

    async def _isolate(self, args: PlatformName) -> Any:
        await trio.lowlevel.checkpoint()
        site = self._site(args)
        for source in site.sources.values():
            source.breaker.isolate()
        return _states(site)

    async def _reset(self, args: PlatformName) -> Any:
        await trio.lowlevel.checkpoint()
        site = self._site(args)
        for source in site.sources.values():
            source.breaker.reset()
        return _states(site)

    def _figures(self, site: Site) -> dict[str, Any]:
        """A platform's waits since the node began, and of its sources the circuits, the calls and their standing."""
        slug, title = site.platform.slug, site.platform.title
        sources = {name: _source(source) for name, source in site.sources.items()}
        return {"platform": slug, "title": title, "waits": self._waits_for(slug)._asdict(), "sources": sources}

    def _site(self, args: PlatformName) -> Site:
        site = self._catalog.sites.get(args.platform)
        if site is None:
            raise OperationRefused(f"this node serves no platform {args.platform}")
        return site


def _states(site: Site) -> dict[str, Any]:
    """The states of a platform's circuits, by source."""
    return {
        "platform": site.platform.slug,
        "sources": {name: source.breaker.state for name, source in site.sources.items()},
    }


def _source(source: Source | NamedSource) -> dict[str, Any]:
    """A source's circuit and its calls since the node began; its standing, unless callers name its hosts."""
    standing = {} if isinstance(source, NamedSource) else asdict(source.standing())
    circuit = source.breaker.statistics()
    only = circuit.only_account or None
    return {"state": circuit.state, "only_account": only, **asdict(source.statistics()), **standing}
