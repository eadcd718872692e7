"""`python -m tests.storm.beside --of discover`: billed misses with and without 100 background runs, alternating.

Exits with 1 if the p99 of the misses is more than 1.5 times as long with runs, or if the node grew too much.
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
"""The kinds of jobs: how to create them, how many, and the misses per second."""


def main() -> int:
    """Run the comparison, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.beside", description=__doc__)
    parser.add_argument("--of", choices=sorted(COMPANY), default="discover")
    parser.add_argument("--jobs", type=int, help="20 crawls, 100 discover runs")
    parser.add_argument("--per-second", type=float, help="misses per second: 50 with crawls, 500 with discover runs")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds per turn")
    parser.add_argument("--turns", type=int, default=3, help="turns with jobs, and the same number without")
    chosen = parser.parse_args()
    make, count, per_s = COMPANY[chosen.of]
    pace = Pace(chosen.per_second or per_s, chosen.seconds, chosen.turns)
    with open_commands() as commands, tempfile.TemporaryDirectory() as folder:
        compared = trio.run(partial(compare, Path(folder), make(chosen.jobs or count), pace, commands))
    print(f"{compared}\n{'; '.join(compared.flaws()) or 'the jobs delay no request'}")
    return 1 if compared.flaws() else 0


if __name__ == "__main__":
    sys.exit(main())
