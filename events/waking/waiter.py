"""One reader that waits for its account's log to move: the states of a long-poll, and of a stream between its reads.

listen --> AWAKE --(wait)--> PARKED --(wake: MOVED; expire: TIME_UP; close: CLOSING; disconnect: GONE)--> AWAKE
             |                 '--(wake, with a `begin_read`)--> FETCHING --(deliver: MOVED; disconnect: GONE)--> AWAKE
             |
             '--(wait, with `gone`)--> HEARING --(wake: MOVED; `until`: TIME_UP; close: CLOSING)--> AWAKE
                                          '--(`gone` returns, disconnect: GONE)--> AWAKE

Awake, its task reads the store (`gateway/feed/polling.py`, `following.py`): it answers what it has found, or at the end
of its time what there is, or waits again. What no arrow takes is noted and ends the next wait at once: `wake` until
`arm`, `close` and `disconnect` for good. So nothing that happens between a read and its wait is missed. A page that is
being fetched is waited for whatever else happens, but for the client's end; what comes meanwhile may not be on it.
The end of the reader's key ends each of its waits as `close` does, as REVOKED; so does its account's suspension, as
SUSPENDED.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from events.filters import ALL, Filters, Moved
from events.sleeper import Sleeper
from limits.timers import Deadlines

KEY_REVOKED: Final = "key.revoked"
ACCOUNT_SUSPENDED: Final = "account.suspended"
BeginRead = Callable[[Sleeper], None]


class WaiterState(enum.Enum):
    """Where the reader's task is."""

    AWAKE = "it reads the store or answers"
    PARKED = "it sleeps, and any end wakes it"
    FETCHING = "it sleeps while its page is read for it"
    HEARING = "it listens to its client, under a cancel scope"


class WaitEnd(enum.Enum):
    """Why a wait is over."""

    MOVED = "moved"
    TIME_UP = "time up"
    GONE = "gone"
    CLOSING = "closing"
    REVOKED = "revoked"
    SUSPENDED = "suspended"


_BARS: Final = {KEY_REVOKED: WaitEnd.REVOKED, ACCOUNT_SUSPENDED: WaitEnd.SUSPENDED}


class Waiter(Sleeper):
    """One reader of an account's log."""

    __slots__ = (
        "_barred",
        "_begin_read",
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
        """`deadlines` end its waits."""
        super().__init__()
        self.account_id = account_id
        self.is_behind = False
        """The log has grown since `arm`, if only by what is not for it."""
        self.read_since = 0.0
        """When what was `found` began to be read, by Trio's clock."""
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
        self._barred: WaitEnd | None = None

    @property
    def is_parked(self) -> bool:
        """Whether it waits at this moment."""
        return self._state is not WaiterState.AWAKE

    def arm(self) -> None:
        """Forget that the log has moved: whatever comes from now on counts. Called before the store is read again."""
        self._moved = self.is_behind = False

    @property
    def has_moved(self) -> bool:
        """Whether the log has moved since `arm`: a wait would be over before it began."""
        return self._moved

    def expect(self, filters: Filters, *, behind: int, begin_read: BeginRead | None = None) -> None:
        """Note that it has read up to the position `behind`, and waits for what `filters` admit.

        With `begin_read`, which has what is read delivered to it, an event ends a wait without `gone` once the store
        has been read for it: its task is woken once, with what was `found`.
        """
        self._filters = filters
        self._seen_pos = behind
        self._begin_read = begin_read

    async def wait(self, until: float, gone: Callable[[], Awaitable[object]] | None = None) -> WaitEnd:
        """Wait until the log has moved since `arm`, until Trio's clock shows `until`, or until `gone` returns.

        `gone` is the only thing waited in, under one cancel scope that all other ends cancel: a parked poll needs no
        task beside its own. Without it the client's end comes by `disconnect`, and neither an event nor the deadline
        needs a cancellation, which takes a third of the CPU.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self.found = None
        if self._moved or self._closing or self._disconnected or self._barred:
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

    def observe(self, moved: Moved) -> None:
        """Wake it if it may read this event and has not, or if its key opens nothing from here on."""
        if moved.type in _BARS and moved.subject_id in (self._key_id, self.account_id):
            self._barred = _BARS[moved.type]
            self._end_wait()
            return
        if self._moved or moved.pos <= self._seen_pos:
            return
        if moved.key_id in (None, self._key_id) and self._filters.admit(moved):
            self.wake()
        else:
            self.is_behind = True

    def observe_end(self, last_pos: int) -> None:
        """Wake it if the log has grown behind what it has read."""
        if last_pos > self._seen_pos:
            self.wake()

    def wake(self) -> None:
        """Let it read the store again, or have that read for it."""
        if self._state is WaiterState.PARKED and self._begin_read is not None:
            self._state = WaiterState.FETCHING
            self.is_behind = False  # as `arm`: this read finds it
            self.read_since = trio.current_time()
            self._begin_read(self)
        else:
            self._moved = True
            self._end_wait()

    def expire(self) -> None:
        """End its wait: the time is up."""
        self._end_wait()

    def close(self) -> None:
        """Let it answer with what it has: the node stops."""
        self._closing = True
        self._end_wait()

    def disconnect(self) -> None:
        """Let it end: its client is gone."""
        self._disconnected = True
        if self._state is WaiterState.FETCHING:
            self.resume()
        else:
            self._end_wait()

    def resume(self) -> None:
        """Wake its task, if that sleeps."""
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
        """Why the wait that is over ended, by what counts most."""
        if self._disconnected:
            return WaitEnd.GONE
        if self._barred is not None:
            return self._barred
        if self.found is not None:
            return WaitEnd.MOVED
        if self._closing:
            return WaitEnd.CLOSING
        return WaitEnd.MOVED if self._moved else WaitEnd.TIME_UP
