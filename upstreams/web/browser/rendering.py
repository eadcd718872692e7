"""Renders pages in the browser.

The browser is a source that answers calls, so breakers, metrics and failures work as usual.
"""

from __future__ import annotations

from typing import Final

import httpx
import msgspec
import trio

from limits.errors import LimitError
from limits.fair_turns import FairTurns, TurnStatistics
from upstreams.fetching.site import Site
from upstreams.model.errors import NotFound, PageTooCostly, SourceUnusable, UpstreamError, WorkersBusy
from upstreams.model.params import Args
from upstreams.model.steps import Answer, Call, Missing, Task, Wanted
from upstreams.transport.http import Exchange, HttpAnswer, HttpCall
from upstreams.web.addresses import one_spelling
from upstreams.web.browser.address import CONNECT_S
from upstreams.web.browser.appearances import appearance_of
from upstreams.web.browser.browser import Browser
from upstreams.web.browser.devtools import CommandRefused
from upstreams.web.browser.page import BrowserPage
from upstreams.web.browser.resources import FetchedPage
from upstreams.web.browser.wanted import RenderedPage, RenderWanted
from upstreams.web.robots import RobotsMemory

_ROBOTS_S: Final = 10.0
_ANSWER_S: Final = 1.0
"""Seconds of a call that are reserved for the error report if the page uses up the rest."""
_PAGE_S: Final = 5.0
"""The minimum seconds that a call must have left after waiting for a slot. With less time, rendering would be
pointless."""
_READ_S: Final = 2.0
"""Seconds of a call that are reserved for reading the page after it was rendered."""


class Rendering:
    """Renders pages, a bounded number at a time. Slots are shared fairly between accounts.

    Of several slots, one is reserved for accounts without a page in the browser, so that no account can occupy them
    all.
    """

    def __init__(self, browser: Browser, *, pages_max: int) -> None:
        self.browser = browser
        self.pages_max = pages_max
        spare = min(1, pages_max - 1)
        self._turns = FairTurns(pages_max - spare, spare=spare)
        self._robots = RobotsMemory()
        """The robots.txt files of hosts that pages navigate to."""
        self._site: Site

    def join(self, site: Site, guarded: Exchange) -> None:
        """Use this site to read robots.txt files, and this guard for all requests of pages.

        Called once, when a node's sites are created.
        """
        self.browser.exchange = guarded
        self._site = site

    def statistics(self) -> TurnStatistics:
        """Return the current statistics."""
        return self._turns.statistics()

    async def may_visit(self, url: str) -> None:
        """Check that robots may visit a page; used as a `MayVisit`.

        Raises:
            UpstreamError, LimitError: Robots must not visit the page, or the rules are unknown.
        """
        deadline_at = trio.current_time() + _ROBOTS_S
        args = Args({}, None, self._site.credentials, trio.current_time())
        steps = self._robots.check(one_spelling(url), args)
        try:
            wanted = next(steps)
            while True:
                wanted = steps.send(await self._answer(wanted, deadline_at, args))
        except StopIteration:
            return
        finally:
            steps.close()

    async def _answer(self, wanted: Wanted, deadline_at: float, args: Args) -> Answer | Missing:
        """Return the robots.txt file, or the result of the task that checks a file with many wildcards."""
        if isinstance(wanted, Task):
            return await self._site.run_task(wanted, deadline_at, account_id=args.account_id)
        assert isinstance(wanted, Call), "reading a robots.txt file takes one call"
        return await self._site.call_named(wanted, deadline_at, args=args, waits=True)

    async def exchange(self, call: HttpCall, deadline_at: float) -> HttpAnswer:
        """Like `Exchange`. The body of the call is a `RenderWanted`, the body of the answer is a `RenderedPage`.

        Raises:
            WorkersBusy: No slot became free in time.
            SourceUnusable: The browser was started without the required flag.
            httpx.RequestError: The browser cannot be reached, ended, or does not answer.
        """
        wanted = msgspec.msgpack.decode(call.body, type=RenderWanted)
        ends_at = deadline_at - _ANSWER_S
        turn = self._turns.take_nowait(wanted.account_id, over_at=ends_at)
        if turn is None:
            with trio.move_on_at(ends_at - _PAGE_S):
                turn = await self._turns.take(wanted.account_id, over_at=ends_at)
        if turn is None:
            raise WorkersBusy(self._turns.expected_wait_s(wanted.account_id))
        try:
            rendered = await self._render(wanted, ends_at)
        finally:
            self._turns.end(turn)
        return HttpAnswer(200, {"content-type": "application/msgpack"}, msgspec.msgpack.encode(rendered))

    async def _render(self, wanted: RenderWanted, deadline_at: float) -> RenderedPage:
        page: BrowserPage | None = None
        with trio.move_on_at(deadline_at):
            try:
                async with self.browser.open_page(appearance_of(mobile=wanted.mobile), self.may_visit) as page:
                    return await _shown(page, wanted, deadline_at)
            except SourceUnusable:
                raise
            except NotFound as absence:
                is_costly = isinstance(absence, PageTooCostly)
                return RenderedPage(
                    problem=str(absence),
                    reason=absence.reason or "",
                    is_absent=True,
                    is_costly=is_costly,
                    is_over_bounds=is_costly,
                )
            except (UpstreamError, LimitError) as failure:
                return RenderedPage(problem=str(failure))
            except CommandRefused as exc:
                return RenderedPage(problem=f"the page closed while it was read ({exc})")
        if page is not None and page.watch is not None and page.watch.has_used_its_time():
            return RenderedPage(problem=str(PageTooCostly()), is_absent=True, is_costly=True)
        with trio.move_on_after(CONNECT_S):  # the call has no time left, so wait at most this long for a busy browser
            await self.browser.reach()  # the browser answers, so the page caused the delay
            return RenderedPage(problem="the page did not finish in time")
        raise httpx.ReadTimeout("the browser did not respond in time")


async def _shown(page: BrowserPage, wanted: RenderWanted, deadline_at: float) -> RenderedPage:
    """Return a document after its scripts have run.

    Raises:
        NotFound: No element matches the selector in `wait_for`.
        UpstreamError, LimitError, CommandRefused: The document cannot be shown.
    """
    if wanted.selector and not await page.takes(wanted.selector):
        return RenderedPage(refused_selector=wanted.selector)
    await page.visit(FetchedPage(wanted.url, wanted.status, wanted.headers, wanted.body))
    if wanted.selector:
        with trio.move_on_at(deadline_at - _ANSWER_S) as waiting:
            await page.wait_for(wanted.selector)
        if waiting.cancelled_caught:
            raise NotFound("`wait_for` timed out: no element matched.", reason="selector_absent")
    with trio.move_on_at(deadline_at - _READ_S):  # a wait longer than the remaining time is shortened
        await trio.sleep(wanted.wait_ms / 1_000)
    page.check()
    html, url = await page.html(), await page.url()
    shown = None if page.resources is None else page.resources.shown
    kind, data = await page.picture(whole=wanted.picture == "page") if wanted.picture else ("", "")
    return RenderedPage(
        url=url if url.startswith(("http://", "https://")) or shown is None else shown.url,
        status=wanted.status if shown is None else shown.status,
        html=html,
        picture=f"data:{kind};base64,{data}" if data else "",
    )
