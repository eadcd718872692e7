"""Pages rendered by the browser, as a source answers calls: so its circuit, figures and failures are those of any."""

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
from upstreams.web.browser.browser import Browser
from upstreams.web.browser.devtools import CommandRefused
from upstreams.web.browser.looks import look_of
from upstreams.web.browser.page import BrowserPage
from upstreams.web.browser.resources import FetchedPage
from upstreams.web.browser.wanted import RenderedPage, RenderWanted
from upstreams.web.robots import RobotsMemory

_ROBOTS_S: Final = 10.0
_ANSWER_S: Final = 1.0
"""The part of the time that is kept to answer for a page that used up the rest."""
_PAGE_S: Final = 5.0
"""The least seconds for a page whose call has waited for a place. With less it would be begun in vain."""
_READ_S: Final = 2.0
"""The part of the time that is kept to read a page after it was waited for."""


class Rendering:
    """Renders pages, a bounded number at a time, in fair turns of the accounts.

    One place is kept for an account that has no page in the browser, so that one account alone never has them all.
    """

    def __init__(self, browser: Browser, *, pages_max: int) -> None:
        self.browser = browser
        self.pages_max = pages_max
        spare = min(1, pages_max - 1)
        self._turns = FairTurns(pages_max - spare, spare=spare)
        self._robots = RobotsMemory()
        """Remembers the robots files of the hosts that pages go to on their own."""
        self._site: Site

    def join(self, site: Site, guarded: Exchange) -> None:
        """Make visits at this site, and all other requests through this guard; once, when a node's sites are made."""
        self.browser.exchange = guarded
        self._site = site

    def statistics(self) -> TurnStatistics:
        """Return the record of this moment."""
        return self._turns.statistics()

    async def may_visit(self, url: str) -> None:
        """Return where robots may visit a page.

        Raises:
            UpstreamError, LimitError: they may not, or it cannot be told.
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
        """Answer what a look at a robots file needs: the file, and for a long one a look in a worker process."""
        if isinstance(wanted, Task):
            return await self._site.run_task(wanted, deadline_at, account_id=args.account_id)
        assert isinstance(wanted, Call), "a robots file is one call"
        return await self._site.call_named(wanted, deadline_at, args=args, waits=True)

    async def exchange(self, call: HttpCall, deadline_at: float) -> HttpAnswer:
        """Like `Exchange`: the body is a `RenderWanted`, the body of the answer a `RenderedPage`.

        Raises:
            WorkersBusy: no place became free in time.
            SourceUnusable: the browser was started without the flag that it needs.
            httpx.RequestError: the browser is not there, ended, or does not answer.
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
                async with self.browser.open_page(look_of(mobile=wanted.mobile), self.may_visit) as page:
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
                return RenderedPage(problem=f"the page went away while it was read ({exc})")
        if page is not None and page.watch is not None and page.watch.has_used_its_time():
            return RenderedPage(problem=str(PageTooCostly()), is_absent=True, is_costly=True)
        with trio.move_on_after(CONNECT_S):  # the call's time is over: no longer than this, however busy it is
            await self.browser.reach()  # it answers, so the page is to blame
            return RenderedPage(problem="the page does not come to an end in time")
        raise httpx.ReadTimeout("the browser does not answer in time")


async def _shown(page: BrowserPage, wanted: RenderWanted, deadline_at: float) -> RenderedPage:
    """Return a document as it is once its scripts have run.

    Raises:
        NotFound: no element matches the selector that is waited for.
        UpstreamError, LimitError, CommandRefused: it cannot be shown.
    """
    if wanted.selector and not await page.takes(wanted.selector):
        return RenderedPage(refused_selector=wanted.selector)
    await page.visit(FetchedPage(wanted.url, wanted.status, wanted.headers, wanted.body))
    if wanted.selector:
        with trio.move_on_at(deadline_at - _ANSWER_S) as waiting:
            await page.wait_for(wanted.selector)
        if waiting.cancelled_caught:
            raise NotFound("Nothing that wait_for finds comes up in time.", reason="selector_absent")
    with trio.move_on_at(deadline_at - _READ_S):  # a wait that is longer than the time left is cut short
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
