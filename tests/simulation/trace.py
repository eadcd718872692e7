"""The events of a simulated world, in order, and the first broken invariant."""

from __future__ import annotations

from hashlib import sha256

import trio


class Broken(Exception):
    """An invariant was broken; `invariant` is its name."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


class Trace:
    """The events of one run. A broken invariant is an event too, and ends the run."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.broken: Broken | None = None
        self.ending = trio.CancelScope()
        self._digest = sha256()

    def note(self, event: str) -> None:
        """Record an event now."""
        line = f"{trio.current_time():12.6f} {event}"
        self.lines.append(line)
        self._digest.update(line.encode())

    def hold(self, holds: bool, invariant: str, detail: str) -> None:
        """Assert an invariant. If it is broken, record that and end the run."""
        if not holds and self.broken is None:
            self.broken = Broken(invariant, detail)
            self.note(f"BROKEN {self.broken}")
            self.ending.cancel()

    @property
    def digest(self) -> str:
        """Return a digest that is equal for the same events at the same times."""
        return self._digest.hexdigest()
