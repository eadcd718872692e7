"""This node's interface to the operator's browser, with a bounded number of open pages (decisions 21)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import httpx
import trio

from upstreams.model.errors import SourceUnusable
from upstreams.transport.http import Exchange
from upstreams.web.browser.address import BrowserAddress
from upstreams.web.browser.appearances import Appearance
from upstreams.web.browser.devtools import CommandRefused, DevTools, find_browser, open_devtools
from upstreams.web.browser.page import BrowserPage
from upstreams.web.browser.renderers import PageBounds, Renderers
from upstreams.web.browser.resources import MayVisit, Resources
from upstreams.web.browser.wanted import SOURCE
from upstreams.web.browser.watch import PageWatch

NOWHERE: Final = "http://127.0.0.1:1"
"""The proxy of every page's context: an address where nothing listens."""
FLAG: Final = "--webrtc-ip-handling-policy=disable_non_proxied_udp"
"""A flag that the browser must have been started with. It prevents packets from bypassing the proxy."""


class Browser:
    """Opens pages in the operator's browser. Every request of a page is checked and sent by `exchange`, a guard."""

    def __init__(
        self,
        url: str,
        *,
        contact: str = "",
        warn: Callable[[str], None] = lambda _: None,
        bounds: PageBounds = PageBounds(),  # noqa: B008 - the default is immutable
    ) -> None:
        """Create the browser. If the browser is unusable, `warn` is called with the reason, once per browser start."""
        self._url = url
        self._contact = contact
        self._warn = warn
        self.renderers = Renderers(bounds)
        self.exchange: Exchange
        """The guard; set once, when the node's sites are created."""
        self._checked = ""
        """The address of the browser whose flags were checked most recently."""
        self._problem = ""
        """The reason why this browser cannot be used."""
        self.pages_open = 0
        self.pages_total = 0

    async def reach(self) -> BrowserAddress:
        """Return the browser's current address, which changes when the browser restarts.

        Raises:
            SourceUnusable: The browser was started without the required flag.
            httpx.RequestError: The browser cannot be reached.
        """
        address = await find_browser(self._url)
        if address.path != self._checked:
            async with open_devtools(address) as devtools:
                problem = await _problem_of(devtools)
                await self.renderers.detect_local(devtools, address.port)
            self._checked, self._problem = address.path, problem
            if problem:
                self._warn(problem)
        if self._problem:
            raise SourceUnusable(SOURCE, self._problem)
        return address

    @asynccontextmanager
    async def open_page(self, appearance: Appearance, may_visit: MayVisit) -> AsyncIterator[BrowserPage]:
        """Yield an empty page in a separate context without cookies; both are closed when the block ends.

        The block is cancelled when the page exceeds its limits.

        Raises:
            PageTooCostly: The page exceeded the time or memory limit.
            UpstreamFailed: The page crashed.
            SourceUnusable: The browser was started without the required flag.
            httpx.RequestError: The browser cannot be reached, or the connection ended.
        """
        failure: Exception | None = None
        address = await self.reach()
        self.pages_open += 1
        self.pages_total += 1
        try:
            async with open_devtools(address) as devtools, trio.open_nursery() as nursery:
                watch: PageWatch | None = None
                try:
                    page = await self._opened(devtools, nursery, appearance, may_visit)
                    watch = page.watch
                    nursery.start_soon(_watch, page, nursery.cancel_scope)
                    yield page
                except Exception as exc:  # noqa: BLE001 - raised below, outside the nursery, which would wrap it in a group
                    failure = exc
                    if watch is not None and watch.verdict is None:
                        watch.verdict = watch.judge()  # judged now, because the block ends before the next measurement
                finally:
                    devtools.observers.clear()  # a later event would start work in a nursery that is closing
                nursery.cancel_scope.cancel()
        finally:
            self.pages_open -= 1
        if watch is not None and watch.verdict is not None:
            raise watch.verdict
        if failure is not None:
            raise failure

    @asynccontextmanager
    async def attached(self, target_id: str) -> AsyncIterator[BrowserPage]:
        """Yield a page that another connection has opened, for the duration of the block.

        Raises:
            CommandRefused: The page no longer exists.
            httpx.RequestError: The browser cannot be reached, or the connection ended.
        """
        async with open_devtools(await self.reach()) as devtools:
            session = (await devtools.call("Target.attachToTarget", targetId=target_id, flatten=True))["sessionId"]
            page = BrowserPage(devtools, session, target_id)
            await page.call("Page.enable")
            yield page

    async def _opened(
        self, devtools: DevTools, nursery: trio.Nursery, appearance: Appearance, may_visit: MayVisit
    ) -> BrowserPage:
        """Open the page. Its context ends with the connection, so no cleanup is needed."""
        try:
            made = await devtools.call(
                "Target.createBrowserContext", disposeOnDetach=True, proxyServer=NOWHERE, proxyBypassList="<-loopback>"
            )
            context = made["browserContextId"]
            await devtools.call("Browser.setDownloadBehavior", behavior="deny", browserContextId=context)
            target = (await devtools.call("Target.createTarget", url="about:blank", browserContextId=context))[
                "targetId"
            ]
            session = (await devtools.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
            resources = Resources(devtools, self.exchange, may_visit, nursery, frame=target)
            page = BrowserPage(devtools, session, target, resources, context=context)
            page.watch = PageWatch(page, self.renderers, nursery)
            await page.prepare(appearance, self._contact)
            await page.watch.identify()
        except CommandRefused as exc:
            raise httpx.RemoteProtocolError(f"the browser cannot open a page: {exc}") from exc
        return page


async def _watch(page: BrowserPage, scope: trio.CancelScope) -> None:
    """Wait until a page must be closed, and then cancel the work in it."""
    assert page.watch is not None, "this connection opened the page"
    await page.watch.keep()
    if page.watch.verdict is not None:
        scope.cancel()


async def try_browser(url: str) -> None:
    """Connect to a browser in the same way as a node does.

    Raises:
        ConnectionError: The browser cannot be reached, or cannot be used.
    """
    try:
        await Browser(url).reach()
    except (httpx.RequestError, SourceUnusable) as exc:
        raise ConnectionError(str(exc)) from exc


async def _problem_of(devtools: DevTools) -> str:
    """Return why a browser cannot be used, or "" if it can be used.

    A browser whose pages could send packets past their proxy cannot be used.
    """
    try:
        line = (await devtools.call("SystemInfo.getInfo")).get("commandLine", "")
    except CommandRefused:
        line = ""
    return "" if FLAG in str(line).split() else f"it must be started with {FLAG}"
