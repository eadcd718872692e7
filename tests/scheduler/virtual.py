"""Virtual time: an hour passes as soon as nothing is left to do."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock


def run_virtually(main: Callable[[], Awaitable[object]], *, clock: trio.abc.Clock | None, **options: object) -> object:
    """Like `trio.run`, on a clock that begins at 0 and jumps over each wait."""
    return trio.run(main, clock=clock or MockClock(autojump_threshold=0), **options)


VIRTUALLY = pytest.mark.trio(run=run_virtually)
"""Run a test in virtual time. Its store must not use threads."""
