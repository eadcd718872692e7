"""A link to one server. Calls that are made during a round trip are sent together in the next one, as a pipeline.

| state | what happens | next state |
|---|---|---|
| away | a connection is open and logged in | up |
| away | the attempt fails and is repeated | away |
| up | the connection is lost | away |
| up | a round trip exceeds its deadline | stalled |
| stalled | the late replies arrive | up |
| stalled | no replies arrive | away |

While the link is away or stalled, it refuses every call immediately. A stalled link does not close its connection. One
task sends the queued calls when no call is in flight. Another task receives the replies and delivers them in the order
of the calls.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Protocol

import trio
from coredis.exceptions import InvalidResponse, NoScriptError, ReadOnlyError, RedisError

from storage.errors import StateUnavailable, reason_of
from storage.link_log import LinkLog
from storage.redis.call import RedisCall
from storage.redis.wire import FAULTS, Answer, RedisConnection, end_remains, pack, read_identity
from storage.state import Reply

QUEUE_MAX = 10_000
BATCH_MAX = 512
ROUND_TRIP_S = 0.1
STALL_S = 0.15  # together with one round trip, long enough for TCP to resend a lost packet after 0.2 s
CONNECT_S = 0.5
PAUSE_S, PAUSE_S_MAX = 0.05, 0.5
STEADY_S = 1.0  # after a shorter connection, the pause before reconnecting doubles
GRACE_S = 0.02
LOGGED_MAX = 100
LOG_AGAIN_S = 30.0  # a message is repeated in the log at most once in this time
QUIET_S = 1.0  # an idle link sends a PING at this interval, to detect a frozen server

_log = logging.getLogger(__name__)


class Owner(Protocol):
    """The owner of a link, to which the link reports its state."""

    def connected(self, link: RedisLink) -> None:
        """Called when the link is up."""
        ...

    def lost(self, link: RedisLink) -> None:
        """Called when the link is down, and all its calls have failed."""
        ...

    def pushed(self, message: Reply) -> None:
        """Called with a message pushed by the server."""
        ...

    def refused(self, call: RedisCall, error: RedisError) -> bool:
        """Called with a call that the server refused.

        Return True if the owner retries the call or no outcome is needed.
        """
        ...


class RedisLink:
    """A link. Its owner must run `run` in a task. `connect` opens a connection and logs in."""

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[RedisConnection]],
        owner: Owner,
        *,
        round_trip_s: float,
        log: LinkLog,
    ) -> None:
        self.fault: str | None = "not connected yet"
        self._connect = connect
        self._owner = owner
        self._round_trip_s = round_trip_s
        self._queue: deque[RedisCall] = deque()
        self._in_flight: deque[RedisCall] = deque()
        self._last: tuple[bytes, bytes] | None = None
        self._resend: list[RedisCall] = []
        self._sent_scripts: set[bytes] = set()
        self._sender = trio.lowlevel.ParkingLot()
        self._patience = trio.CancelScope()
        self._rng = Random()
        self._logged_at: dict[str, float] = {}
        self._log = log
        self.calls = self.round_trips = self.lost = self.connects = 0

    @property
    def waiting(self) -> int:
        """The number of calls that have no outcome yet."""
        return len(self._queue) + len(self._in_flight) + len(self._resend)

    def submit(self, call: RedisCall) -> None:
        """Queue a call.

        Raises:
            StateUnavailable: immediately, if the link is down or too many calls wait.
        """
        if self.fault is not None:
            raise StateUnavailable(self.fault)
        if len(self._queue) >= QUEUE_MAX:
            raise StateUnavailable(f"{QUEUE_MAX} calls are already waiting for the server")
        self._queue.append(call)
        if not self._in_flight:
            self._sender.unpark()

    async def run(self) -> None:
        """Keep the link connected until cancelled."""
        pause_s = PAUSE_S
        while True:
            began = trio.current_time()
            await self._use_connection()
            pause_s = PAUSE_S if trio.current_time() - began > STEADY_S + CONNECT_S else min(2 * pause_s, PAUSE_S_MAX)
            await trio.sleep(pause_s * self._rng.uniform(0.5, 1.0))

    async def _use_connection(self) -> None:
        """Open a connection and use it until it is lost. After that, `fault` is the reason for the loss."""
        why = ""
        try:
            with trio.move_on_after(CONNECT_S) as greeting:
                async with self._connect() as connection:
                    await self._end_last(connection)
                    greeting.deadline = math.inf
                    self._sent_scripts.clear()
                    self.connects += 1
                    self._mark_up()
                    await self._serve(connection)
            why = f"no greeting within {CONNECT_S:g} s"
        except* FAULTS as group:
            why = reason_of(group)
        finally:
            if why:
                self._log.down(why)
            self._lose(why or "the link is closed")
            self._in_flight.clear()
            self._owner.lost(self)

    async def _end_last(self, connection: RedisConnection) -> None:
        """End the previous connection on the server, so that none of its failed calls can take effect any more."""
        if self._last is not None:
            await end_remains(connection, self._last)
        self._last = await read_identity(connection)

    def _mark_up(self) -> None:
        self.fault = None
        self._log.up()
        self._owner.connected(self)

    def _lose(self, why: str) -> None:
        """Refuse new calls, and fail all calls without an outcome. The server may still execute the calls in flight."""
        self.fault = why
        flying, queued = [call for call in self._in_flight if not call.is_done], [*self._resend, *self._queue]
        self._resend.clear()
        self._queue.clear()
        self.lost += len(flying) + len(queued)
        for call in flying:
            call.fail(why, happened=None)
        for call in queued:
            call.fail(why)

    async def _serve(self, connection: RedisConnection) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, connection)
            nursery.start_soon(self._keep_alive)
            await self._receive(connection)

    async def _send(self, connection: RedisConnection) -> None:
        """Send queued calls in batches, each as soon as nothing is in flight."""
        while True:
            while not self._queue or self._in_flight:
                await self._sender.park()
            batch = self._take_batch()
            if batch:
                self.calls += len(batch)
                if self._in_flight:
                    self.round_trips += 1
                    self._patience.deadline = trio.current_time() + self._round_trip_s
                await connection.send(b"".join([pack(call.parts) for call in batch]))

    def _take_batch(self) -> list[RedisCall]:
        """Return the next calls to send. Calls of cancelled tasks are dropped."""
        queue = self._queue
        batch: list[RedisCall] = []
        while queue and len(batch) < BATCH_MAX:
            call = queue.popleft()
            if not call.is_left:
                self._include_script(call)
                batch.append(call)
        self._in_flight.extend([call for call in batch if not call.is_silent])
        return batch

    def _include_script(self, call: RedisCall) -> None:
        """Send the text of a script on its first use on a connection."""
        if call.script is not None and call.script.sha not in self._sent_scripts:
            self._sent_scripts.add(call.script.sha)
            call.with_text()

    async def _receive(self, connection: RedisConnection) -> None:
        """Deliver arriving replies. Each round trip has a deadline."""
        while True:
            patience_s = self._round_trip_s if self._in_flight else math.inf
            with trio.move_on_after(patience_s) as self._patience:
                while True:
                    self._take(await connection.receive())
            # If this process was slow, the reply may already have arrived, so read once more.
            with trio.move_on_after(GRACE_S) as grace:
                while self._in_flight:
                    self._take(await connection.receive())
            if grace.cancelled_caught:
                await self._stall(connection)

    async def _stall(self, connection: RedisConnection) -> None:
        """Fail all waiting calls, and wait a moment for late replies."""
        why = f"no response within {self._round_trip_s:g} s"
        self._log_rarely(logging.WARNING, f"the link to Redis stalled: {why}")
        self._lose(why)
        with trio.move_on_after(STALL_S):
            while self._in_flight:
                self._take(await connection.receive())
        if self._in_flight:
            raise trio.TooSlowError(why)
        self._mark_up()

    def _take(self, answers: Sequence[tuple[bool, Answer]]) -> None:
        for is_push, answer in answers:
            if is_push:
                assert not isinstance(answer, RedisError)
                self._owner.pushed(answer)
            elif self._in_flight:
                self._return(self._in_flight.popleft(), answer)
            else:
                raise InvalidResponse("an unexpected response")
        if not self._in_flight:
            self._patience.deadline = math.inf
            self._queue.extendleft(reversed(self._resend))
            self._resend.clear()
            if self._queue:
                self._sender.unpark()

    def _return(self, call: RedisCall, answer: Answer) -> None:
        if call.is_done:
            return  # the call has already failed because the link stalled
        if not isinstance(answer, RedisError):
            call.answer(answer)
        elif isinstance(answer, NoScriptError) and call.script is not None:
            self._send_text(call)
        elif not self._owner.refused(call, answer):
            self._refuse(call, answer)

    def _send_text(self, call: RedisCall) -> None:
        """Resend a call whose script the server has lost, before all queued calls. The first attempt had no effect."""
        if not call.is_left:
            call.with_text()
            self._resend.append(call)

    def _refuse(self, call: RedisCall, error: RedisError) -> None:
        words = f"{type(error).__name__}: {error}"
        call.fail(words)
        self._log_rarely(logging.ERROR, f"Redis refused {call.parts[0]!r}: {words}")
        if isinstance(error, ReadOnlyError):
            raise error  # the server is no longer the primary; a new connection may reach the new primary

    def _log_rarely(self, level: int, what: str) -> None:
        """Log a message, unless it was logged recently. Messages that differ only in the script count as the same."""
        now, kind = trio.current_time(), what.partition(" script: ")[0]
        if now - self._logged_at.get(kind, -math.inf) < LOG_AGAIN_S:
            return
        if len(self._logged_at) >= LOGGED_MAX:
            self._logged_at.clear()
        self._logged_at[kind] = now
        _log.log(level, "%s", what)

    async def _keep_alive(self) -> None:
        """Send a PING when no other calls are made."""
        while True:
            await trio.sleep(QUIET_S)
            if self.fault is None and not self.waiting:
                self.submit(RedisCall([b"PING"], b""))
