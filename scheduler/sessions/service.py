"""The owner's operations on sessions: open, list, extend, run actions and close (decisions 21)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

import orjson
import trio

from billing.charges.batch_rows import ChargeRequest
from billing.charges.charge_rows import READ_ACCOUNTS
from billing.charges.charges import Charges
from scheduler.errors import SessionLimitReached, SessionTimePassed, WebSessionOver
from scheduler.sessions import session_rows
from scheduler.sessions.holder import SessionHolder
from scheduler.sessions.records import SessionPages, SessionRecord, price_of
from storage.store import Store, Tx, Write
from upstreams.model.errors import InvalidArgument, UpstreamThrottled
from upstreams.web.browser.actions import Action

EACH_MAX: Final = 5
"""The maximum number of open sessions of an account, but on small nodes at most half of the node's sessions."""
PLATFORM: Final = "web"
PATH: Final = "/v1/web/sessions"
_FULL_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class SessionDraft:
    """A session that can be opened."""

    url: str
    ttl_s: int
    idle_s: int | None = None
    mobile: bool = False


@dataclass(frozen=True, slots=True)
class SessionOwner:
    """The account, the key and the request that open a session or change its time."""

    account_id: str
    key_id: str
    request_id: str


class SessionService:
    """Sessions. Every method takes an account id, and treats sessions of other accounts as unknown."""

    def __init__(
        self,
        store: Store,
        charges: Charges,
        holder: SessionHolder,
        pages: SessionPages | None,
        *,
        now: Callable[[], float],
        make_id: Callable[[str], str],
        held_max: int,
    ) -> None:
        """`pages` is None if the node has no browser. `held_max` is the maximum number of sessions on the node."""
        self._store = store
        self._charges = charges
        self._holder = holder
        self._pages = pages
        self._now = now
        self._make_id = make_id
        self._held_max = held_max
        self._each_max = min(EACH_MAX, max(1, held_max // 2))
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()

    def check_means(self, param: str) -> SessionPages:
        """Return the browser.

        Raises:
            InvalidArgument: the node has no browser, so the parameter `param` cannot be used.
        """
        if self._pages is None:
            raise InvalidArgument(
                param, "requires a browser, which this node does not have", reason="capability_missing"
            )
        return self._pages

    def held(self) -> int:
        """Return the number of sessions whose pages this node holds or is opening."""
        return len(self._holder)

    async def begin(self, draft: SessionDraft, owner: SessionOwner, *, write: Write | None = None) -> SessionRecord:
        """Reserve the price of a session's time and store the session, in one transaction. `open` opens its page.

        `write` replaces the store's own write, so that the caller can record the result in the same transaction.

        Raises:
            SessionLimitReached, UpstreamThrottled: the account or the node has no room for another session.
            InsufficientCredits, KeyBudgetReached, KeyUnusable, StorageError: nothing was reserved.
        """
        if self.held() >= self._held_max:
            raise UpstreamThrottled("browser", _FULL_S)
        return await (write or self._store.write)(partial(self._add, draft=draft, owner=owner))

    def _add(self, tx: Tx, *, draft: SessionDraft, owner: SessionOwner) -> SessionRecord:
        held = price_of(draft.ttl_s)
        wanted = ChargeRequest(owner.request_id, owner.account_id, owner.key_id, held, PLATFORM, PATH)
        self._charges.reserve(tx, wanted)
        if session_rows.live_sessions(tx, owner.account_id) >= self._each_max:
            raise SessionLimitReached(self._each_max)
        now = self._now()
        session = SessionRecord(
            id=self._make_id("ws_"),
            account_id=owner.account_id,
            key_id=owner.key_id,
            url=draft.url,
            mobile=int(draft.mobile),
            status="opening",
            closed_because=None,
            charges=orjson.dumps([[owner.request_id, held, owner.key_id]]).decode(),
            held_credits=held,
            used_credits=0,
            ttl_s=draft.ttl_s,
            idle_s=draft.idle_s,
            context_id=None,
            target_id=None,
            node=self._holder.node,
            lease_until=self._holder.leases_at(tx) + session_rows.LEASE_S,
            created_at=now,
            opened_at=None,
            active_at=now,
            closed_at=None,
        )
        session_rows.add_session(tx, session)
        return session

    async def open(self, session: SessionRecord) -> SessionRecord:
        """Open a session's page, and return the session.

        Raises:
            UpstreamError, LimitError: the page could not be opened. The session is closed, and charged only if the page
            was too costly.
        """
        await self._holder.open(session)
        return await self.get(session.account_id, session.id)

    async def get(self, account_id: str, session_id: str) -> SessionRecord:
        """Return one session.

        Raises:
            SessionUnknown: the account has no such session.
        """
        return await self._store.read(partial(session_rows.owned, account_id=account_id, session_id=session_id))

    async def page(self, account_id: str, *, before: tuple[float, str] | None, limit: int) -> list[SessionRecord]:
        """Return a page of sessions, newest first."""
        read = partial(session_rows.sessions_page, account_id=account_id, before=before, limit=limit)
        return await self._store.read(read)

    async def set_time(self, owner: SessionOwner, session_id: str, ttl_s: int) -> SessionRecord:
        """Set how many seconds after its start a session ends.

        Additional time is reserved now; unused time is refunded when the session ends.

        Raises:
            SessionUnknown, WebSessionOver, SessionTimePassed: nothing was changed.
            InsufficientCredits, KeyBudgetReached, KeyUnusable, StorageError: nothing was changed.
        """
        return await self._store.write(partial(self._set_time, owner=owner, session_id=session_id, ttl_s=ttl_s))

    def _set_time(self, tx: Tx, *, owner: SessionOwner, session_id: str, ttl_s: int) -> SessionRecord:
        tx.all_in(READ_ACCOUNTS, [owner.account_id])
        session = _live(session_rows.owned(tx, owner.account_id, session_id, locked=True))
        if session.created_at + ttl_s <= self._now():
            raise SessionTimePassed
        more = max(0, price_of(ttl_s) - session.held_credits)
        charges = orjson.loads(session.charges)
        if more:
            wanted = ChargeRequest(owner.request_id, owner.account_id, owner.key_id, more, PLATFORM, PATH)
            self._charges.reserve(tx, wanted)
            charges.append([owner.request_id, more, owner.key_id])
        told = orjson.dumps(charges).decode()
        held = session.held_credits + more
        session_rows.change_time(tx, session, ttl_s=ttl_s, charges=told, held_credits=held)
        return replace(session, ttl_s=ttl_s, charges=told, held_credits=held)

    async def close(self, account_id: str, session_id: str) -> SessionRecord:
        """Close a session, charge its time, refund the rest of its reservation, and return the closed session.

        Raises:
            SessionUnknown: the account has no such session.
        """

        def close(tx: Tx) -> SessionRecord:
            session = session_rows.owned(tx, account_id, session_id)
            settled = session_rows.settle(tx, self._charges, session_id, ended_at=self._now(), because="owner")
            return settled or session

        session = await self._store.write(close)
        self._holder.release(session_id)
        return session

    async def execute(self, account_id: str, session_id: str, actions: Sequence[Action]) -> dict[str, Any]:
        """Run actions in order until one fails. Return their results and the page's URL.

        The actions of several calls never interleave on one node.

        Raises:
            SessionUnknown, WebSessionOver, InvalidArgument: no action was run.
            UpstreamError: the page or the browser is gone.
        """
        lock = self._locks.setdefault(session_id, trio.Lock())
        async with lock:
            session = _live(await self.get(account_id, session_id))
            pages = self.check_means("actions")
            is_open = await self._store.write(partial(session_rows.touch, session_id=session_id, now=self._now()))
            if not is_open or session.target_id is None:
                raise WebSessionOver(session_id, session.status)
            try:
                return await pages.run(session.target_id, actions, account_id=account_id)
            finally:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 1.0):
                    await self._store.write(partial(session_rows.touch, session_id=session_id, now=self._now()))


def _live(session: SessionRecord) -> SessionRecord:
    if session.is_over:
        raise WebSessionOver(session.id, session.status)
    return session
