"""The runtime of one node: its clocks, its ids, its randomness, its log and its stop, as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import trio

from gateway.observability.logs import Log
from storage.supervision import Keep


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The means that nearly every part of a running node uses; the composition root makes one."""

    clock: Callable[[], float]
    """Trio's clock, found once: `trio.current_time` looks for it anew each time, which costs three times as much."""
    now: Callable[[], float]
    """Unix seconds; also called on the store's thread."""
    make_id: Callable[[str], str]
    """A new id with a prefix, such as `req_`."""
    rng: Random
    log: Log
    keep: Keep
    """Runs the node's background loops."""
    stopping: trio.Event
    """Set once, when the node begins to stop."""
