"""A shared state with only the commands that count the units of a budget."""

from __future__ import annotations

from typing import Any

import trio

from storage.errors import StateUnavailable


class UnitCounts:
    """Runs SET with NX and PX, and INCRBY. While it is `away`, it is unavailable."""

    def __init__(self) -> None:
        self.away = False
        self.delay_s = 0.0
        self.calls = 0
        self.values: dict[bytes, tuple[int, float]] = {}
        """The counts, each with the time at which it expires."""

    def total(self) -> int:
        """Return the units that were claimed in all periods."""
        return sum(count for count, _ in self.values.values())

    async def call(self, name: bytes, key: bytes, *args: bytes) -> Any:
        """See `State.call`."""
        await trio.sleep(self.delay_s)
        if self.away:
            raise StateUnavailable("away")
        self.calls += 1
        now = trio.current_time()
        self.values = {one: kept for one, kept in self.values.items() if kept[1] > now}
        if name == b"SET":
            assert args[:-1] == (b"0", b"NX", b"PX")
            return b"OK" if self.values.setdefault(key, (0, now + int(args[-1]) / 1000)) else None
        assert name == b"INCRBY"
        count, until = self.values[key]
        self.values[key] = count + int(args[0]), until
        return count + int(args[0])
