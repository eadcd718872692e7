"""The worker's side of a node with several workers: the values from its supervisor, and the stop through a pipe.

A worker's stdin is a pipe through which no data is sent. When the supervisor closes the pipe or exits, the worker
stops. The supervisor does not send a signal, because a service manager may also signal the whole process group, and a
second signal would end the worker immediately.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping

import msgspec
import trio

VARIABLE = "SLUICE_WORKER"
"""The environment variable that makes a process a worker. Operators never set it."""
_STDIN = 0


class Worker(msgspec.Struct, frozen=True):
    """A worker's number, the public port that it shares, and the supervisor's admin address."""

    number: int
    port: int
    admin_url: str


def read_worker(environ: Mapping[str, str]) -> Worker | None:
    """Return the values that a supervisor passed to this process, or None if an operator started the process."""
    encoded = environ.get(VARIABLE)
    return None if encoded is None else msgspec.json.decode(encoded, type=Worker)


def environ_of(worker: Worker, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that make a new process this worker."""
    return {**environ, VARIABLE: msgspec.json.encode(worker).decode()}


async def stop_on_end_of_input() -> None:
    """Send this process a SIGTERM when its supervisor has closed the pipe or has exited."""
    await trio.lowlevel.wait_readable(_STDIN)
    signal.raise_signal(signal.SIGTERM)


def ignore_stop_signals() -> None:
    """Prevent signals from ending this process before it is drained.

    The supervisor waits for the worker and enforces the time limit.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
