"""A whole node for tests, as `sluice serve` runs it but for its pace: it beats often, and silence is soon death."""

import sys

import trio

from gateway.cli.run import known_platforms
from gateway.config import Config, load_config
from gateway.logs import Log
from gateway.presence import Pace
from gateway.secrets import load_secret
from gateway.serve import Start, serve

SECRET = "the same on every machine"
PACE = Pace(beat_s=0.3, dead_after_s=3.0)


def main() -> None:
    """Serve on the config that the last argument names."""

    def read_config() -> Config:
        return load_config(sys.argv[-1], {}, known_platforms())

    config = read_config()
    secrets = load_secret({"SLUICE_SECRET": SECRET}, config.store.data_dir)
    trio.run(serve, Start(config, read_config, secrets, {}, Log("info", access=False), pace=PACE))


if __name__ == "__main__":
    main()
