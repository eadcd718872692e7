"""A supervisor for tests: so many of a program, on a config which `sluice check` would want to be shared."""

import os
import sys

import trio
from msgspec.structs import replace

from gateway.cli.run import known_platforms
from gateway.config import load_config
from gateway.logs import open_log
from gateway.workers.supervisor import Plan, supervise


def main() -> None:
    """Arguments: how many, the module that is a worker, and last the config."""
    _, count, module, *_, file = sys.argv
    config = load_config(file, {}, known_platforms())
    config = replace(config, server=replace(config.server, workers=int(count)))
    with open_log("info") as log:
        trio.run(supervise, Plan(config, (sys.executable, "-m", module, file), os.environ, log))


if __name__ == "__main__":
    main()
