"""The faults of one direction of connections, and the switch for them."""

from collections.abc import Callable
from dataclasses import dataclass

import trio


@dataclass(frozen=True, slots=True)
class Poison:
    """The fault of one direction of every connection; by default there is none.

    `cut_after` and `reset_after` are numbers of bytes. They count from the start of a connection, or from when the
    poison was set. After that many bytes, both sides receive an end (FIN) or a reset (RST). `close_delay_s` delays a
    sender's end.
    """

    latency_s: float = 0.0
    jitter_s: float = 0.0
    """The maximum random extra latency per piece. Pieces stay in order."""
    bytes_per_s: float = 0.0
    """0 means no limit."""
    is_stalled: bool = False
    """Whether the connection stays open without passing data."""
    cut_after: int | None = None
    reset_after: int | None = None
    close_delay_s: float = 0.0


HARMLESS = Poison()
STALLED = Poison(is_stalled=True)


class Direction:
    """One direction of all connections, and its poison."""

    def __init__(self) -> None:
        self.poison = HARMLESS
        self.round = 0
        """The number of the current poison. Bytes are counted from 0 for each poison."""
        self.passed_bytes = 0
        self._changed = trio.Event()

    def set(self, poison: Poison) -> None:
        """Use another poison from now on, also for data in transit."""
        self.poison = poison
        self.round += 1
        self._changed.set()
        self._changed = trio.Event()

    async def wait_due(self, due: Callable[[Poison], float]) -> None:
        """Wait until the time that `due` returns for the current poison, and until no stall is active."""
        while True:
            poison, changed = self.poison, self._changed
            at = float("inf") if poison.is_stalled else due(poison)
            if at <= trio.current_time():
                return
            with trio.move_on_at(at):
                await changed.wait()
