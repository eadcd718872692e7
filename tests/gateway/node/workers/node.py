"""A worker for tests: a whole node with its own store, because supervision needs nothing shared."""

import os
import sys
from pathlib import Path
from typing import Any, Self

import trio
from msgspec.structs import replace

import gateway.node.serve
from gateway.cli.run import known_platforms
from gateway.config import Config, load_config
from gateway.config.secrets import load_secret
from gateway.config.settings import StoreSettings
from gateway.node.serve import Start, serve
from gateway.node.workers.worker import read_worker
from gateway.observability.logs import open_log
from gateway.server.bounds import Bounds

SECRET = "the same for every worker"


class PatientBounds(Bounds):
    """Limits with which a partial request delays a drain for as long as a test needs, even on a slow machine."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits, header_s=60.0)

    def at_a_stop(self) -> Self:
        return self


def main() -> None:
    """Serve as the worker that the environment names, with the config of the last argument."""
    worker = read_worker(os.environ)
    assert worker is not None
    folder = Path(sys.argv[-1]).parent / f"worker{worker.number}"
    folder.mkdir(exist_ok=True)

    def read_config() -> Config:
        config = load_config(sys.argv[-1], {}, known_platforms())
        return replace(config, store=StoreSettings(f"sqlite:///{folder}/sluice.db"))

    secrets = load_secret({"SLUICE_SECRET": SECRET}, folder)
    gateway.node.serve.Bounds = PatientBounds  # type: ignore[misc]
    with open_log("info", also={"worker": worker.number}) as log:
        trio.run(serve, Start(read_config(), read_config, secrets, {}, log, worker=worker))


if __name__ == "__main__":
    main()
