"""The sessions that a node holds open: their pages, their leases, and their guaranteed end (decisions 21).

A session's credits and its state are in one row. The first transaction that closes this row closes the session, on any
node: because its owner asks for it, its time is up, or its node is gone. The node with the page sees this at its next
poll and closes the page. The pages of a dead node are closed by the browser itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import trio

from billing.charges.charges import Charges
from limits.errors import LimitError
from scheduler.clock.instants import instant_of
from scheduler.leased_workers import LeasedKind, LeasedWorkers, WorkLease
from scheduler.log import OperatorLog
from scheduler.sessions import session_rows
from scheduler.sessions.records import TOO_COSTLY, SessionPages, SessionRecord
from storage.errors import StorageError
from storage.store import Store, Tx
from storage.supervision import Keep
from upstreams.model.errors import PageTooCostly, UpstreamError

CHECK_S: Final = 2.0
LOST_AT_ONCE: Final = 50
SETTLE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class HolderSetting:
    """The dependencies of a holder. `is_alone` means that no other process uses this store.

    `pages` is None without a browser.
    """

    store: Store
    charges: Charges
    pages: SessionPages | None
    log: OperatorLog
    keep: Keep
    now: Callable[[], float]
    is_alone: bool


@dataclass(slots=True)
class _Held:
    """A session held by this node. Only its own task and the lease renewal change it."""

    session: SessionRecord
    opened: trio.Event = field(default_factory=trio.Event)
    failure: Exception | None = None
    over: trio.Event = field(default_factory=trio.Event)
    because: str | None = None
    """Why this node closes the session. None if it was closed in the store."""


class SessionHolder:
    """Holds sessions in `nursery`, which owns a task for each session."""

    def __init__(self, setting: HolderSetting, nursery: trio.Nursery) -> None:
        self._store = setting.store
        self._charges = setting.charges
        self._pages = setting.pages
        self._log = setting.log
        self._now = setting.now
        self._is_alone = setting.is_alone
        self.node = setting.charges.node
        self.leases_at = instant_of(setting.now, is_alone=setting.is_alone)
        kind = LeasedKind(
            name="session",
            lease_of=_lease_of,
            run=self._hold,
            fail=self._fail,
            renew=self._renew,
            renew_every_s=CHECK_S,
        )
        self._held = LeasedWorkers(kind, nursery, setting.log)
        self.keep_renewing = self._held.keep_renewing

    def __len__(self) -> int:
        return len(self._held)

    async def open(self, session: SessionRecord) -> None:
        """Open the page of a stored session, and hold the session, even if the caller is cancelled.

        Raises:
            UpstreamError, LimitError: the page could not be opened. The session is closed, and charged only if the page
                was too costly.
        """
        held = _Held(session)
        self._held.start([held])
        await held.opened.wait()
        if held.failure is not None:
            raise held.failure

    def release(self, session_id: str) -> None:
        """Close the page of a session that was closed in the store."""
        if (held := self._held.get(session_id)) is not None:
            held.over.set()

    async def keep_closing_lost(self) -> None:
        """Close the sessions of dead nodes, until cancelled."""
        while True:
            try:
                await self._close_lost()
            except StorageError as exc:
                self._log.event("warning", "sessions_not_kept", error=str(exc))
            await trio.sleep(CHECK_S)

    async def adopt(self) -> None:
        """Close all sessions of an earlier process. Only for a store that one process owns."""
        if self._is_alone:
            await self._store.write(lambda tx: session_rows.orphan_sessions(tx, self.leases_at(tx)))
            await self._close_lost()

    async def _hold(self, held: _Held) -> None:
        """Hold one session until it ends, and settle it."""
        session, because, pages = held.session, "node_stopped", self._pages
        assert pages is not None, "a node without a browser starts no sessions"
        try:
            async with pages.open(session.url, mobile=bool(session.mobile)) as opened:
                mark = partial(session_rows.mark_opened, session=session, opened=opened, now=self._now())
                if await self._store.write(mark):
                    held.opened.set()
                    because = await self._wait_until_over(held)
        except (UpstreamError, LimitError) as failure:
            is_costly, was_open = isinstance(failure, PageTooCostly), held.opened.is_set()
            because = TOO_COSTLY if is_costly else "browser_lost" if was_open else "failed"
            held.failure = failure
        except StorageError as failure:
            self._log.event("warning", "session_not_kept", session=session.id, error=str(failure))
        except Exception as failure:
            because = "browser_lost" if held.opened.is_set() else "failed"
            held.failure = failure
            raise
        finally:
            try:
                with trio.move_on_after(SETTLE_S, shield=True):
                    await self._close(session.id, because)
            finally:
                held.opened.set()

    async def _fail(self, held: _Held) -> None:
        """Do nothing: `_hold` has closed the session, or another node will close it once its lease has expired."""

    async def _wait_until_over(self, held: _Held) -> str:
        """Wait until the session ends, and return why.

        The store ignores the reason if the session was closed before.
        """
        while not held.over.is_set():
            left_s = held.session.expires_at - self._now()
            if left_s <= 0:
                return "expired"
            with trio.move_on_after(min(left_s, CHECK_S)):
                await held.over.wait()
        return held.because or "closed"

    async def _renew(self, session_ids: list[str]) -> None:
        """Renew the leases of the sessions held here, and release the sessions that have ended."""
        known, revoked = await self._store.write(partial(self._renew_rows, session_ids=session_ids))
        for session in known:
            held = self._held.get(session.id)
            if held is None:
                continue
            held.session = session
            if session.is_over or session.node != self.node:
                held.over.set()
            elif session.key_id in revoked:
                held.because = "key_revoked"
                held.over.set()

    def _renew_rows(self, tx: Tx, *, session_ids: list[str]) -> tuple[list[SessionRecord], set[str]]:
        known = session_rows.renew(tx, session_ids, self.node, self.leases_at(tx))
        return known, session_rows.revoked_keys(tx, sorted({one.key_id for one in known}))

    async def _close_lost(self) -> None:
        """Close the sessions of dead nodes. Each is charged until the last renewal of its lease.

        A session held by this node is not lost, even if its lease has expired because the renewal is late.
        """
        look = lambda tx: session_rows.lost_sessions(tx, self.leases_at(tx), LOST_AT_ONCE)  # noqa: E731
        for session_id in await self._store.read(look):
            if session_id not in self._held:
                await self._store.write(partial(self._settle_lost, session_id=session_id))

    def _settle_lost(self, tx: Tx, *, session_id: str) -> None:
        session = session_rows.read_session(tx, session_id)
        if session is not None and session.lease_until < self.leases_at(tx):
            ended_at = session.lease_until - session_rows.LEASE_S
            session_rows.settle(tx, self._charges, session_id, ended_at=ended_at, because="node_lost")

    async def _close(self, session_id: str, because: str) -> None:
        await self._store.write(
            lambda tx: session_rows.settle(tx, self._charges, session_id, ended_at=self._now(), because=because)
        )


def _lease_of(held: _Held) -> WorkLease:
    return WorkLease(held.session.id, held.session.account_id)


@asynccontextmanager
async def open_holder(setting: HolderSetting) -> AsyncIterator[SessionHolder]:
    """Run a holder while the block runs. Sessions still held when the block ends are closed.

    Raises:
        StorageError: the store is unavailable.
    """
    async with trio.open_nursery() as nursery:
        holder = SessionHolder(setting, nursery)
        await holder.adopt()
        if setting.pages is not None:
            nursery.start_soon(setting.keep, "session_leases", holder.keep_renewing)
            nursery.start_soon(setting.keep, "sessions", holder.keep_closing_lost)
        yield holder
        nursery.cancel_scope.cancel()
