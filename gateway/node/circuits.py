"""Operator operations on the circuits of a node's platforms, and the node's statistics about their sources."""

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
from upstreams.fetching.site import AnySource, Site


class PlatformName(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `platform.isolate` and `platform.reset`."""

    platform: str


class Circuits:
    """Operations that list the platforms, isolate a platform's sources, or reset the circuits of its sources."""

    def __init__(self, catalog: Catalog, waits_for: Callable[[str], Waits]) -> None:
        """`waits_for` returns how long requests have waited for a platform."""
        self._catalog = catalog
        self._waits_for = waits_for

    def add_to(self, operations: Operations) -> None:
        """Register the operations."""
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
        """Return a platform's waits since the node started, and each source's circuit, calls and standing."""
        slug, title = site.platform.slug, site.platform.title
        sources = {name: _source(source) for name, source in site.sources.items()}
        return {"platform": slug, "title": title, "waits": self._waits_for(slug)._asdict(), "sources": sources}

    def _site(self, args: PlatformName) -> Site:
        site = self._catalog.sites.get(args.platform)
        if site is None:
            raise OperationRefused(f"the platform {args.platform} is not served by this node")
        return site


def _states(site: Site) -> dict[str, Any]:
    """Return the states of a platform's circuits, by source."""
    return {
        "platform": site.platform.slug,
        "sources": {name: source.breaker.state for name, source in site.sources.items()},
    }


def _source(source: AnySource) -> dict[str, Any]:
    """Return a source's circuit, its calls since the node started and, unless callers name its hosts, its standing."""
    standing = {} if isinstance(source, NamedSource) else asdict(source.standing())
    circuit = source.breaker.statistics()
    only = circuit.only_account or None
    return {"state": circuit.state, "only_account": only, **asdict(source.statistics()), **standing}
