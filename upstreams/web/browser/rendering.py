"""Pages rendered by the browser, as a source answers calls: so its circuit, figures and failures are those of any."""

from __future__ import annotations

from typing import Final

import httpx
import msgspec
import trio

from limits.errors import LimitError
from upstreams.fetching.site import Site
from upstreams.model.errors import NotFound, UpstreamError, UpstreamThrottled
from upstreams.model.params import Args
from upstreams.model.steps import Call
from upstreams.transport.http import Exchange, HttpAnswer, HttpCall
from upstreams.web.addresses import one_spelling
from upstreams.web.browser.address import CONNECT_S
from upstreams.web.browser.browser import Browser
from upstreams.web.browser.devtools import CommandRefused
from upstreams.web.browser.looks import look_of
from upstreams.web.browser.page import BrowserPage
from upstreams.web.browser.resources import FetchedPage
from upstreams.web.browser.wanted import SOURCE, RenderedPage, RenderWanted
from upstreams.web.robots import RobotsMemory

_ROBOTS_S: Final = 10.0
_ANSWER_S: Final = 1.0
"""The part of the time that is kept for telling of a page that used up the rest."""


class Rendering:
    """Renders pages, so many at a time."""

    def __init__(self, browser: Browser, *, pages_max: int) -> None:
        self.browser = browser
        self.pages_max = pages_max
        self._turn = trio.CapacityLimiter(pages_max)
        self._robots = RobotsMemory()
        """Remembers the robots files of the hosts that pages go to by themselves."""
        self._site: Site

    def join(self, site: Site, guarded: Exchange) -> None:
        """Make visits at this site, and all other requests through this guard; once, when a node's sites are made."""
        self.browser.exchange = guarded
        self._site = site

    async def may_visit(self, url: str) -> None:
        """Return where robots may visit a page.

        Raises:
            UpstreamError, LimitError: they may not, or it cannot be told.
        """
        deadline_at = trio.current_time() + _ROBOTS_S
        args = Args({}, None, self._site.credentials, trio.current_time())
        steps = self._robots.check(one_spelling(url), args)
        try:
            call = next(steps)
            while True:
                assert isinstance(call, Call), "a robots file is one call"
                call = steps.send(await self._site.call_named(call, deadline_at, args=args, waits=True))
        except StopIteration:
            return
        finally:
            steps.close()

    async def exchange(self, call: HttpCall, deadline_at: float) -> HttpAnswer:
        """As `Exchange`: the body is a `RenderWanted`, and that of the answer a `RenderedPage`.

        Raises:
            UpstreamThrottled: all pages are in use for as long.
            httpx.RequestError: the browser is not there, ended, or does not answer.
        """
        wanted = msgspec.msgpack.decode(call.body, type=RenderWanted)
        with trio.move_on_at(deadline_at - _ANSWER_S) as waiting:
            await self._turn.acquire()
        if waiting.cancelled_caught:
            raise UpstreamThrottled(SOURCE, 1.0)
        try:
            rendered = await self._render(wanted, deadline_at - _ANSWER_S)
        finally:
            self._turn.release()
        return HttpAnswer(200, {"content-type": "application/msgpack"}, msgspec.msgpack.encode(rendered))

    async def _render(self, wanted: RenderWanted, deadline_at: float) -> RenderedPage:
        with trio.move_on_at(deadline_at):
            try:
                async with self.browser.open_page(look_of(mobile=wanted.mobile), self.may_visit) as page:
                    return await _shown(page, wanted, deadline_at)
            except NotFound as absence:
                return RenderedPage(problem=str(absence), reason=absence.reason or "", is_absent=True)
            except (UpstreamError, LimitError) as failure:
                return RenderedPage(problem=str(failure))
            except CommandRefused as exc:
                return RenderedPage(problem=f"the page went away while it was read ({exc})")
        with trio.move_on_after(CONNECT_S):  # the call's time is over: no longer than this, however busy it is
            await self.browser.reach()  # one that is there has a page to blame
            return RenderedPage(problem="the page does not come to an end in time")
        raise httpx.ReadTimeout("the browser does not answer in time")


async def _shown(page: BrowserPage, wanted: RenderWanted, deadline_at: float) -> RenderedPage:
    """A document as it is once its scripts have run.

    Raises:
        NotFound: it has not what is waited for.
        UpstreamError, LimitError, CommandRefused: it cannot be shown.
    """
    await page.visit(FetchedPage(wanted.url, wanted.status, wanted.headers, wanted.body))
    if wanted.selector:
        with trio.move_on_at(deadline_at - _ANSWER_S) as waiting:
            await page.wait_for(wanted.selector)
        if waiting.cancelled_caught:
            raise NotFound("Nothing that wait_for finds comes up in time.", reason="selector_absent")
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
