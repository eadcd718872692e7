"""A clock that all nodes of a storm of slots share, and that runs as fast as whoever leads the storm wants it to."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path
from typing import Final

AHEAD: Final = struct.Struct("d")


class SharedClock:
    """The machine's clock and how far this one is ahead of it, which stands in a file that each process has mapped."""

    def __init__(self, file: Path) -> None:
        """A file that is not there is made, and tells the machine's time."""
        if not file.exists():
            file.write_bytes(AHEAD.pack(0.0))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), AHEAD.size)

    def now(self) -> float:
        """Unix seconds."""
        return time.time() + float(AHEAD.unpack_from(self._memory)[0])

    def advance(self, seconds: float) -> None:
        """Let so much time pass at once; one process alone does so."""
        AHEAD.pack_into(self._memory, 0, AHEAD.unpack_from(self._memory)[0] + seconds)
