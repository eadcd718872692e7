"""A supervisor for tests, for several workers of one program.

Its workers need not share their store, which `sluice check` would reject.
"""

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
    """Run the supervisor. Arguments: the number of workers, the worker's module, and the config."""
    _, count, module, *_, file = sys.argv
    config = load_config(file, {}, known_platforms())
    config = replace(config, server=replace(config.server, workers=int(count)))
    token = load_secret({"SLUICE_SECRET": SECRET}, Path()).admin_token
    with open_log("info") as log:
        trio.run(supervise, SupervisorPlan(config, token, (sys.executable, "-m", module, file), os.environ, log))


if __name__ == "__main__":
    main()
