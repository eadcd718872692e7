"""Sessions cancelled at each step, on each real engine: their reserved credits are either used or refunded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from typing import Any

import pytest
import trio

from scheduler.errors import WebSessionOver
from scheduler.sessions.holder import HolderSetting, SessionHolder, open_holder
from scheduler.sessions.records import price_of
from scheduler.sessions.service import SessionDraft, SessionOwner, SessionService
from scheduler.sessions.session_rows import LEASE_S
from storage.supervision import unsupervised
from tests.fakes.cancelling import cancel_everywhere
from tests.scheduler.desk import Desk
from upstreams.model.errors import PageTooCostly
from upstreams.web.browser.actions import Action
from upstreams.web.browser.page import PageIds

CREDITS = 10_000


class ScriptedPages:
    """A browser whose pages open immediately. `open_now` contains the open pages."""

    def __init__(self) -> None:
        self.open_now = 0
        self.is_costly = False

    @asynccontextmanager
    async def open(self, url: str, *, mobile: bool) -> AsyncIterator[PageIds]:
        await trio.lowlevel.checkpoint()
        if self.is_costly:
            raise PageTooCostly
        self.open_now += 1
        try:
            yield PageIds("context", "target")
        finally:
            self.open_now -= 1

    async def run(self, target_id: str, actions: Sequence[Action], *, account_id: str) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"url": "https://example.com/", "results": []}


class Owned:
    """An account that opens, uses, extends and closes sessions, and the account's ledger."""

    def __init__(self, desk: Desk, account: str, key: str) -> None:
        self._desk = desk
        self._account = account
        self._key = key
        self._numbers = count(1)
        self.pages = ScriptedPages()
        log: Any = desk.log
        self.setting = HolderSetting(
            store=desk.store,
            charges=desk.charges,
            pages=self.pages,
            log=log,
            keep=unsupervised,
            now=desk.now,
            is_alone=True,
        )
        self.lives = 0

    def service(self, holder: SessionHolder) -> SessionService:
        desk = self._desk
        return SessionService(
            desk.store, desk.charges, holder, self.pages, now=desk.now, make_id=desk.make_id, held_max=10
        )

    async def live(self, holder: SessionHolder) -> None:
        """Run one session from its start to its end."""
        service, account = self.service(holder), self._account
        session = await service.open(await service.begin(SessionDraft("https://example.com/", 600), self.owner()))
        await service.execute(account, session.id, [Action("scrape")])
        self._desk.time += 400.0
        await service.set_time(self.owner(), session.id, 3_600)
        closed = await service.close(account, session.id)
        assert (closed.held_credits, closed.used_credits) == (20, 5)
        self.lives += 1

    def owner(self) -> SessionOwner:
        return SessionOwner(self._account, self._key, f"req_{next(self._numbers):032x}")

    async def close_all(self, holder: SessionHolder) -> None:
        """Close the remaining sessions as their owner."""
        service = self.service(holder)
        for session in await service.page(self._account, before=None, limit=100):
            await service.close(self._account, session.id)
        with trio.fail_after(10):
            while service.held():
                await trio.lowlevel.checkpoint()

    async def assert_conserved(self) -> None:
        """Check that all sessions and pages are closed, and that all reserved credits were used or refunded."""
        assert self.pages.open_now == 0
        sql = "SELECT status, used_credits, held_credits FROM web_sessions"
        rows = await self._desk.store.read(lambda tx: tx.all(sql, ()))
        assert {status for status, _, _ in rows} <= {"closed"}
        assert all(0 <= used <= held for _, used, held in rows)
        assert await self._desk.money(self._account) == (CREDITS - sum(used for _, used, _ in rows), 0)


async def owned(desk: Desk) -> Owned:
    account = await desk.account(CREDITS)
    return Owned(desk, account, (await desk.keys.create(account)).id)


@pytest.mark.critical
async def test_session_with_a_too_costly_page_is_charged_the_minimum_price(desk: Desk) -> None:
    one = await owned(desk)
    one.pages.is_costly = True
    async with open_holder(one.setting) as holder:
        service, owner = one.service(holder), one.owner()
        session = await service.begin(SessionDraft("https://example.com/", 3_600), owner)
        with pytest.raises(PageTooCostly):
            await service.open(session)
        closed = await service.get(owner.account_id, session.id)
    assert (closed.closed_because, closed.held_credits, closed.used_credits) == ("page_too_costly", 20, 5)
    await one.assert_conserved()


async def test_client_disconnect_at_any_step_leaves_closable_sessions(
    desk: Desk,
) -> None:
    """Goal: `used + refunded = reserved`. Method: cancel opening, use, extension and closing at each step."""
    one = await owned(desk)
    async with open_holder(one.setting) as holder:

        async def check(_got_through: bool) -> None:
            await one.close_all(holder)
            await one.assert_conserved()

        assert await cancel_everywhere(partial(one.live, holder), check) > 5
    assert one.lives in (1, 2), "a write that the store's thread has started is awaited"


async def test_node_stopped_at_any_step_settles_every_session(desk: Desk) -> None:
    """Method: cancel the node and its client at each of their steps; the next node closes the remaining sessions."""
    one = await owned(desk)

    async def run() -> None:
        async with open_holder(one.setting) as holder:
            with suppress(WebSessionOver):  # the node has closed the session during the call
                await one.live(holder)

    async def check(_got_through: bool) -> None:
        async with open_holder(one.setting):
            pass
        await one.assert_conserved()

    assert await cancel_everywhere(run, check) > 10
    assert one.lives >= 1


async def test_late_poll_keeps_the_nodes_own_sessions(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: let the lease of an open session expire between two polls, many times."""
    monkeypatch.setattr("scheduler.sessions.holder.CHECK_S", 0.001)
    one = await owned(desk)
    async with open_holder(one.setting) as holder:
        service = one.service(holder)
        session = await service.open(await service.begin(SessionDraft("https://example.com/", 3_600), one.owner()))
        for _ in range(20):
            desk.time += 2 * LEASE_S
            with trio.fail_after(10):
                while session.lease_until < desk.now():
                    session = await service.get(session.account_id, session.id)
            assert session.status == "open"
        closed = await service.close(session.account_id, session.id)
    assert (closed.closed_because, closed.used_credits) == ("owner", price_of(20 * 2 * LEASE_S))
