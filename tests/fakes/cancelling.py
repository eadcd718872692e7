"""Cancels an operation at each of its waits in turn, to test that it is consistent after any cancellation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

WAITS_MAX = 300


class _CancelAtWait(trio.abc.Instrument):
    """Cancels a scope at the next wait of the task, or of a child task, after `waits` other waits."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, waits: int) -> None:
        self._task = task
        self._scope = scope
        self._waits = waits

    @property
    def has_cancelled(self) -> bool:
        return self._waits < 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.has_cancelled or not self._is_ours(task):
            return
        self._waits -= 1
        if self.has_cancelled:
            self._scope.cancel()

    def _is_ours(self, task: trio.lowlevel.Task | None) -> bool:
        while task is not None and task is not self._task:
            task = task.parent_nursery.parent_task if task.parent_nursery else None
        return task is not None


async def cancel_everywhere(run: Callable[[], Awaitable[object]], check: Callable[[bool], Awaitable[None]]) -> int:
    """Cancel `run` at its first wait, then at its second, and so on until it completes. Return the number of its waits.

    `check` is called after each run with a flag that says whether the operation completed.
    """
    for waits in range(WAITS_MAX):
        scope = trio.CancelScope()
        instrument = _CancelAtWait(trio.lowlevel.current_task(), scope, waits)
        trio.lowlevel.add_instrument(instrument)
        try:
            with scope:
                await run()
        finally:
            trio.lowlevel.remove_instrument(instrument)
        await check(not scope.cancelled_caught)
        if not instrument.has_cancelled:
            return waits
    raise AssertionError(f"still waiting after {WAITS_MAX} waits")
