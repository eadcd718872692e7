"""The operator's hand on the circuits: keep a platform out, or close its circuits and forget its failures."""

from __future__ import annotations

from typing import Any

import msgspec
import trio

from gateway.admin.operations import Operation, OperationRefused, Operations
from upstreams.catalog import Catalog
from upstreams.fetching.site import Site


class PlatformName(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `platform.isolate` and `platform.reset`."""

    platform: str


class Circuits:
    """The operations on every source of one platform."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def add_to(self, operations: Operations) -> None:
        """Offer them."""
        operations.add("platform.isolate", Operation(PlatformName, self._isolate))
        operations.add("platform.reset", Operation(PlatformName, self._reset))

    async def _isolate(self, args: PlatformName) -> Any:
        await trio.lowlevel.checkpoint()
        site = self._site(args)
        for source in site.sources.values():
            source.breaker.isolate()
        return _shown(site)

    async def _reset(self, args: PlatformName) -> Any:
        await trio.lowlevel.checkpoint()
        site = self._site(args)
        for source in site.sources.values():
            source.breaker.reset()
        return _shown(site)

    def _site(self, args: PlatformName) -> Site:
        site = self._catalog.sites.get(args.platform)
        if site is None:
            raise OperationRefused(f"this node serves no platform {args.platform}")
        return site


def _shown(site: Site) -> dict[str, Any]:
    return {
        "platform": site.platform.slug,
        "sources": {name: source.breaker.state for name, source in site.sources.items()},
    }
