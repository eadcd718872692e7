"""Pages that stay open for sessions: one connection opens a page and makes its requests, others use it temporarily.

The browser identifies pages by id, so any node can use a page that another node has opened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import httpx
import trio

from limits.errors import LimitError
from upstreams.fetching.site import Site
from upstreams.model.errors import InvalidArgument, NotFound, PageTooCostly, UpstreamError, UpstreamFailed
from upstreams.model.steps import Task
from upstreams.web.browser.actions import Action, formats_of, perform
from upstreams.web.browser.appearances import appearance_of
from upstreams.web.browser.devtools import CommandRefused
from upstreams.web.browser.page import BrowserPage, PageIds
from upstreams.web.browser.rendering import Rendering
from upstreams.web.browser.wanted import SOURCE

OPEN_S: Final = 30.0
RUN_S: Final = 50.0
_READ_S: Final = 20.0
RESULT_LETTERS_MAX: Final = 12_000_000
"""The maximum total characters of the HTML and pictures of one call. Once a call exceeds it, the remaining actions are
skipped."""


class HeldPages:
    """The browser's interface for sessions."""

    def __init__(self, rendering: Rendering, site: Site) -> None:
        self._rendering = rendering
        self._site = site
        self._held: dict[str, BrowserPage] = {}
        """The pages that this node has opened, by their id in the browser."""

    @asynccontextmanager
    async def open(self, url: str, *, mobile: bool) -> AsyncIterator[PageIds]:
        """Yield the ids of a page that stays open during the block, which is cancelled if the page exceeds its limits.

        Raises:
            PageTooCostly: The page exceeded the time or memory limit.
            UpstreamError, LimitError: The page cannot be opened, or was lost.
        """
        is_open, page = False, None
        try:
            opening = trio.CancelScope(deadline=trio.current_time() + OPEN_S)
            with opening:
                browser = self._rendering.browser
                async with browser.open_page(appearance_of(mobile=mobile), self._rendering.may_visit) as page:
                    await page.go(url)
                    is_open, opening.deadline = True, float("inf")
                    assert page.watch is not None, "this connection opened the page"
                    page.watch.rest()
                    self._held[page.frame] = page
                    yield PageIds(page.context, page.frame)
                    return
        except httpx.RequestError as exc:
            raise UpstreamFailed(SOURCE, f"{type(exc).__name__}: {exc}", passing=True) from exc
        except CommandRefused as exc:
            raise UpstreamFailed(SOURCE, f"the page cannot be opened: {exc}") from exc
        finally:
            if page is not None:
                self._held.pop(page.frame, None)
        if not is_open:
            if page is not None and page.watch is not None and page.watch.has_used_its_time():
                raise PageTooCostly
            raise UpstreamFailed(SOURCE, "the page did not open in time", passing=True)

    async def run(self, target_id: str, actions: Sequence[Action], *, account_id: str) -> dict[str, Any]:
        """Run an account's actions until the first failure. Return their results and the page's address.

        Raises:
            InvalidArgument: The browser cannot parse the selector of an action. No action ran.
            PageTooCostly: The page exceeded the time or memory limit.
            UpstreamError: The page or the browser is gone, or does not answer.
        """
        held = self._held.get(target_id)
        try:
            return await self._run(target_id, actions, account_id)
        except UpstreamError:
            if held is not None and held.watch is not None and isinstance(held.watch.verdict, PageTooCostly):
                raise held.watch.verdict from None
            raise

    async def _run(self, target_id: str, actions: Sequence[Action], account_id: str) -> dict[str, Any]:
        with trio.move_on_after(RUN_S):
            try:
                async with self._rendering.browser.attached(target_id) as page:
                    await _check_selectors(page, actions)
                    results = await self._results(page, actions, account_id)
                    return {"url": await page.url(), "results": results}
            except httpx.RequestError as exc:
                raise UpstreamFailed(SOURCE, f"{type(exc).__name__}: {exc}", passing=True) from exc
            except CommandRefused as exc:
                raise UpstreamFailed(SOURCE, f"the session's page no longer exists: {exc}") from exc
        raise UpstreamFailed(SOURCE, f"the actions took longer than {RUN_S:g} s")

    async def _results(self, page: BrowserPage, actions: Sequence[Action], account_id: str) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        letters, is_going_on, scrape = 0, True, partial(self._scrape, account_id)
        for action in actions:
            row: dict[str, Any] = {"type": action.type, "status": "skipped", "error": None}
            results.append(row)
            if not is_going_on:
                continue
            try:
                found = await perform(page, action, scrape)
            except (UpstreamError, LimitError) as exc:
                reason = exc.reason if isinstance(exc, NotFound) else None
                row |= {"status": "failed", "error": {"message": str(exc), "reason": reason}}
                is_going_on = False
                continue
            letters += len(str(found))
            row |= {"status": "ok", **found}
            is_going_on = letters <= RESULT_LETTERS_MAX
        return results

    async def _scrape(self, account_id: str, html: str, url: str, action: Action) -> dict[str, Any]:
        wanted = {"formats": formats_of(action), "only_main_content": action.only_main_content}
        arguments = (html.encode("utf-8", "replace"), "text/html; charset=utf-8", url, url, wanted)
        task = Task("upstreams.web.reading.document:read_document", arguments, {})
        deadline_at = trio.current_time() + _READ_S
        answer = await self._site.workers.run(task, deadline_at, source="page", account_id=account_id)
        read: dict[str, Any] = answer.body
        content = {name: read[name] for name in ("markdown", "html", "raw_html", "text")}
        return {"url": url, "content": content, "links": read["links"], "metadata": read["metadata"]}


async def _check_selectors(page: BrowserPage, actions: Sequence[Action]) -> None:
    """Reject selectors that the browser cannot parse, before any action runs.

    Raises:
        InvalidArgument: A selector is invalid; the error names the field.
    """
    for number, action in enumerate(actions):
        if action.selector is not None and not await page.takes(action.selector):
            raise InvalidArgument(f"actions[{number}].selector", "is not a CSS selector that the browser can read")
