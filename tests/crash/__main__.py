"""`python -m tests.crash --kills 1000`: the crash test for longer than a test run allows."""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Final

import trio

from tests.crash import composites, payments
from tests.crash.run import crash_run
from tests.fakes.stores import open_stores
from tests.processes.commands import open_commands

CRASH_RUNS: Final = {"calls": crash_run, "composites": composites.crash_run, "payments": payments.crash_run}


def main() -> None:
    """Run the killer, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", choices=tuple(CRASH_RUNS), default="calls")
    chosen = parser.parse_args()
    began = time.monotonic()
    with open_stores(), open_commands() as commands, tempfile.TemporaryDirectory() as folder:
        run = partial(CRASH_RUNS[chosen.of], Path(folder), commands, kills=chosen.kills, seed=chosen.seed)
        report = trio.run(run)
    print(f"{report}\nall checks passed after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
