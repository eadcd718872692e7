"""The readers that wait for their account's log to grow, and the messages that wake them.

A message only says that there may be new events, and a waiter that wakes reads the store again. A lost message
therefore delays an event, but never loses it. If nodes send messages through a server that may lose them,
`keep_checking` limits the delay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec
import trio

from events.filters import AppendedEvent
from events.log.pages import read_heads
from events.waking.waiter import Waiter
from limits.timers import Deadlines
from storage.errors import StorageError
from storage.state import RECHECK, State
from storage.store import Store

CHANNEL = b"events"
CHECK_EVERY_S = 5.0
"""The maximum time in seconds until another node notices an event whose message was lost."""
CHECK_AT_ONCE = 1_000
CLOSED_AT_ONCE = 500

Follow = Callable[[Sequence[AppendedEvent]], None]
"""Receives appended events. Must neither raise nor block."""

_json: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(list[AppendedEvent])


def _parse_appended(message: bytes) -> list[AppendedEvent] | None:
    """Return the events in a message; None for a message of another version, which still wakes readers."""
    try:
        return _decoder.decode(message)
    except msgspec.MsgspecError:
        return None


class Hub:
    """The waiters of one node, by account. Publishes the node's new events to these waiters and to other nodes."""

    def __init__(self, state: State | None = None) -> None:
        """`state` carries messages between nodes; None if this node is the only one."""
        self._state = state
        self._waiting: dict[str, dict[Waiter, None]] = {}
        self._check_now = trio.Event()
        self._closing = False
        self._followers: list[Follow] = []
        self.deadlines = Deadlines()
        """The deadlines of the hub's waiters."""
        self.appended: Counter[str] = Counter()
        """How many events of each type this node has written since the start."""

    @property
    def is_shared(self) -> bool:
        """Whether there are other nodes, which also publish."""
        return self._state is not None

    def follow(self, follower: Follow) -> None:
        """Call `follower` with events that this or another node appends from now on."""
        self._followers.append(follower)

    def __len__(self) -> int:
        """Return how many readers wait or are about to wait."""
        return sum(map(len, self._waiting.values()))

    def parked(self) -> int:
        """Return how many readers are waiting at this moment."""
        return sum(waiter.is_parked for waiter in self._all())

    def listen(self, account_id: str, key_id: str) -> Waiter:
        """Return a waiter that observes all appended events until `leave`. Call this before reading the store."""
        waiter = Waiter(account_id, key_id, self.deadlines)
        if self._closing:
            waiter.close()
        self._waiting.setdefault(account_id, {})[waiter] = None
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Remove the waiter."""
        of_account = self._waiting[waiter.account_id]
        del of_account[waiter]
        if not of_account:
            del self._waiting[waiter.account_id]

    def publish(self, appended: Sequence[AppendedEvent]) -> None:
        """Wake the readers, on this and other nodes, that wait for these events, which this node has committed."""
        self.appended.update(event.type for event in appended)
        self._observe(appended)
        if self._state is not None:
            self._state.publish(CHANNEL, _json.encode(appended))

    async def close(self) -> None:
        """End all current and future waits, because the node stops.

        Waiters are closed in groups, because closing ten thousand in one go would block the event loop.
        """
        self._closing = True
        for nth, waiter in enumerate(self._all(), start=1):
            waiter.close()
            if nth % CLOSED_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()

    def _observe(self, appended: Sequence[AppendedEvent]) -> None:
        for follower in self._followers:
            follower(appended)
        for event in appended:
            of_account = self._waiting.get(event.account_id)
            if of_account:
                for waiter in of_account:
                    waiter.observe(event)

    def _all(self) -> list[Waiter]:
        return [waiter for of_account in self._waiting.values() for waiter in of_account]

    async def keep_receiving(self) -> None:
        """Wake readers when other nodes append events, until cancelled."""
        assert self._state is not None
        async with self._state.subscribe(CHANNEL) as messages:
            async for message in messages:
                appended = None if message == RECHECK else _parse_appended(message)
                if appended is None:
                    self._check_now.set()
                else:
                    self._observe(appended)

    async def keep_checking(self, store: Store) -> None:
        """Check the store for events whose messages were lost, at least every `CHECK_EVERY_S`, until cancelled."""
        while True:
            with trio.move_on_after(CHECK_EVERY_S):
                await self._check_now.wait()
            self._check_now = trio.Event()
            try:
                await self._check_store(store)
            except StorageError:  # the waiters that time out will report that the store is unavailable
                await trio.lowlevel.checkpoint()

    async def _check_store(self, store: Store) -> None:
        accounts = list(self._waiting)
        for first in range(0, len(accounts), CHECK_AT_ONCE):
            heads = await store.read(partial(read_heads, account_ids=accounts[first : first + CHECK_AT_ONCE]))
            for account_id, head in heads.items():
                for waiter in self._waiting.get(account_id, ()):
                    waiter.observe_end(head.last_pos)
