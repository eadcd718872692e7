"""A command that is sent over a link, and its outcome."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import trio

from storage.errors import StateUnavailable
from storage.state import Reply, Script

SLOTS = 16384


def slot_of(key: bytes) -> int:
    """Return the cluster slot of a key.

    If the key contains text in braces, only the text in the first braces counts.
    """
    start = key.find(b"{")
    if start >= 0 and (end := key.find(b"}", start + 1)) > start + 1:
        key = key[start + 1 : end]
    return crc_hqx(key, 0) % SLOTS


@dataclass(slots=True, eq=False)
class RedisCall:
    """A command and its outcome. Used only on the Trio thread, between checkpoints."""

    parts: list[bytes]
    key: bytes
    script: Script | None = None
    on_loss: Callable[[], None] | None = None
    """Called if the call fails. Only calls without a waiting task set it."""
    is_silent: bool = False
    """Whether the server sends no reply."""
    reply: Reply = None
    error: Exception | None = None
    is_done: bool = False
    is_left: bool = False
    """Whether the waiting task was cancelled."""
    moves: int = 0
    _task: trio.lowlevel.Task | None = field(default=None, init=False)

    async def wait(self) -> Reply:
        """Wait for the outcome.

        Raises:
            StateUnavailable: the call failed.
        """
        if not self.is_done:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._leave)
        if self.error is not None:
            raise self.error
        return self.reply

    def _leave(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        self.is_left = True
        return trio.lowlevel.Abort.SUCCEEDED

    def answer(self, reply: Reply) -> None:
        """Set the reply and wake the waiting task."""
        self.reply = reply
        self._end()

    def fail(self, why: str, *, happened: bool | None = False) -> None:
        """Mark the call as failed. `happened` is None if it is unknown whether the server executed the call."""
        self.error = StateUnavailable(why, happened=happened)
        self._end()
        if self.on_loss is not None:
            self.on_loss()

    def with_text(self) -> None:
        """Use the text of the script instead of its hash when the call is sent."""
        assert self.script is not None
        self.parts = [b"EVAL", self.script.text, *self.parts[2:]]

    def _end(self) -> None:
        self.is_done = True
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)


def script_call(
    script: Script, keys: Sequence[bytes], args: Sequence[bytes], on_loss: Callable[[], None] | None = None
) -> RedisCall:
    """Return a call that runs a script by its hash."""
    return RedisCall([b"EVALSHA", script.sha, b"%d" % len(keys), *keys, *args], keys[0], script, on_loss)
