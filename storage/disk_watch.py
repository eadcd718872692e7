"""Watches the free disk space of a store, so that a node refuses new work before the disk is full.

When the free space is below the floor, new charges are refused, and running work still has space to finish. When the
space is above the floor again, work resumes automatically.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from storage.errors import StorageError
from storage.store import DiskSpace

CHECK_S: Final = 2.0
FLOOR_SHARE: Final = 4
"""The floor is at most the disk's size divided by this number, so that small disks can be used."""
WARN_FLOORS: Final = 4
RETURN_SHARE: Final = 1.1
"""How much space must be free before work resumes, as a multiple of the floor.

Closing the log frees some space. Without the extra tenth, that alone could resume the work for a moment.
"""
WARN_EVERY_S: Final = 3_600.0

Probe = Callable[[], Awaitable[DiskSpace | None]]


class DiskWatch:
    """Checks the disk, and stores the reason why no new work may begin, if any, as `refusal`."""

    def __init__(self, probe: Probe, floor_bytes: int) -> None:
        """`probe` returns the disk space. `floor_bytes` of 0 disables the floor."""
        self._probe = probe
        self._wanted_bytes = floor_bytes
        self._warned_at = float("-inf")
        self._is_logged_full = False
        self.space: DiskSpace | None = None
        """The disk space at the last check. None if it cannot be measured, which disables the floor."""
        self.refusal: str | None = None

    @property
    def floor_bytes(self) -> int:
        """The floor in bytes on this disk, which is lower than configured if the disk is small."""
        return (
            self._wanted_bytes if self.space is None else min(self._wanted_bytes, self.space.total_bytes // FLOOR_SHARE)
        )

    async def keep_checking(self, event: Callable[..., None]) -> None:
        """Check every two seconds until cancelled. `event` logs changes."""
        while True:
            try:
                await self.check()
            except StorageError as exc:
                event("warning", "disk_not_seen", error=str(exc))
            if self.space is not None:
                self._report(self.space, event)
            await trio.sleep(CHECK_S)

    async def check(self) -> None:
        """Check once. Raises StorageError if the disk cannot be checked; in that case nothing changes."""
        self.space = await self._probe()
        self.refusal = None if self.space is None else self._refusal(self.space)

    def _refusal(self, space: DiskSpace) -> str | None:
        needed = self.floor_bytes if self.refusal is None else round(self.floor_bytes * RETURN_SHARE)
        if space.free_bytes >= needed:
            return None
        return f"{space.free_bytes} bytes are free on the disk, {needed} are required (store.disk_floor_bytes)"

    def _report(self, space: DiskSpace, event: Callable[..., None]) -> None:
        figures = {"free_bytes": space.free_bytes, "floor_bytes": self.floor_bytes}
        is_full = self.refusal is not None
        if is_full != self._is_logged_full:
            self._is_logged_full = is_full
            event(*(("error", "disk_full") if is_full else ("warning", "disk_has_room")), **figures)
        elif not is_full and self._is_low(space):
            self._warned_at = trio.current_time()
            event("warning", "disk_low", **figures)

    def _is_low(self, space: DiskSpace) -> bool:
        """Return whether to warn now. Warnings are at least an hour apart."""
        is_time = trio.current_time() - self._warned_at >= WARN_EVERY_S
        return is_time and space.free_bytes < WARN_FLOORS * self.floor_bytes
