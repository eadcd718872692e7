"""Trio in virtual time with a seeded scheduler: the same seed gives the same run, task step by task step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import trio
from trio._core import _run
from trio.testing import MockClock


@contextmanager
def _seeded_scheduler(seed: int) -> Iterator[None]:
    """Make Trio order and shuffle its tasks with its own random source, as Hypothesis's support for Trio does."""
    flag, state = _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r.getstate()
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True
    _run._r.seed(seed)
    try:
        yield
    finally:
        _run._r.setstate(state)
        _run._ALLOW_DETERMINISTIC_SCHEDULING = flag


def run_seeded(
    main: Callable[[], Awaitable[None]], seed: int, *, instruments: Sequence[trio.abc.Instrument] = ()
) -> None:
    """Run `main` to its end. It must not use threads or sockets, because the clock jumps over them."""
    with _seeded_scheduler(seed):
        trio.run(main, clock=MockClock(autojump_threshold=0), instruments=instruments)
