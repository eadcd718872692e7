"""`python -m tests.storm --store postgresql --events 1000000`: the storm for longer than a test run allows."""

import argparse
import shutil
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import orjson
import trio

from tests.servers.postgres import open_postgres
from tests.servers.redis import open_redis
from tests.storm.run import Size, storm


def main() -> None:
    """Run it, and print its figures; what a broken one has left stays in its folder."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--accounts", type=int, default=8)
    parser.add_argument("--consumers", type=int, default=8)
    parser.add_argument("--kill-every", type=float, default=5.0, metavar="S", dest="kill_every_s")
    parser.add_argument("--seed", type=int, default=1)
    chosen = vars(parser.parse_args())
    folder = Path(tempfile.mkdtemp(prefix="storm-"))
    with ExitStack() as servers:
        urls = {"store_url": f"sqlite:///{folder / 'sluice.db'}"}
        if chosen.pop("store") == "postgresql":
            redis = servers.enter_context(open_redis(folder / "redis"))
            urls = {"store_url": servers.enter_context(open_postgres()).url(), "state_url": redis.url}
        print(f"seed {chosen['seed']}, files in {folder}", flush=True)
        figures = trio.run(partial(storm, folder, Size(**chosen), **urls))
    print(orjson.dumps(figures, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode())
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
