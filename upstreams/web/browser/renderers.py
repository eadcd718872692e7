"""The resource use of a browser's pages, and the limits that keep one page from exhausting the machine.

If the browser runs on this machine (see `processes`), each measurement limits the memory of every renderer, and lowers
its priority according to the CPU time that it has used. As a result, endless scripts get only CPU time that is
otherwise idle. A remote browser reports only CPU time, over DevTools.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Any, Final, NamedTuple

import trio
from trio.to_thread import run_sync

from upstreams.web.browser.devtools import CommandRefused, DevTools
from upstreams.web.browser.processes import LocalBrowser, ProcessUsage, local_browser

MEASURE_EVERY_S: Final = 0.25
"""The seconds between two measurements. In one second, a script can fill about one gigabyte of memory."""
USUAL_S: Final = 0.5
"""The priority of a renderer is lowered after this many CPU seconds. Many pages are idle by then."""
NICENESS_A_S: Final = 8
"""The increase of a renderer's niceness per further CPU second. It reaches 19, the maximum, after three seconds."""
NICENESS_MAX: Final = 19
_CLAIM_S: Final = 5.0
"""A page reports a crash within this many seconds after its renderer has ended."""


class PageBounds(NamedTuple):
    """The maximum resources of a page."""

    cpu_s: float = 10.0
    """CPU seconds of all threads of the page's renderer. Typical pages take 0.5 to 2, heavy pages about 5."""
    cpu_share: float = 0.2
    """Additional CPU seconds that an idle page may use per second, because a session may stay open for an hour."""
    memory_bytes: int = 1024**3
    """The memory of the page's renderer. Heavy pages of shops and newspapers take 200 to 500 MB."""


class Renderers:
    """The renderers of one browser.

    All pages of this node share one instance. Each page requests measurements; most requests are skipped.
    """

    def __init__(self, bounds: PageBounds, now: Callable[[], float] = trio.current_time) -> None:
        self.bounds = bounds
        self._now = now
        self._measured_at = -inf
        self._ended_at: dict[int, float] = {}
        self.local: LocalBrowser | None = None
        self.usage: Mapping[int, ProcessUsage] = {}
        """The usage at the last measurement, by process id."""
        self.ended_total = 0
        """The number of renderers that were ended because of their memory."""

    async def detect_local(self, devtools: DevTools, port: int) -> None:
        """Determine whether a newly connected browser runs on this machine."""
        browsers = [one["id"] for one in await _processes(devtools) if one["type"] == "browser"]
        self.local = await run_sync(local_browser, browsers[0], port) if browsers else None
        self.usage, self._ended_at = {}, {}

    async def measure(self, devtools: DevTools) -> None:
        """Measure all renderers and act on those that exceed a limit.

        Skipped if the last measurement is recent (`MEASURE_EVERY_S`).
        """
        now = self._now()
        if now < self._measured_at + MEASURE_EVERY_S:
            return
        self._measured_at = inf  # no other measurement starts until this one has ended
        try:
            await self._measure(devtools)
        finally:
            self._measured_at = now

    async def _measure(self, devtools: DevTools) -> None:
        if self.local is None:
            processes = await _processes(devtools)
            self.usage = {one["id"]: ProcessUsage(one["cpuTime"]) for one in processes if one["type"] == "renderer"}
            return
        # In a thread: reading the command line of a process waits for the lock of its memory, which a renderer with low
        # priority may hold for a long time.
        self.usage, ended = await run_sync(self._measure_local, self.local)
        for pid in ended:
            self._ended_at[pid] = self._now()
            self.ended_total += 1

    def _measure_local(self, local: LocalBrowser) -> tuple[Mapping[int, ProcessUsage], list[int]]:
        """Measure and limit the renderers on this machine. Return their usage and the ids of the ended ones."""
        found, ended = local.renderers(), []
        for pid, usage in found.items():
            if (usage.memory_bytes or 0) > self.bounds.memory_bytes and local.end(pid):
                ended.append(pid)
            elif (niceness := min(NICENESS_MAX, int(NICENESS_A_S * (usage.cpu_s - USUAL_S)))) > 0:
                local.lower_priority(pid, niceness)
        return found, ended

    def claim_end(self, pids: Collection[int]) -> bool:
        """Return whether a page crashed because its renderer was ended for using too much memory.

        `pids` are the known renderers of the page. If none of them was ended, the page claims any renderer that was
        just ended and that no other page has claimed.
        """
        now = self._now()
        self._ended_at = {pid: at for pid, at in self._ended_at.items() if at + _CLAIM_S > now}
        own = next((pid for pid in self._ended_at if pid in pids), next(iter(self._ended_at), None))
        return own is not None and self._ended_at.pop(own) > 0


async def _processes(devtools: DevTools) -> list[Mapping[str, Any]]:
    try:
        return list((await devtools.call("SystemInfo.getProcessInfo"))["processInfo"])
    except CommandRefused:
        return []
