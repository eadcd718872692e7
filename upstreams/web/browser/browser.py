"""The operator's browser as this node uses it: pages, a bounded number of them at a time (decisions 21)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx
import trio

from upstreams.transport.http import Exchange
from upstreams.web.browser.address import BrowserAddress
from upstreams.web.browser.devtools import CommandRefused, DevTools, find_browser, open_devtools
from upstreams.web.browser.looks import Look
from upstreams.web.browser.page import BrowserPage
from upstreams.web.browser.resources import MayVisit, Resources

NOWHERE: Final = "http://127.0.0.1:1"
"""The proxy of every page's context, where nobody listens."""
FLAG: Final = "--webrtc-ip-handling-policy=disable_non_proxied_udp"
"""The flag without which a browser is not used: with it no packet goes past the proxy."""


class Browser:
    """Opens pages in the browser at an address; whatever they want goes through `exchange`, a guard."""

    def __init__(self, url: str, *, contact: str = "") -> None:
        self._url = url
        self._contact = contact
        self.exchange: Exchange
        """Set once, when the node's sites are made."""
        self._checked = ""
        """The browser whose flags were checked."""
        self.pages_open = 0
        self.pages_total = 0

    async def reach(self) -> BrowserAddress:
        """Where it is now; one that was started again is somewhere else.

        Raises:
            httpx.RequestError: it is not there, or was started without the flag that it needs.
        """
        address = await find_browser(self._url)
        if address.path != self._checked:
            async with open_devtools(address) as devtools:
                await _check_flags(devtools)
            self._checked = address.path
        return address

    @asynccontextmanager
    async def open_page(self, look: Look, may_visit: MayVisit) -> AsyncIterator[BrowserPage]:
        """An empty page in a context of its own, with no cookies; both are gone when the block ends, however it ends.

        Raises:
            httpx.RequestError: the browser is not there, or ended.
        """
        failure: Exception | None = None
        address = await self.reach()
        self.pages_open += 1
        self.pages_total += 1
        try:
            async with open_devtools(address) as devtools, trio.open_nursery() as nursery:
                try:
                    yield await self._opened(devtools, nursery, look, may_visit)
                except Exception as exc:  # noqa: BLE001 - raised below, outside of the nursery that wraps it in a group
                    failure = exc
                nursery.cancel_scope.cancel()
        finally:
            self.pages_open -= 1
        if failure is not None:
            raise failure

    @asynccontextmanager
    async def attached(self, target_id: str) -> AsyncIterator[BrowserPage]:
        """A page that another connection holds, to work in while the block runs.

        Raises:
            CommandRefused: it is not there any more.
            httpx.RequestError: the browser is not there, or ended.
        """
        async with open_devtools(await self.reach()) as devtools:
            session = (await devtools.call("Target.attachToTarget", targetId=target_id, flatten=True))["sessionId"]
            page = BrowserPage(devtools, session, target_id)
            await page.call("Page.enable")
            yield page

    async def _opened(self, devtools: DevTools, nursery: trio.Nursery, look: Look, may_visit: MayVisit) -> BrowserPage:
        """Open the page. The context ends with the connection, so nobody needs to end it."""
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
            await page.prepare(look, self._contact)
        except CommandRefused as exc:
            raise httpx.RemoteProtocolError(f"the browser opens no page: {exc}") from exc
        return page


async def try_browser(url: str) -> None:
    """Reach a browser as a node would.

    Raises:
        ConnectionError: it is not there, or cannot be used.
    """
    try:
        await Browser(url).reach()
    except httpx.RequestError as exc:
        raise ConnectionError(str(exc)) from exc


async def _check_flags(devtools: DevTools) -> None:
    """Refuse a browser whose pages could send packets past their proxy."""
    try:
        line = (await devtools.call("SystemInfo.getInfo")).get("commandLine", "")
    except CommandRefused:
        line = ""
    if FLAG not in str(line).split():
        raise httpx.UnsupportedProtocol(f"the browser must be started with {FLAG}")
