"""A clock shared by all nodes of a storm of slots, whose speed the storm's driver controls."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path
from typing import Final

AHEAD: Final = struct.Struct("d")


class SharedClock:
    """The machine's clock plus an offset. The offset is in a file that each process maps into its memory."""

    def __init__(self, file: Path) -> None:
        """A missing file is created with the machine's time."""
        if not file.exists():
            file.write_bytes(AHEAD.pack(0.0))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), AHEAD.size)

    def now(self) -> float:
        """Return Unix seconds."""
        return time.time() + float(AHEAD.unpack_from(self._memory)[0])

    def advance(self, seconds: float) -> None:
        """Advance the clock immediately; only one process may do so."""
        AHEAD.pack_into(self._memory, 0, AHEAD.unpack_from(self._memory)[0] + seconds)
