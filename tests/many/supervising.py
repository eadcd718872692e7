"""Nodes with several workers: a supervisor and its workers are one process group each."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gateway.node.membership import MembershipPace
from tests.fakes.commands import PROJECT
from tests.fakes.forking import PROGRAM, Forked, Forker
from tests.fakes.sluice_process import SLUICE
from tests.many.harness import Cluster, Node

ANSWERED = re.compile(r'^sluice_requests_total\{.*worker="(\d+)".*\} ([1-9].*)$', re.MULTILINE)


class Supervisors(Forker):
    """Starts nodes by their command, since workers are made by running a supervisor's own command again."""

    def __init__(self) -> None:
        self._popens: dict[int, subprocess.Popen[bytes]] = {}

    def start(
        self,
        config: Path,
        environ: Mapping[str, str],
        *,
        name: str = "node",
        skew_s: float = 0.0,
        pace: MembershipPace | None = None,
        program: str = PROGRAM,
    ) -> Forked:
        """As `Forker.start`; clock, pace and program are those of the command."""
        assert (skew_s, pace, program) == (0.0, None, PROGRAM)
        folder = config.parent
        command = [*SLUICE, "serve", "--config", str(config)]
        out_file, log_file = folder / f"{name}.out", folder / f"{name}.log"
        with out_file.open("wb") as out, log_file.open("wb") as log:
            popen = subprocess.Popen(
                command,
                cwd=folder,
                env={**environ, "PYTHONPATH": str(PROJECT)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
            )
        self._popens[popen.pid] = popen
        return Forked(popen.pid, out_file, log_file)

    def kill(self, node: Forked) -> None:
        """SIGKILL for the supervisor and all its workers, as when the machine dies; it must not have ended before."""
        os.killpg(node.pid, signal.SIGKILL)
        assert self.wait(node) == -signal.SIGKILL, f"ended by itself: {node.log.read_text()}"

    def wait(self, node: Forked) -> int:
        """As `Forker.wait`, for the supervisor."""
        return self._popens.pop(node.pid).wait()

    def kill_all(self) -> None:
        """Those that still run."""
        for popen in self._popens.values():
            os.killpg(popen.pid, signal.SIGKILL)
            popen.wait()


@contextmanager
def open_supervisors() -> Iterator[Supervisors]:
    """All of them are gone when the block ends."""
    supervisors = Supervisors()
    try:
        yield supervisors
    finally:
        supervisors.kill_all()


def workers_of(node: Node) -> dict[int, int]:
    """The process of each worker, the newest one."""
    return {event["worker"]: event["pid"] for event in node.forked.events("worker_ready")}


async def answered_by(cluster: Cluster, node: Node) -> set[int]:
    """The workers that have answered requests."""
    return {int(number) for number, _ in ANSWERED.findall(await cluster.metrics(node))}
