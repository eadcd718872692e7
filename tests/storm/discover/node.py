"""A whole node for the storm of discover runs: `sluice serve` with a given number of searches.

`STORM_SEARCHES` in its environment sets their number. The searches belong to real platforms, first under their own
names, then under further names. They may be called at any rate.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import trio

from gateway.cli.run import known_platforms
from gateway.config import Config, load_config
from gateway.config.secrets import load_secret
from gateway.node.membership import MembershipPace
from gateway.node.serve import Start, open_served_node, print_line
from gateway.observability.logs import open_log
from upstreams.composites import with_composites
from upstreams.model.endpoint import Platform
from upstreams.platforms import load_platform

PACE: Final = MembershipPace(beat_s=0.5, dead_after_s=5.0)
LIKE: Final = {
    "hackernews": "search",
    "stackexchange": "search",
    "mastodon": "search",
    "github": "search",
    "lemmy": "search",
    "peertube": "search",
    "discourse": "search",
    "podcasts": "search/episodes",
}
"""The platforms whose posts can be searched without a credential, and their hosts."""


class Search(NamedTuple):
    """A search: the slug of its platform, and the platform itself."""

    slug: str
    like: str

    @property
    def endpoint(self) -> str:
        """Return the id of the search's endpoint."""
        return f"{self.slug}/{LIKE[self.like]}"


def searches(count: int) -> Iterator[Search]:
    """Yield this many searches."""
    slugs = list(LIKE)
    for number in range(count):
        again, place = divmod(number, len(slugs))
        yield Search(f"{slugs[place]}_{again + 1}" if again else slugs[place], slugs[place])


def _platform(search: Search) -> Platform:
    platform = replace(load_platform(search.like), slug=search.slug, pace=None)
    return platform if search.slug == search.like else replace(platform, hosts=(), address_forms=())


async def run(start: Start) -> None:
    """Serve until killed."""
    async with open_served_node(start) as (_, line):
        print_line(line)
        await trio.sleep_forever()


def main() -> None:
    """Serve with the config in the last argument."""
    own = tuple(map(_platform, searches(int(os.environ["STORM_SEARCHES"]))))
    platforms = with_composites(own)

    def read_config() -> Config:
        return load_config(sys.argv[-1], {}, {*known_platforms(), *(one.slug for one in platforms)})

    config = read_config()
    secrets = load_secret(os.environ, config.store.data_dir)
    with open_log("warning", access=False) as log:
        trio.run(partial(run, Start(config, read_config, secrets, dict(os.environ), log, platforms, pace=PACE)))
