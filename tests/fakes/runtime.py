"""Runtimes for parts of a node that run on their own."""

from __future__ import annotations

import io
from collections.abc import Callable
from random import Random

import trio

from gateway.observability.logs import Log
from gateway.runtime import Runtime
from storage.supervision import unsupervised


def runtime_of(*, now: Callable[[], float], make_id: Callable[[str], str], log: io.BytesIO) -> Runtime:
    """Return a runtime on the clock of this Trio run that logs to `log`."""
    return Runtime(
        clock=trio.current_time,
        now=now,
        make_id=make_id,
        rng=Random(0),
        log=Log("info", stream=log),
        keep=unsupervised,
        stopping=trio.Event(),
    )
