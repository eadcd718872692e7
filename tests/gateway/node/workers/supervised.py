"""A supervisor for tests: so many of a program, on a config which `sluice check` would want to be shared."""

import os
import sys
from pathlib import Path

import trio
from msgspec.structs import replace

from gateway.cli.run import known_platforms
from gateway.config import load_config
from gateway.config.secrets import load_secret
from gateway.node.workers.supervisor import SupervisorPlan, supervise
from gateway.observability.logs import open_log
from tests.gateway.node.workers.node import SECRET


def main() -> None:
    """Arguments: how many, the module that is a worker, and last the config."""
    _, count, module, *_, file = sys.argv
    config = load_config(file, {}, known_platforms())
    config = replace(config, server=replace(config.server, workers=int(count)))
    token = load_secret({"SLUICE_SECRET": SECRET}, Path()).admin_token
    with open_log("info") as log:
        trio.run(supervise, SupervisorPlan(config, token, (sys.executable, "-m", module, file), os.environ, log))


if __name__ == "__main__":
    main()
