"""A whole node for the storm of discover runs: it serves as `sluice serve` does, with as many searches as it is told.

`STORM_SEARCHES` in its environment says how many. Each is Hacker News' under another name, at a host of its own.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from typing import Final

import trio

from gateway.cli.run import known_platforms
from gateway.config import Config, load_config
from gateway.config.secrets import load_secret
from gateway.node.membership import MembershipPace
from gateway.node.serve import Start, open_served_node, print_line
from gateway.observability.logs import open_log
from upstreams.composites import with_composites
from upstreams.model.endpoint import Platform
from upstreams.platforms import load_platforms

PACE: Final = MembershipPace(beat_s=0.5, dead_after_s=5.0)


def host_of(number: int) -> str:
    """The host of a search."""
    return f"search{number}.example.com"


def slug_of(number: int) -> str:
    """The slug of a search's platform."""
    return f"search{number}"


def searches(count: int) -> tuple[Platform, ...]:
    """So many platforms that can be searched."""
    like = next(one for one in load_platforms() if one.slug == "hackernews")
    return tuple(
        replace(
            like,
            slug=slug_of(number),
            sources={name: f"https://{host_of(number)}/{name}" for name in like.sources},
            hosts=(),
            address_forms=(),
            pace=None,
        )
        for number in range(1, count + 1)
    )


async def run(start: Start) -> None:
    """Serve until the end, which is a kill."""
    async with open_served_node(start) as (_, line):
        print_line(line)
        await trio.sleep_forever()


def main() -> None:
    """Serve on the config that the last argument names."""
    platforms = with_composites(searches(int(os.environ["STORM_SEARCHES"])))

    def read_config() -> Config:
        return load_config(sys.argv[-1], {}, {*known_platforms(), *(one.slug for one in platforms)})

    config = read_config()
    secrets = load_secret(os.environ, config.store.data_dir)
    with open_log("warning", access=False) as log:
        trio.run(partial(run, Start(config, read_config, secrets, dict(os.environ), log, platforms, pace=PACE)))
