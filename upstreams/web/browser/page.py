"""A page that is open in the browser: visits, content and screenshots.

Besides its own scripts, only our small ones run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson
import trio

from upstreams.model.errors import NotFound, UpstreamFailed
from upstreams.web.browser.appearances import Appearance
from upstreams.web.browser.devtools import CommandRefused, DevTools
from upstreams.web.browser.resources import FetchedPage, Resources
from upstreams.web.browser.wanted import SOURCE
from upstreams.web.browser.watch import PageWatch

SETTLE_S: Final = 10.0
"""The maximum seconds to wait until a page is idle. After that, the page is read in its current state."""
QUIET_S: Final = 0.5
"""A page counts as idle after this many seconds without loading."""
_CHECK_EVERY_S: Final = 0.1
LETTERS_MAX: Final = 10 * 1024 * 1024
"""The maximum number of characters of a page's HTML."""
HEIGHT_MAX: Final = 10_000
"""The maximum height of a screenshot in CSS pixels."""
PNG_LETTERS_MAX: Final = 4_000_000
"""The maximum number of base64 characters of a PNG. A larger screenshot becomes a JPEG."""
JPEG_LETTERS_MAX: Final = 8_000_000
_SCRIPT_MS: Final = 5_000
_READ_HTML: Final = """(() => {
  const type = document.doctype, root = document.documentElement;
  const html = root ? root.outerHTML : "";
  return html.length > %d ? null : (type ? "<!DOCTYPE " + type.name + ">" : "") + html;
})()"""
_NO_CALLS: Final = "delete window.RTCPeerConnection; delete window.webkitRTCPeerConnection;"
"""WebRTC calls between browsers would bypass the context's proxy. The operator's flag blocks them; this script removes
their API."""


class PageIds(NamedTuple):
    """The ids under which the browser lists a page."""

    context_id: str
    target_id: str


class BrowserPage:
    """One page in its own browser context."""

    def __init__(
        self, devtools: DevTools, session: str, frame: str, resources: Resources | None = None, *, context: str = ""
    ) -> None:
        """Without `resources`, another connection makes the page's requests. `frame` is also the page's id."""
        self.devtools = devtools
        self._session = session
        self.frame = frame
        self.context = context
        self.resources = resources
        self.watch: PageWatch | None = None
        """The page's watch, set by the connection that makes the page's requests."""
        self._is_loading = False
        self.is_crashed = False
        self.events: Counter[str] = Counter()
        """The number of events of each kind that the page caused."""
        devtools.observers[session] = self._observe

    async def prepare(self, appearance: Appearance, contact: str) -> None:
        """Apply the appearance, pause the page's requests, and dismiss dialogs, which would block its scripts."""
        await self.call("Page.enable")
        await self.call("Performance.enable")
        await self.call("Fetch.enable", patterns=[{"urlPattern": "*"}])
        await self.call("Network.setBypassServiceWorker", bypass=True)
        await self.call("Page.addScriptToEvaluateOnNewDocument", source=_NO_CALLS, runImmediately=True)
        metrics = {"width": appearance.width, "height": appearance.height, "deviceScaleFactor": appearance.scale}
        await self.call("Emulation.setDeviceMetricsOverride", **metrics, mobile=appearance.is_mobile)
        await self.call("Emulation.setScrollbarsHidden", hidden=True)
        await self.call("Emulation.setTouchEmulationEnabled", enabled=appearance.is_mobile)
        await self.call("Emulation.setUserAgentOverride", userAgent=appearance.named(contact))

    async def call(self, method: str, **params: Any) -> Mapping[str, Any]:
        """Like `DevTools.call`, for this page."""
        return await self.devtools.call(method, self._session, **params)

    def _observe(self, method: str, params: Mapping[str, Any]) -> None:
        self.events[method] += 1
        match method:
            case "Fetch.requestPaused":
                assert self.resources is not None, "a page without resources has no paused requests"
                self.resources.answer_nowait(self._session, params)
            case "Page.frameStartedLoading" if params["frameId"] == self.frame:
                self._is_loading = True
            case "Page.frameStoppedLoading" if params["frameId"] == self.frame:
                self._is_loading = False
            case "Page.frameNavigated" if params["frame"]["id"] == self.frame and self.watch is not None:
                self.watch.identify_nowait()
            case "Page.javascriptDialogOpening":
                if self.resources is not None:
                    self.resources.begin(self._close_dialog)
            case "Inspector.targetCrashed":
                self.is_crashed = True
            case _:
                pass

    async def _close_dialog(self) -> None:
        await self.call("Page.handleJavaScriptDialog", accept=False)

    async def visit(self, document: FetchedPage) -> None:
        """Show a document that the node has already fetched, and wait until the page is idle.

        Raises:
            UpstreamError, LimitError: The document cannot be shown.
        """
        assert self.resources is not None, "only the connection that makes the page's requests can show a document"
        self.resources.given = document
        try:
            await self.go(document.url)
        finally:
            self.resources.given = None

    async def go(self, url: str) -> None:
        """Visit an address, and wait until the page is idle.

        Raises:
            UpstreamError, LimitError: The page cannot be shown.
        """
        self._is_loading = True
        found = await self.call("Page.navigate", url=url)
        if problem := found.get("errorText"):
            refusal = None if self.resources is None else self.resources.refusal
            raise refusal or UpstreamFailed(SOURCE, f"the page cannot be shown: {problem}")
        await self.settle()

    async def settle(self, within_s: float = SETTLE_S) -> None:
        """Wait until the page has stopped loading, at most this long.

        Raises:
            UpstreamError, LimitError: The page navigated to a page that cannot be shown, or it crashed.
        """
        with trio.move_on_after(within_s) as settling:
            quiet_since = trio.current_time()
            while trio.current_time() < quiet_since + QUIET_S:
                await trio.sleep(_CHECK_EVERY_S)
                if self._is_loading or (self.resources is not None and self.resources.in_flight):
                    quiet_since = trio.current_time()
                if self.is_crashed or (self.resources is not None and self.resources.refusal is not None):
                    break
        self.check()
        if self.watch is not None and not settling.cancelled_caught:
            self.watch.rest()

    def check(self) -> None:
        """Raise the page's failure, if the page has failed.

        Raises:
            UpstreamError, LimitError: The page navigated to a page that cannot be shown, or it crashed.
        """
        if self.is_crashed:
            raise UpstreamFailed(SOURCE, "the page has crashed") if self.watch is None else self.watch.crash()
        if self.resources is not None and self.resources.refusal is not None:
            raise self.resources.refusal

    async def evaluate(self, expression: str) -> Any:
        """Run one of our scripts and return its value. The page's scripts cannot see the world in which it runs.

        Raises:
            CommandRefused: The script failed or took too long, or the page is gone.
        """
        world = await self.call("Page.createIsolatedWorld", frameId=self.frame, worldName="sluice")
        found = await self.call(
            "Runtime.evaluate",
            expression=expression,
            contextId=world["executionContextId"],
            returnByValue=True,
            awaitPromise=False,
            timeout=_SCRIPT_MS,
        )
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise CommandRefused(str(details.get("exception", {}).get("description") or details.get("text")))
        return found["result"].get("value")

    async def html(self) -> str:
        """Return the current HTML of the page.

        Raises:
            UpstreamFailed: The HTML is too long.
        """
        html = await self.evaluate(_READ_HTML % LETTERS_MAX)
        if html is None:
            raise UpstreamFailed(SOURCE, f"the page is longer than {LETTERS_MAX} characters")
        return str(html)

    async def url(self) -> str:
        """Return the address of the current page."""
        return str(await self.evaluate("location.href"))

    async def takes(self, selector: str) -> bool:
        """Return whether the browser can parse a CSS selector. Our own parser may accept a different syntax."""
        given = orjson.dumps(selector).decode()
        script = f"try {{ document.createDocumentFragment().querySelector({given}); true }} catch (refusal) {{ false }}"
        return bool(await self.evaluate(script))

    async def wait_for(self, selector: str) -> None:
        """Wait until an element matches a CSS selector. The caller must set a deadline.

        Raises:
            UpstreamError, LimitError: The page navigated to a page that cannot be shown, or it crashed.
        """
        expression = f"document.querySelector({orjson.dumps(selector).decode()}) !== null"
        while not await self._is_true(expression):
            self.check()
            await trio.sleep(_CHECK_EVERY_S)

    async def _is_true(self, expression: str) -> bool:
        try:
            return bool(await self.evaluate(expression))
        except CommandRefused:
            return False  # the page is navigating, so the script cannot run

    async def picture(self, *, whole: bool = False, kind: str = "png") -> tuple[str, str]:
        """Return the media type and the base64 of a screenshot: of the window, or of the page up to the maximum height.

        Raises:
            NotFound: The screenshot is too large.
        """
        clip: dict[str, Any] = {}
        if whole:
            size = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]
            area = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], HEIGHT_MAX), "scale": 1}
            clip = {"clip": area, "captureBeyondViewport": True}
        data = ""
        if kind == "png":
            data = (await self.call("Page.captureScreenshot", format="png", **clip))["data"]
        if kind == "jpeg" or len(data) > PNG_LETTERS_MAX:
            kind = "jpeg"
            data = (await self.call("Page.captureScreenshot", format="jpeg", quality=80, **clip))["data"]
        if len(data) > JPEG_LETTERS_MAX:
            raise NotFound("The screenshot is too large.", reason="screenshot_too_large")
        return f"image/{kind}", data
