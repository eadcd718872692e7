"""One reader that waits for its account's log to move."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable

import trio

from events.filters import ALL, Filters, Moved
from events.sleeper import Sleeper
from limits.timers import Deadlines

BeginRead = Callable[[Sleeper], None]


class WaitEnd(enum.Enum):
    """Why a wait is over."""

    MOVED = "moved"
    TIME_UP = "time up"
    GONE = "gone"
    CLOSING = "closing"


class Waiter(Sleeper):
    """One reader of an account's log."""

    __slots__ = (
        "_begin_read",
        "_closing",
        "_deadlines",
        "_filters",
        "_has_left",
        "_is_reading",
        "_key_id",
        "_moved",
        "_scope",
        "_seen_pos",
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
        self._is_reading = False
        self._moved = False
        self._closing = False
        self._has_left = False
        self._scope: trio.CancelScope | None = None

    @property
    def is_parked(self) -> bool:
        """Whether it waits at this moment."""
        return self._scope is not None or self._task is not None

    def arm(self) -> None:
        """Forget what was told: whatever comes from now on counts. Called before the store is read again."""
        self._moved = self.is_behind = False

    @property
    def has_news(self) -> bool:
        """Whether something was told since `arm`: a wait would be over before it began."""
        return self._moved

    def expect(self, filters: Filters, *, behind: int, begin_read: BeginRead | None = None) -> None:
        """It has read up to the position `behind`, and waits for what `filters` admit.

        With `begin_read`, which has what is read given to it, news end a wait without `gone` once the store has been
        read for it: it is woken once, with what was `found`.
        """
        self._filters = filters
        self._seen_pos = behind
        self._begin_read = begin_read

    async def wait(self, until: float, gone: Callable[[], Awaitable[object]] | None = None) -> WaitEnd:
        """Wait until something was told since `arm`, until Trio's clock shows `until`, or until `gone` returns.

        `gone` is the only thing waited in, under one cancel scope that all other ends cancel: a parked poll needs no
        task beside its own. Without it the client's end comes by `lose`, and neither what it is told nor its deadline
        needs a cancellation, which takes a third of the CPU.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self.found = None
        has_left = self._has_left
        if self._moved or self._closing or has_left:
            await trio.lowlevel.cancel_shielded_checkpoint()
        elif gone is None:
            self._deadlines.set(self, until)
            try:
                await self.sleep()
            finally:
                self._is_reading = False
                self._deadlines.clear(self)
            has_left = self._has_left
        else:
            with trio.CancelScope(deadline=until) as scope:
                self._scope = scope
                try:
                    await gone()
                finally:
                    self._scope = None
            has_left = not scope.cancelled_caught
        if has_left:
            return WaitEnd.GONE
        if self.found is not None:
            return WaitEnd.MOVED
        if self._closing:
            return WaitEnd.CLOSING
        return WaitEnd.MOVED if self._moved else WaitEnd.TIME_UP

    def tell(self, moved: Moved) -> None:
        """Wake it if it may read this event and has not."""
        if self._moved or moved.pos <= self._seen_pos:
            return
        if moved.key_id in (None, self._key_id) and self._filters.admit(moved):
            self.wake()
        else:
            self.is_behind = True

    def look(self, last_pos: int) -> None:
        """Wake it if the log has grown behind what it has read."""
        if last_pos > self._seen_pos:
            self.wake()

    def wake(self) -> None:
        """Let it read the store again, or read it for it; what comes while that is under way has to be read too."""
        if self._begin_read is None or self._is_reading or self._task is None:
            self._moved = True
            self._end_wait()
        else:
            self._is_reading = True
            self.is_behind = False  # as `arm`: this read finds it
            self.read_since = trio.current_time()
            self._begin_read(self)

    def lose(self) -> None:
        """Its client is gone."""
        self._has_left = True
        self._is_reading = False
        self._end_wait()

    def close(self) -> None:
        """Let it answer with what it has."""
        self._closing = True
        self._end_wait()

    def expire(self) -> None:
        """End its wait: the time is up."""
        self._end_wait()

    def _end_wait(self) -> None:
        if self._scope is not None:
            self._scope.cancel()
        elif not self._is_reading:
            self.rouse()
