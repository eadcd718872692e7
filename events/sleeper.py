"""A task that sleeps until it is woken, without an event or a cancel scope."""

from __future__ import annotations

import trio


class Sleeper:
    """Lets one task sleep until another task wakes it. `found` is the value that the other task delivered."""

    __slots__ = ("_task", "found")

    def __init__(self) -> None:
        """Create an instance without a sleeping task."""
        self._task: trio.lowlevel.Task | None = None
        self.found: object = None

    @property
    def is_asleep(self) -> bool:
        """Whether a task is sleeping."""
        return self._task is not None

    async def sleep(self) -> None:
        """Sleep until `resume` or `deliver` is called."""
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def resume(self) -> None:
        """Wake the task, if it sleeps."""
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
            self._task = None

    def deliver(self, found: object) -> None:
        """Store a result in `found`, and wake the task if it is still asleep."""
        self.found = found
        self.resume()

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
