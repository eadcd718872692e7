"""A whole node for the storm of slots. It serves like `sluice serve`, on a clock that all nodes share.

`STORM_CLOCK` in its environment is the clock's file. Its first output line also contains the node's name, as stored in
runs.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Final

import trio

from gateway.cli.run import known_platforms
from gateway.config import Config, load_config
from gateway.config.secrets import load_secret
from gateway.node.membership import MembershipPace
from gateway.node.serve import Start, open_served_node, print_line
from gateway.observability.logs import open_log
from tests.storm.slots.clock import SharedClock

PACE: Final = MembershipPace(beat_s=0.5, dead_after_s=5.0)


async def run(start: Start) -> None:
    """Serve until killed."""
    async with open_served_node(start) as (node, line):
        print_line({**line, "node": node.stores.billing.charges.node})
        await trio.sleep_forever()


def main() -> None:
    """Serve with the config in the last argument."""

    def read_config() -> Config:
        return load_config(sys.argv[-1], {}, known_platforms())

    config, clock = read_config(), SharedClock(Path(os.environ["STORM_CLOCK"]))
    secrets = load_secret(os.environ, config.store.data_dir)
    with open_log("warning", access=False) as log:
        trio.run(partial(run, Start(config, read_config, secrets, dict(os.environ), log, pace=PACE, now=clock.now)))
