"""Tasks for worker processes, in a module that a process imports quickly, and the pool that runs them."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import trio

from upstreams.model.errors import NotFound, UnexpectedBody
from upstreams.model.steps import Task
from upstreams.workers import process
from upstreams.workers.pool import RESULT_BYTES_MAX, ProcessPool

LONG_S = 60.0


def echo(*values: object) -> object:
    return [os.getpid(), *values]


def limit_cpu(cpu_s: float) -> float:
    """Give the later tasks of this process less CPU time, and return what this task has left."""
    process.CPU_S = cpu_s  # type: ignore[misc] - the process ends with its test
    return signal.getitimer(signal.ITIMER_PROF)[0]


def spin(cpu_s: float = 1_000.0) -> float:
    ends_at = time.process_time() + cpu_s
    while time.process_time() < ends_at:
        pass
    return cpu_s


def nap(for_s: float) -> float:
    time.sleep(for_s)
    return for_s


def spin_in_c() -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


def spin_and_sleep(cpu_s: float) -> None:
    spin(cpu_s)
    time.sleep(600.0)


def crash() -> None:
    os.abort()


def say_much() -> bytes:
    return bytes(RESULT_BYTES_MAX + 1)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def eat() -> int:
    return len(b"x" * 2**34)


def refuse(kind: str) -> None:
    if kind == "absent":
        raise NotFound("The page is empty.", reason="empty")
    if kind == "odd":
        raise UnexpectedBody("the work failed")
    raise ZeroDivisionError(kind)


def task(name: str, *values: object, remember: Callable[[], None] = lambda: None) -> Task:
    return Task(f"{__name__}:{name}", values, None, remember)


@contextmanager
def open_workers(count: int = 1) -> Iterator[ProcessPool]:
    workers = ProcessPool(count)
    try:
        yield workers
    finally:
        workers.close()


async def run(workers: ProcessPool, name: str, *values: object, account: str = "a", within_s: float = LONG_S) -> Any:
    """Return the result of a task."""
    wanted, deadline_at = task(name, *values), trio.current_time() + within_s
    return (await workers.run(wanted, deadline_at, source="web", account_id=account)).body
