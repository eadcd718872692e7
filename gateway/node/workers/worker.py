"""A node as one of several workers: the values from its supervisor, and its stop.

A worker's input is a pipe to which nothing is ever written. Its end means "stop": the supervisor has closed it or has
ended. This is not a signal, so that a service manager that signals the whole group at once stops nothing twice.
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
    """A worker's number, the public port that it shares, and the admin address that answers for all."""

    number: int
    port: int
    admin_url: str


def read_worker(environ: Mapping[str, str]) -> Worker | None:
    """Return the worker that this process is, or None if an operator started it."""
    encoded = environ.get(VARIABLE)
    return None if encoded is None else msgspec.json.decode(encoded, type=Worker)


def environ_of(worker: Worker, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which a process is this worker."""
    return {**environ, VARIABLE: msgspec.json.encode(worker).decode()}


async def stop_at_the_end_of_input() -> None:
    """Send this process a SIGTERM when its supervisor wants it to stop or has ended."""
    await trio.lowlevel.wait_readable(_STDIN)
    signal.raise_signal(signal.SIGTERM)


def leave_the_end_to_the_supervisor() -> None:
    """Prevent signals from ending this process before it is drained.

    The supervisor that waits for it sets the time limit.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
