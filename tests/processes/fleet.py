"""Nodes that a test starts and kills. Nodes that still run at the end of the block are killed then."""

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
        """`commands` forks the nodes."""
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
        """Fork `sluice serve` on this config, with a clock that is `skew_s` seconds ahead, or with another `pace`.

        `spans` sets lengths of windows and leases that operators cannot set. The node logs to `name`.log next to the
        config. Another `program` is a module with a `main` that accepts the same arguments.
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
        """Kill a node and its workers with SIGKILL, and wait until they have ended.

        The node must not have ended before.
        """
        self._running.remove(process)
        process.kill()

    def wait(self, process: Process) -> int:
        """Wait until a node has ended by itself. Return its exit code, or minus the signal's number."""
        exit_code = process.wait()
        self._running.remove(process)
        process.close()
        return exit_code

    def end(self) -> None:
        """Kill the remaining nodes."""
        while self._running:
            self._running.pop().close()


@contextmanager
def open_fleet(commands: Commands) -> Iterator[Fleet]:
    """Start nodes that are killed when the block ends."""
    fleet = Fleet(commands)
    try:
        yield fleet
    finally:
        fleet.end()
