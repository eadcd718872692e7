"""The watch of one page: it measures the page, and ends it if it exceeds its limits.

An endless script cannot be stopped by a command, because its page does not answer commands that need the main thread.
The page is therefore measured from outside: by its renderer's CPU time and memory (`Renderers`), by metrics that the
browser reports between two steps of a script (`Performance.getMetrics`), and by the events that it causes. `Page.crash`
then ends the renderer reliably, because it does not need the main thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

import trio

from upstreams.model.errors import PageTooCostly, UpstreamError, UpstreamFailed
from upstreams.web.browser.address import BrowserLost
from upstreams.web.browser.devtools import CommandRefused, DevTools
from upstreams.web.browser.renderers import MEASURE_EVERY_S, Renderers
from upstreams.web.browser.wanted import SOURCE

BUSY_S: Final = 2.0
"""A page that used this many CPU seconds (or half of its time, if less) is itself blamed for not finishing in time."""
_EVENTS_MAX: Final = {"Page.frameStartedNavigating": 40, "Page.frameAttached": 100, "Page.javascriptDialogOpening": 20}
"""How many events of a kind a page may cause. One more is allowed per second that the page is open.

Each event costs the browser process time, and its priority is not lowered. Large pages have a few dozen frames.
"""
_ALL_EVENTS_MAX: Final = 20_000
"""How many events a page may cause in total, because each costs this node time. Large pages cause a few thousand."""
_ALL_EVENTS_A_S: Final = 100
_CRASH_S: Final = 2.0


class WatchedPage(Protocol):
    """The watch's interface to a page."""

    devtools: DevTools
    events: Counter[str]
    is_crashed: bool

    async def call(self, method: str, **params: Any) -> Mapping[str, Any]:
        """Like `DevTools.call`, for the page."""
        ...


class PageWatch:
    """Watches one page. Its tasks run in `nursery`, which lasts as long as the page."""

    def __init__(self, page: WatchedPage, renderers: Renderers, nursery: trio.Nursery) -> None:
        self._page = page
        self._renderers = renderers
        self._bounds = renderers.bounds
        self._nursery = nursery
        self._opened_at = trio.current_time()
        self._rested_at: float | None = None
        self._cpu_s: dict[int, float] = {}
        """The CPU seconds of each renderer that has shown the page, by process id."""
        self._thread_s = 0.0
        self._heap_bytes = self._buffer_bytes = 0
        self._memory_bytes = 0
        """The highest memory use seen in the page's renderer."""
        self._pending: set[str] = set()
        self.verdict: UpstreamError | None = None
        """The reason why the page was ended."""

    async def keep(self) -> None:
        """Watch the page until it must be ended. Then end it, and set `verdict`."""
        with suppress(BrowserLost):
            while self.verdict is None:
                await trio.sleep(MEASURE_EVERY_S)
                await self._renderers.measure(self._page.devtools)
                self._measure()
                self.verdict = self.judge()
            if not self._page.is_crashed:
                with trio.move_on_after(_CRASH_S), suppress(CommandRefused):
                    await self._page.call("Page.crash")

    def rest(self) -> None:
        """Start the CPU allowance for idle pages. Called when the page becomes idle."""
        if self._rested_at is None:
            self._rested_at = trio.current_time()

    def identify_nowait(self) -> None:
        """Start a task that determines which process currently renders the page."""
        self._begin("identify", self.identify)

    def has_used_its_time(self) -> bool:
        """Return whether the page itself, and not a busy browser, is the reason that it has not finished yet."""
        return self._used_s() >= min(BUSY_S, (trio.current_time() - self._opened_at) / 2)

    def judge(self) -> UpstreamError | None:
        """Return why the page must be ended now, or None."""
        if self._page.is_crashed:
            return self.crash()
        open_s = trio.current_time() - self._opened_at
        rested_s = 0.0 if self._rested_at is None else trio.current_time() - self._rested_at
        if self._used_s() > self._bounds.cpu_s + self._bounds.cpu_share * rested_s:
            return PageTooCostly("The page's scripts exceed the time limit.")
        if self._heap_bytes + self._buffer_bytes > self._bounds.memory_bytes:
            return PageTooCostly("The page exceeds the memory limit.")
        events = self._page.events
        if any(events[name] > most + open_s for name, most in _EVENTS_MAX.items()):
            return PageTooCostly("The page opens too many frames, dialogs or other pages.")
        return PageTooCostly() if events.total() > _ALL_EVENTS_MAX + _ALL_EVENTS_A_S * open_s else None

    def crash(self) -> UpstreamError:
        """Return why the page has crashed: a limit that it exceeded, or an unknown reason."""
        bounds = self._bounds
        used_much = self._memory_bytes > bounds.memory_bytes // 2 or self._used_s() > bounds.cpu_s / 2
        if self._renderers.claim_end(self._cpu_s) or used_much:
            return PageTooCostly("The page exceeds the memory limit.")
        return UpstreamFailed(SOURCE, "the page has crashed")

    def _used_s(self) -> float:
        return max(sum(self._cpu_s.values()), self._thread_s)

    def _measure(self) -> None:
        for pid, usage in self._renderers.usage.items():
            if pid in self._cpu_s:
                self._cpu_s[pid] = usage.cpu_s
                self._memory_bytes = max(self._memory_bytes, usage.memory_bytes or 0)
        self._memory_bytes = max(self._memory_bytes, self._heap_bytes + self._buffer_bytes)
        self._begin("metrics", self._read_metrics)
        self._begin("buffers", self._read_buffers)

    def _begin(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run work in the background, unless work with this name is still running.

        A busy page answers late or never, so each name has at most one pending run.
        """
        if name in self._pending:
            return
        self._pending.add(name)

        async def do() -> None:
            try:
                with suppress(CommandRefused, BrowserLost):
                    await work()
            finally:
                self._pending.discard(name)

        self._nursery.start_soon(do)

    async def identify(self) -> None:
        """Determine which process currently shows the page. The ids that a renderer assigns begin with its process id.

        Raises:
            CommandRefused: The page is gone, or crashed.
        """
        await self._page.call("DOM.enable")
        found = await self._page.call("DOM.performSearch", query="html")
        await self._page.call("DOM.disable")
        process, _, _ = str(found.get("searchId")).partition(".")
        if process.isdigit():
            self._cpu_s.setdefault(int(process), 0.0)

    async def _read_metrics(self) -> None:
        """Read the browser's metrics.

        The main thread reports them between two steps of a script, even if the script is endless.
        """
        metrics = _named(await self._page.call("Performance.getMetrics"))
        self._thread_s = max(self._thread_s, metrics.get("ThreadTime", 0.0))
        self._heap_bytes = int(metrics.get("JSHeapTotalSize", 0))

    async def _read_buffers(self) -> None:
        """Read the size of typed arrays, which are not in the heap.

        The browser answers only after a running script has returned.
        """
        usage = await self._page.call("Runtime.getHeapUsage")
        self._buffer_bytes = int(usage.get("backingStorageSize", 0))


def _named(found: Mapping[str, Any]) -> dict[str, float]:
    return {one["name"]: one["value"] for one in found.get("metrics", ())}
