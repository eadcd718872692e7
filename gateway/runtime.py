"""The runtime of one node as one value: clocks, ids, randomness, log, background loops, and the stop event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import trio

from gateway.observability.logs import Log
from storage.supervision import Keep


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The services that nearly every part of a running node uses. The composition root creates the only instance."""

    clock: Callable[[], float]
    """Trio's clock, looked up once, because `trio.current_time` looks it up on each call, at three times the cost."""
    now: Callable[[], float]
    """Returns Unix seconds. Also called on the store's thread."""
    make_id: Callable[[str], str]
    """Returns a new id with a prefix such as `req_`."""
    rng: Random
    log: Log
    keep: Keep
    """Runs the node's background loops."""
    stopping: trio.Event
    """Set once, when the node begins to stop."""
