"""`python -m tests.storm.beside --of discover`: billed misses with and without 100 background runs, in turn.

Exits with 1 if the p99 of the misses is more than 1.5 times as long with runs, or the node grew too much.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

import trio

from tests.processes.commands import open_commands
from tests.storm.beside.compare import Pace, compare
from tests.storm.beside.crawls import crawls
from tests.storm.beside.discovering import discover_runs

COMPANY = {"crawls": (crawls, 20, 50.0), "discover": (discover_runs, 100, 500.0)}
"""The kinds of jobs: how they are created, their number, and the misses per second."""


def main() -> int:
    """Run it, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.beside", description=__doc__)
    parser.add_argument("--of", choices=sorted(COMPANY), default="discover")
    parser.add_argument("--jobs", type=int, help="20 crawls, 100 discover runs")
    parser.add_argument("--per-second", type=float, help="50 misses beside crawls, 500 beside discover runs")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a turn")
    parser.add_argument("--turns", type=int, default=3, help="with jobs, and as many without")
    chosen = parser.parse_args()
    make, count, per_s = COMPANY[chosen.of]
    pace = Pace(chosen.per_second or per_s, chosen.seconds, chosen.turns)
    with open_commands() as commands, tempfile.TemporaryDirectory() as folder:
        compared = trio.run(partial(compare, Path(folder), make(chosen.jobs or count), pace, commands))
    print(f"{compared}\n{'; '.join(compared.flaws()) or 'the jobs hold up nobody'}")
    return 1 if compared.flaws() else 0


if __name__ == "__main__":
    sys.exit(main())
