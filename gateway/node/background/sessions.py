"""Opens web sessions on a running node: the holder of their open pages, and the service for their owners."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from gateway.config.settings import Config
from gateway.node.stores import Stores
from gateway.runtime import Runtime
from scheduler.sessions.holder import HolderSetting, open_holder
from scheduler.sessions.service import PLATFORM, SessionService
from storage.opening import is_shared
from upstreams.fetching.site import Site

if TYPE_CHECKING:
    from upstreams.web.browser.held_pages import HeldPages
    from upstreams.web.browser.rendering import Rendering


@asynccontextmanager
async def open_sessions(
    config: Config,
    stores: Stores,
    sites: Mapping[str, Site],
    rendering: Rendering | None,
    *,
    runtime: Runtime,
) -> AsyncIterator[SessionService]:
    """Open the session service while the block runs.

    Without a configured browser, it only shows sessions of other nodes.

    Raises:
        StorageError: the store is unavailable.
    """
    site = sites.get(PLATFORM)
    pages = None if rendering is None or site is None else _held_pages(rendering, site)
    setting = HolderSetting(
        store=stores.store,
        charges=stores.billing.charges,
        pages=pages,
        log=runtime.log,
        keep=runtime.keep,
        now=runtime.now,
        is_alone=not is_shared(config.store.url),
    )
    async with open_holder(setting) as holder:
        yield SessionService(
            stores.store,
            stores.billing.charges,
            holder,
            pages,
            now=runtime.now,
            make_id=runtime.make_id,
            held_max=config.web.browser_sessions,
        )


def _held_pages(rendering: Rendering, site: Site) -> HeldPages:
    from upstreams.web.browser.held_pages import HeldPages  # noqa: PLC0415 - few nodes have a browser

    return HeldPages(rendering, site)
