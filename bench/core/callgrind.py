"""Counts the instructions of a process that runs under Valgrind's callgrind."""

import re
import subprocess
from pathlib import Path

from bench.core.errors import ChildFailed

_COMMAND_S = 60
_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


def total_of(profile: str) -> int:
    """Return the total instructions of a callgrind profile.

    Raises:
        ChildFailed: The profile has no total.
    """
    found = _TOTAL.search(profile)
    if found is None:
        raise ChildFailed("callgrind wrote a profile without a total")
    return int(found[1])


class Callgrind:
    """Valgrind's callgrind for one process, which writes its profiles to `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken = 0

    @property
    def command(self) -> tuple[str, ...]:
        """Return the words to put before the command to count. Counting is switched off at the start."""
        return (
            *("env", "PYTHONHASHSEED=0", "valgrind", "--tool=callgrind", "--instr-atstart=no"),
            *(f"--callgrind-out-file={self._folder}/profile", f"--vgdb-prefix={self._folder}/vgdb"),
        )

    def begin(self, pid: int) -> None:
        """Start counting at zero."""
        self._send_command(pid, "instrumentation", "on")
        self._send_command(pid, "zero")

    def end(self, pid: int) -> int:
        """Return the instructions counted since `begin`, summed over all threads."""
        self._send_command(pid, "dump")
        self._taken += 1
        return total_of((self._folder / f"profile.{self._taken}").read_text())

    def _send_command(self, pid: int, *words: str) -> None:
        command = ["vgdb", f"--vgdb-prefix={self._folder}/vgdb", f"--pid={pid}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S, check=False)
        if done.returncode:
            raise ChildFailed(f"{' '.join(words)}: {done.stderr.strip()}")
