"""`sluice serve` with short intervals: nodes on a shared store detect dead nodes quickly (see `Place.bury`)."""

import os
import sys

import trio

from gateway.cli.run import known_platforms, read_secrets
from gateway.config import Config, load_config
from gateway.node.membership import MembershipPace
from gateway.node.serve import Start, open_sandbox, serve
from gateway.observability.logs import Log, open_log
from upstreams.sandbox.app import Behaviour

BEAT_S = 0.1


def main() -> None:
    """Serve with the same command line as `sluice serve`."""
    path = sys.argv[sys.argv.index("--config") + 1]

    def read_config() -> Config:
        return load_config(path, os.environ, known_platforms())

    config = read_config()
    secrets = read_secrets(config)

    async def run(log: Log) -> None:
        start = Start(config, read_config, secrets, os.environ, log, pace=MembershipPace(beat_s=BEAT_S))
        if "--sandbox" not in sys.argv:
            await serve(start)
            return
        async with open_sandbox(Behaviour()) as url:
            await serve(start.over_sandbox(url))

    with open_log(config.log.level, access=config.log.access) as log:
        trio.run(run, log)


if __name__ == "__main__":
    main()
