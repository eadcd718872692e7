"""`python -m tests.storm.crawls --pages 2000`: crawls under kill -9 for longer than a test run allows.

`python -m tests.storm.crawls --beside`: 20 crawls beside billed misses, whose p99 may be 1.5 times as long by that.
"""

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import trio

from tests.processes.commands import open_commands
from tests.storm.crawls.beside import Besides, compare, p99
from tests.storm.crawls.run import Size, storm


def main() -> int:
    """Run it, and tell how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.crawls", description=__doc__)
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--crawls", type=int, help="1, and 20 beside misses")
    parser.add_argument("--kill-every", type=float, default=5.0, dest="kill_every_s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--beside", action="store_true")
    chosen, began = parser.parse_args(), time.monotonic()
    with open_commands() as commands, tempfile.TemporaryDirectory() as folder:
        if chosen.beside:
            compared = trio.run(partial(compare, Path(folder), Besides(crawls=chosen.crawls or 20), commands))
            print(f"p99 of misses {p99(compared.with_ms):.1f} ms beside {compared.pages} pages of crawls", end="; ")
            print(f"{p99(compared.without_ms):.1f} ms without: {compared.ratio:.2f} times as long")
            print("; ".join(compared.flaws()) or "crawls hold up nobody")
            return 1 if compared.flaws() else 0
        size = Size(chosen.pages, chosen.crawls or 1, chosen.kill_every_s, seed=chosen.seed)
        report = trio.run(partial(storm, Path(folder), size, commands))
    print(f"{report}\neverything holds after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
