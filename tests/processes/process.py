"""A running program: its first line, its log, its signals and its end."""

import select
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import trio

from tests.processes.children import finish
from tests.processes.started import Started
from tests.processes.waiting import wait_until

READY_S = 90.0
STOP_S = 60.0


@dataclass(slots=True)
class Process:
    """A running command. Its stderr goes to `log`. Output after its first line stays in its pipe."""

    popen: subprocess.Popen[bytes] | Started
    log: Path
    first_line: bytes = b""

    @property
    def pid(self) -> int:
        """Return the process id, which is also the id of the group that the process leads."""
        return self.popen.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self.popen.send_signal(number)

    def wait(self) -> int:
        """Wait until the command ends. Return its exit code, or minus the number of the signal that ended it."""
        return self.popen.wait(STOP_S)

    def stop(self) -> int:
        """Send SIGTERM, and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """Kill the command and everything that it started with SIGKILL, and wait.

        The command must not have ended before.
        """
        assert self.close() == -signal.SIGKILL, f"ended by itself: {self.log.read_text()}"

    def close(self) -> int:
        """Kill all processes of the command that still run, and close its output. Return its exit code."""
        if isinstance(self.popen, Started):
            self.popen.kill_group()
            exit_code = self.popen.wait(STOP_S)
        else:
            exit_code = finish(self.popen)
        if self.popen.stdout is not None:
            self.popen.stdout.close()
        return exit_code

    def read_first_line(self, wait_s: float = READY_S) -> bytes:
        """Wait for the command's first line, and store it in `first_line`."""
        stdout = self.popen.stdout
        assert stdout is not None
        assert select.select([stdout], [], [], wait_s)[0], f"silent for {READY_S} s: {self.log.read_text()}"
        self.first_line = stdout.readline()
        assert self.first_line, f"ended with {self.wait()}: {self.log.read_text()}"
        return self.first_line

    async def listening(self) -> dict[str, str]:
        """Return the fields of the first line as soon as the command has printed it. Other tasks continue meanwhile."""
        assert self.popen.stdout is not None
        with trio.move_on_after(READY_S):  # if the time has run out, reading the line raises an error with the log
            await trio.lowlevel.wait_readable(self.popen.stdout)
        line: dict[str, str] = orjson.loads(self.read_first_line(wait_s=0.0))
        return line

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of this name that the command has logged so far. Every line must be JSON."""
        # The text after the last line break is a line that is still being written, or that a kill interrupted.
        events = [orjson.loads(line) for line in self.log.read_bytes().split(b"\n")[:-1]]
        return [event for event in events if event["event"] == name]

    def logged(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        """Return the events of this name once there are `count`, because the log is written asynchronously."""
        wait_until(lambda: len(self.events(name)) >= count)
        return self.events(name)
