"""`python -m tests.storm.crawls --pages 2000`: crawls under kill -9 for longer than a test run allows."""

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import trio

from tests.processes.commands import open_commands
from tests.storm.crawls.run import Size, storm


def main() -> int:
    """Run the storm, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.crawls", description=__doc__)
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--crawls", type=int, default=1)
    parser.add_argument("--kill-every", type=float, default=5.0, dest="kill_every_s")
    parser.add_argument("--seed", type=int, default=1)
    chosen, began = parser.parse_args(), time.monotonic()
    size = Size(chosen.pages, chosen.crawls, chosen.kill_every_s, seed=chosen.seed)
    with open_commands() as commands, tempfile.TemporaryDirectory() as folder:
        report = trio.run(partial(storm, Path(folder), size, commands))
    print(f"{report}\nall checks passed after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
