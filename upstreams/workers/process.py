"""The worker process. It reads tasks from its input and writes replies to its output, until the input ends.

A message is its length in four bytes, followed by MessagePack. The input is `(function, args)`; the output is `("done",
value)`, `("not_found", message, reason)`, `("costly", message)`, `("unexpected", message)` or `("failed", message)`.
Pickle is not used, because a process that parses hostile pages is not trusted.

A task has `CPU_S` seconds of CPU time. After that, a kernel timer kills the process, regardless of the code that it
runs.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from struct import Struct
from typing import Any, BinaryIO, Final

import msgspec

from upstreams.model.errors import PAGE_TOO_COSTLY, NotFound, PageTooCostly, UnexpectedBody

LENGTH: Final = Struct(">I")
MEMORY_BYTES_MAX: Final = 3 * 1024**3
"""Maximum address space. A page that needs more memory ends its process."""
CPU_S: Final = 8.0
"""CPU seconds that a task may use, far below the time limit of a request. The longest honest pages take about 3."""
_NICE: Final = 10


def main() -> None:
    """Process tasks until the input ends."""
    _limit_resources()
    sink, source = os.fdopen(os.dup(1), "wb"), sys.stdin.buffer
    os.dup2(2, 1)  # the output of a library must not become part of a reply
    while (request := _read(source)) is not None:
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        reply = msgspec.msgpack.encode(answer(request))
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        sink.write(LENGTH.pack(len(reply)))
        sink.write(reply)
        sink.flush()
        gc.collect(0)


def answer(request: bytes) -> tuple[Any, ...]:
    """Return the reply to a request, whether the task succeeded or failed."""
    function, args = msgspec.msgpack.decode(request)
    module, _, name = function.partition(":")
    work = getattr(import_module(module), name)
    try:
        return "done", work(*args)
    except PageTooCostly as exc:
        return "costly", str(exc)
    except MemoryError:
        return "costly", PAGE_TOO_COSTLY
    except NotFound as exc:
        return "not_found", str(exc), exc.reason
    except UnexpectedBody as exc:
        return "unexpected", str(exc)
    except Exception as exc:  # noqa: BLE001 - a library that fails on a page must not end the process
        return "failed", f"{type(exc).__name__}: {exc}"[:300]


def _limit_resources() -> None:
    """Lower the priority, and limit the memory."""
    # The default action kills the process; a Python handler would run only after the C code returns.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError, ValueError):  # macOS cannot limit the address space
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


def _read(source: BinaryIO) -> bytes | None:
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    return source.read(length)
