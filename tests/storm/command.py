"""The shared part of the storm commands: the store's address, and the printed figures."""

import shutil
import tempfile
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import trio

from tests.servers.postgres import open_postgres
from tests.servers.redis import open_redis

RunStorm = Callable[[Path, dict[str, Any], dict[str, str]], Awaitable[dict[str, Any]]]
"""Runs a storm of the chosen size with files in a folder, at `store_url` and `state_url`. Returns its figures."""


def parser_of(name: str, told: str | None) -> ArgumentParser:
    """The options of every storm."""
    parser = ArgumentParser(prog=f"python -m {name}", description=told)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--kill-every", type=float, default=5.0, metavar="S", dest="kill_every_s")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def run(parser: ArgumentParser, run_storm: RunStorm) -> None:
    """Run the storm according to the command line, and print its figures.

    A failed storm leaves its files in its folder.
    """
    chosen = vars(parser.parse_args())
    folder = Path(tempfile.mkdtemp(prefix="storm-"))
    with ExitStack() as servers:
        urls = {"store_url": f"sqlite:///{folder / 'sluice.db'}"}
        if chosen.pop("store") == "postgresql":
            redis = servers.enter_context(open_redis(folder / "redis"))
            urls = {"store_url": servers.enter_context(open_postgres()).url(), "state_url": redis.url}
        print(f"seed {chosen['seed']}, files in {folder}", flush=True)
        figures = trio.run(run_storm, folder, chosen, urls)
    print(orjson.dumps(figures, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode())
    shutil.rmtree(folder)
