"""The watch over one page: what it has used, and its end once that is more than a page may use.

An endless script cannot be asked to stop, and a page in one answers no command that needs its main thread. So the page
is measured from outside: by its renderer's CPU time and memory (`Renderers`), by what the browser reports between two
steps of a script (`Performance.getMetrics`), and by the events that it causes. `Page.crash` then ends the renderer for
certain, because it does not need the main thread.
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
from upstreams.web.browser.renderers import LOOK_S, Renderers
from upstreams.web.browser.wanted import SOURCE

BUSY_S: Final = 2.0
"""The CPU seconds of a page that is to blame when it has not come to an end in time, or half of its time if less."""
_EVENTS_MAX: Final = {"Page.frameStartedNavigating": 40, "Page.frameAttached": 100, "Page.javascriptDialogOpening": 20}
"""The events of a kind that a page may cause, and one more for each second that it is open.

Each takes time of the browser itself, which no priority bounds. Large pages have some dozen frames."""
_ALL_EVENTS_MAX: Final = 20_000
"""The events that a page may cause, each of which takes this node's time. Large pages cause some thousand."""
_ALL_EVENTS_A_S: Final = 100
_CRASH_S: Final = 2.0


class WatchedPage(Protocol):
    """The page, as its watch sees it."""

    devtools: DevTools
    events: Counter[str]
    is_crashed: bool

    async def call(self, method: str, **params: Any) -> Mapping[str, Any]:
        """Like `DevTools.call`, in the page."""
        ...


class PageWatch:
    """Watches a page in `nursery`, which lasts as long as the page."""

    def __init__(self, page: WatchedPage, renderers: Renderers, nursery: trio.Nursery) -> None:
        self._page = page
        self._renderers = renderers
        self._bounds = renderers.bounds
        self._nursery = nursery
        self._opened_at = trio.current_time()
        self._rested_at: float | None = None
        self._cpu_s: dict[int, float] = {}
        """The CPU seconds of each renderer that has shown the page, by its process id."""
        self._thread_s = 0.0
        self._heap_bytes = self._buffer_bytes = 0
        self._memory_bytes = 0
        """The most memory that its renderer was seen with."""
        self._pending: set[str] = set()
        self.verdict: UpstreamError | None = None
        """Why the page was ended."""

    async def keep(self) -> None:
        """Look at the page until it has to be ended; then end it, and set `verdict`."""
        with suppress(BrowserLost):
            while self.verdict is None:
                await trio.sleep(LOOK_S)
                await self._renderers.look(self._page.devtools)
                self._measure()
                self.verdict = self.judge()
            if not self._page.is_crashed:
                with trio.move_on_after(_CRASH_S), suppress(CommandRefused):
                    await self._page.call("Page.crash")

    def rest(self) -> None:
        """Give the page time for what it does from now on, since it has come to rest."""
        if self._rested_at is None:
            self._rested_at = trio.current_time()

    def identify_nowait(self) -> None:
        """Have it found out which process shows the page now."""
        self._begin("identify", self.identify)

    def has_used_its_time(self) -> bool:
        """Whether the page itself, not a busy browser, is the reason why it has not come to an end yet."""
        return self._used_s() >= min(BUSY_S, (trio.current_time() - self._opened_at) / 2)

    def judge(self) -> UpstreamError | None:
        """Return why the page must end now, if it must."""
        if self._page.is_crashed:
            return self.crash()
        open_s = trio.current_time() - self._opened_at
        rested_s = 0.0 if self._rested_at is None else trio.current_time() - self._rested_at
        if self._used_s() > self._bounds.cpu_s + self._bounds.cpu_share * rested_s:
            return PageTooCostly("The page's scripts take more time than a page may.")
        if self._heap_bytes + self._buffer_bytes > self._bounds.memory_bytes:
            return PageTooCostly("The page takes more memory than a page may.")
        events = self._page.events
        if any(events[name] > most + open_s for name, most in _EVENTS_MAX.items()):
            return PageTooCostly("The page opens frames, dialogs or other pages without end.")
        return PageTooCostly() if events.total() > _ALL_EVENTS_MAX + _ALL_EVENTS_A_S * open_s else None

    def crash(self) -> UpstreamError:
        """Return why the page has crashed: for what it used, or for a reason that is not known to be its own."""
        bounds = self._bounds
        used_much = self._memory_bytes > bounds.memory_bytes // 2 or self._used_s() > bounds.cpu_s / 2
        if self._renderers.claim_end(self._cpu_s) or used_much:
            return PageTooCostly("The page takes more memory than a page may.")
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
        """Do something beside the watch; not twice at a time, since a busy page answers late or never."""
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
        """Find out which process shows the page now: the ids that a renderer makes begin with the id of its process.

        Raises:
            CommandRefused: the page has just gone, or crashed.
        """
        await self._page.call("DOM.enable")
        found = await self._page.call("DOM.performSearch", query="html")
        await self._page.call("DOM.disable")
        process, _, _ = str(found.get("searchId")).partition(".")
        if process.isdigit():
            self._cpu_s.setdefault(int(process), 0.0)

    async def _read_metrics(self) -> None:
        """The main thread answers between two steps of a script, even of an endless one."""
        metrics = _named(await self._page.call("Performance.getMetrics"))
        self._thread_s = max(self._thread_s, metrics.get("ThreadTime", 0.0))
        self._heap_bytes = int(metrics.get("JSHeapTotalSize", 0))

    async def _read_buffers(self) -> None:
        """Typed arrays are not in the heap. This is answered only once the script returns."""
        usage = await self._page.call("Runtime.getHeapUsage")
        self._buffer_bytes = int(usage.get("backingStorageSize", 0))


def _named(found: Mapping[str, Any]) -> dict[str, float]:
    return {one["name"]: one["value"] for one in found.get("metrics", ())}
