"""Nodes that one test starts and kills; those that it leaves end with its block."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from gateway.node.membership import MembershipPace
from limits.shared_gate import GateSpans
from tests.processes.commands import Commands
from tests.processes.process import Process

PROGRAM = "gateway.cli"


class Fleet:
    """Starts nodes and kills them."""

    def __init__(self, commands: Commands) -> None:
        """`commands` forks them."""
        self._commands = commands
        self._running: list[Process] = []

    def start(
        self,
        config: Path,
        environ: Mapping[str, str],
        *,
        name: str = "node",
        skew_s: float = 0.0,
        pace: MembershipPace | None = None,
        spans: GateSpans | None = None,
        program: str = PROGRAM,
    ) -> Process:
        """`sluice serve` on this config, forked when this returns; its clock so many seconds ahead, or at another pace.

        `spans` are other lengths of windows and leases than an operator has. It logs to `name`.log beside the config.
        Another `program` is a module with a `main` that takes the same arguments.
        """
        log = config.parent / f"{name}.log"
        how = {
            "skew_s": skew_s,
            "pace": asdict(pace) if pace else {},
            "spans": asdict(spans) if spans else {},
            "program": program,
        }
        arguments = ("serve", "--config", str(config))
        started = self._commands.start(arguments, folder=config.parent, environ=environ, err=log, **how)
        self._running.append(process := Process(started, log))
        return process

    def kill(self, process: Process) -> None:
        """SIGKILL for it and its workers, and wait until it is gone; it must not have ended before."""
        self._running.remove(process)
        process.kill()

    def wait(self, process: Process) -> int:
        """Wait until it has ended by itself; its exit code, minus the signal's number when one ended it."""
        exit_code = process.wait()
        self._running.remove(process)
        process.close()
        return exit_code

    def end(self) -> None:
        """Kill those that are left."""
        while self._running:
            self._running.pop().close()


@contextmanager
def open_fleet(commands: Commands) -> Iterator[Fleet]:
    """Starts nodes that are all gone when the block ends."""
    fleet = Fleet(commands)
    try:
        yield fleet
    finally:
        fleet.end()
