"""`python -m tests.storm.slots --store postgresql --slots 100000`: the storm of slots for longer than a test allows."""

import argparse
import shutil
import tempfile
from contextlib import ExitStack
from functools import partial
from math import inf
from pathlib import Path

import trio

from tests.servers.postgres import open_postgres
from tests.servers.redis import open_redis
from tests.storm.slots.run import Size, shown, storm


def main() -> None:
    """Run it, and print its figures; what a broken one has left stays in its folder."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.slots", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--slots", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--accounts", type=int, default=20)
    parser.add_argument("--monitors", type=int, default=1_000)
    parser.add_argument("--kill-every", type=float, default=5.0, metavar="S", dest="kill_every_s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=inf, help="end after so long, however many slots there were")
    chosen = vars(parser.parse_args())
    folder = Path(tempfile.mkdtemp(prefix="slots-"))
    with ExitStack() as servers:
        urls = {"store_url": f"sqlite:///{folder / 'sluice.db'}"}
        if chosen.pop("store") == "postgresql":
            redis = servers.enter_context(open_redis(folder / "redis"))
            urls = {"store_url": servers.enter_context(open_postgres()).url(), "state_url": redis.url}
        print(f"seed {chosen['seed']}, files in {folder}", flush=True)
        figures = trio.run(partial(storm, folder, Size(**chosen), **urls))
    print(shown(figures))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
