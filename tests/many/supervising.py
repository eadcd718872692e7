"""Nodes with several workers: a supervisor and its workers are one process group each."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import orjson
import trio

from tests.fakes.commands import PROJECT
from tests.fakes.sluice_process import SLUICE
from tests.many.forking import Forker
from tests.many.harness import Cluster, Node
from upstreams.transport.http import HttpCall

METRICS_S = 5.0
ANSWERED = re.compile(r'^sluice_requests_total\{.*worker="(\d+)".*\} ([1-9].*)$', re.MULTILINE)


class Supervisors(Forker):
    """Starts nodes by their command, since workers are made by running a supervisor's own command again."""

    def __init__(self) -> None:
        self._popens: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, config: Path, environ: Mapping[str, str], *, name: str, skew_s: float = 0.0) -> int:
        """As `Forker.start`; clocks are those of the machine."""
        assert not skew_s
        folder = config.parent
        command = [*SLUICE, "serve", "--config", str(config)]
        with (folder / f"{name}.out").open("wb") as out, (folder / f"{name}.log").open("wb") as log:
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
        return popen.pid

    def kill(self, pid: int) -> int:
        """SIGKILL for the supervisor and all its workers, as when the machine dies."""
        os.killpg(pid, signal.SIGKILL)
        return self._popens.pop(pid).wait()

    def kill_all(self) -> None:
        """Those that still run."""
        for pid in list(self._popens):
            self.kill(pid)


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
    lines = [orjson.loads(line) for line in node.log.read_bytes().split(b"\n")[:-1]]
    return {line["worker"]: line["pid"] for line in lines if line["event"] == "worker_ready"}


async def answered_by(cluster: Cluster, node: Node) -> set[int]:
    """The workers that have answered requests."""
    answer = await cluster.exchange(HttpCall("GET", node.admin, "/metrics"), trio.current_time() + METRICS_S)
    return {int(number) for number, _ in ANSWERED.findall(answer.body.decode())}
