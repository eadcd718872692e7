"""A worker for tests: a whole node with a store of its own; to be supervised, nothing needs to be shared."""

import os
import sys
from pathlib import Path

import trio
from msgspec.structs import replace

from gateway.cli.run import known_platforms
from gateway.config import Config, load_config
from gateway.config.secrets import load_secret
from gateway.config.settings import StoreSettings
from gateway.node.serve import Start, serve
from gateway.node.workers.worker import read_worker
from gateway.observability.logs import open_log

SECRET = "the same for every worker"


def main() -> None:
    """Serve as the worker that the environment names, on the config that the last argument names."""
    worker = read_worker(os.environ)
    assert worker is not None
    folder = Path(sys.argv[-1]).parent / f"worker{worker.number}"
    folder.mkdir(exist_ok=True)

    def read_config() -> Config:
        config = load_config(sys.argv[-1], {}, known_platforms())
        return replace(config, store=StoreSettings(f"sqlite:///{folder}/sluice.db"))

    secrets = load_secret({"SLUICE_SECRET": SECRET}, folder)
    with open_log("info", also={"worker": worker.number}) as log:
        trio.run(serve, Start(read_config(), read_config, secrets, {}, log, worker=worker))


if __name__ == "__main__":
    main()
