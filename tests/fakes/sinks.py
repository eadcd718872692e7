"""Outputs that accept no data: an unread pipe, a full disk, or a closed descriptor."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

SINKS = ("gone", "stalled", "full", "closed")


@dataclass(slots=True)
class Sink:
    """An output of a node: its descriptor, its file, if any, and the end of its pipe that is never read."""

    descriptor: int
    file: int | None = None
    unread: int = -1


@contextmanager
def open_sink(kind: str, descriptor: int) -> Iterator[Sink]:
    """Open a sink of a kind, for one of the node's descriptors."""
    with ExitStack() as held:
        if kind == "closed":
            yield Sink(descriptor)
            return
        if kind == "full":
            yield Sink(descriptor, held.enter_context(open("/dev/full", "wb")).fileno())
            return
        reading, writing = os.pipe()
        held.callback(os.close, writing)
        if kind == "gone":
            os.close(reading)
        else:
            held.callback(os.close, reading)
            fill(writing)
        yield Sink(descriptor, writing, reading)


def fill(pipe: int) -> None:
    """Fill a pipe with blank lines, and leave it in blocking mode."""
    os.set_blocking(pipe, False)
    try:
        while True:
            os.write(pipe, b"\n" * 512)
    except BlockingIOError:
        os.set_blocking(pipe, True)
