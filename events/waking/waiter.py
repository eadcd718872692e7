"""One reader that waits for its account's log to grow: the states of a long-poll, and of a stream between its reads.

listen --> AWAKE --(wait)--> PARKED --(wake: MOVED; expire: TIME_UP; close: CLOSING; disconnect: GONE)--> AWAKE
             |                 '--(wake, with a `begin_read`)--> FETCHING --(deliver: MOVED; disconnect: GONE)--> AWAKE
             |
             '--(wait, with `gone`)--> HEARING --(wake: MOVED; `until`: TIME_UP; close: CLOSING)--> AWAKE
                                          '--(`gone` returns, disconnect: GONE)--> AWAKE

While AWAKE, the reader's task reads the store (`gateway/feed/polling.py`, `following.py`). The task answers with the
events that it found, or with the current state when its time is up, or waits again.

If a method is called in a state without an arrow for it, the call is recorded and ends the next wait immediately. A
recorded `wake` lasts until `arm`; `close` and `disconnect` last forever. So no event between a read and the wait after
it is missed. While a page is FETCHING, only a disconnect ends the wait, and the page may lack events that arrive later.

If the reader's key is revoked, each of its waits ends as with `close`, but with REVOKED. If the reader's account is
suspended, each wait ends with SUSPENDED.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from events.filters import ALL, AppendedEvent, Filters
from events.sleeper import Sleeper
from limits.timers import Deadlines

KEY_REVOKED: Final = "key.revoked"
ACCOUNT_SUSPENDED: Final = "account.suspended"
BeginRead = Callable[[Sleeper], None]


class WaiterState(enum.Enum):
    """The state of the reader's task."""

    AWAKE = "it reads the store or answers"
    PARKED = "it sleeps, and any reason to end the wait wakes it"
    FETCHING = "it sleeps while its page is read for it"
    HEARING = "it waits for its client to disconnect, under a cancel scope"


class WaitEnd(enum.Enum):
    """Why a wait ended."""

    MOVED = "moved"
    TIME_UP = "time up"
    GONE = "gone"
    CLOSING = "closing"
    REVOKED = "revoked"
    SUSPENDED = "suspended"


_BLOCKED_BY: Final = {KEY_REVOKED: WaitEnd.REVOKED, ACCOUNT_SUSPENDED: WaitEnd.SUSPENDED}


class Waiter(Sleeper):
    """One reader of an account's log."""

    __slots__ = (
        "_begin_read",
        "_blocked",
        "_closing",
        "_deadlines",
        "_disconnected",
        "_filters",
        "_key_id",
        "_moved",
        "_scope",
        "_seen_pos",
        "_state",
        "account_id",
        "is_behind",
        "read_since",
    )

    def __init__(self, account_id: str, key_id: str, deadlines: Deadlines) -> None:
        """`deadlines` ends the waits whose time is up."""
        super().__init__()
        self.account_id = account_id
        self.is_behind = False
        """Whether the log has grown since `arm`, even if only by events that do not match."""
        self.read_since = 0.0
        """When the read of `found` began, on Trio's clock."""
        self._key_id = key_id
        self._deadlines = deadlines
        self._filters = ALL
        self._seen_pos = 0
        self._begin_read: BeginRead | None = None
        self._state = WaiterState.AWAKE
        self._scope: trio.CancelScope | None = None
        self._moved = False
        self._closing = False
        self._disconnected = False
        self._blocked: WaitEnd | None = None

    @property
    def is_parked(self) -> bool:
        """Whether the waiter is waiting at this moment."""
        return self._state is not WaiterState.AWAKE

    def arm(self) -> None:
        """Reset the record that the log has grown. Call this before reading the store again."""
        self._moved = self.is_behind = False

    @property
    def has_moved(self) -> bool:
        """Whether a matching event has arrived since `arm`, so that a wait would end immediately."""
        return self._moved

    def expect(self, filters: Filters, *, behind: int, begin_read: BeginRead | None = None) -> None:
        """Record that events up to the position `behind` were read, and that `filters` select the events to wait for.

        With `begin_read`, an event starts a read whose result is delivered to this waiter. A wait without `gone` then
        ends only with that delivery: the task is woken once, with the result in `found`.
        """
        self._filters = filters
        self._seen_pos = behind
        self._begin_read = begin_read

    async def wait(self, until: float, gone: Callable[[], Awaitable[object]] | None = None) -> WaitEnd:
        """Wait until an event arrives after `arm`, Trio's clock reaches `until`, or `gone` returns.

        With `gone`, the task waits in `gone`, under a cancel scope. All other reasons to end the wait cancel that
        scope, so a waiting reader needs no second task. Without `gone`, a call to `disconnect` reports that the client
        is gone. Events and deadlines then cancel no scope, which would take a third of the CPU time.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self.found = None
        if self._moved or self._closing or self._disconnected or self._blocked:
            await trio.lowlevel.cancel_shielded_checkpoint()
        elif gone is None:
            self._state = WaiterState.PARKED
            self._deadlines.set(self, until)
            try:
                await self.sleep()
            finally:
                self._deadlines.clear(self)
        else:
            self._state = WaiterState.HEARING
            with trio.CancelScope(deadline=until) as scope:
                self._scope = scope
                try:
                    await gone()
                finally:
                    self._scope = None
                    self._state = WaiterState.AWAKE
            if not scope.cancelled_caught:
                return WaitEnd.GONE
        return self._end()

    def observe(self, event: AppendedEvent) -> None:
        """End the wait if the reader may read this event and has not read it yet, or if its key was revoked.

        A suspension of the account also ends the wait.
        """
        if event.type in _BLOCKED_BY and event.subject_id in (self._key_id, self.account_id):
            self._blocked = _BLOCKED_BY[event.type]
            self._end_wait()
            return
        if self._moved or event.pos <= self._seen_pos:
            return
        if event.key_id in (None, self._key_id) and self._filters.admit(event):
            self.wake()
        else:
            self.is_behind = True

    def observe_end(self, last_pos: int) -> None:
        """End the wait if the log has grown beyond the last read position."""
        if last_pos > self._seen_pos:
            self.wake()

    def wake(self) -> None:
        """Wake the task so that it reads the store again, or start that read for the task."""
        if self._state is WaiterState.PARKED and self._begin_read is not None:
            self._state = WaiterState.FETCHING
            self.is_behind = False  # as in `arm`: the read that begins here will find the event
            self.read_since = trio.current_time()
            self._begin_read(self)
        else:
            self._moved = True
            self._end_wait()

    def expire(self) -> None:
        """End the wait because its time is up."""
        self._end_wait()

    def close(self) -> None:
        """End all waits because the node stops."""
        self._closing = True
        self._end_wait()

    def disconnect(self) -> None:
        """End all waits because the client is gone."""
        self._disconnected = True
        if self._state is WaiterState.FETCHING:
            self.resume()
        else:
            self._end_wait()

    def resume(self) -> None:
        """Wake the task, if it is sleeping."""
        self._state = WaiterState.AWAKE
        super().resume()

    def _abort(self, raise_cancel: object) -> trio.lowlevel.Abort:
        self._state = WaiterState.AWAKE
        return super()._abort(raise_cancel)

    def _end_wait(self) -> None:
        if self._state is WaiterState.PARKED:
            self.resume()
        elif self._scope is not None:
            self._scope.cancel()

    def _end(self) -> WaitEnd:
        """Return why the wait ended. If several reasons apply, return the one with the highest priority."""
        if self._disconnected:
            return WaitEnd.GONE
        if self._blocked is not None:
            return self._blocked
        if self.found is not None:
            return WaitEnd.MOVED
        if self._closing:
            return WaitEnd.CLOSING
        return WaitEnd.MOVED if self._moved else WaitEnd.TIME_UP
