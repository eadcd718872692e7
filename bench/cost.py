"""Prints what one request costs the server process in CPU microseconds: `python -m bench.cost`."""

import argparse
import itertools
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import trio

from bench.load import Load, Measured
from bench.process import PYTHON, ChildFailed, run_command
from bench.report import Figures, figures, table
from bench.scenarios import SCENARIOS, Scenario, load_for
from bench.servers import SERVERS, Bed, open_sandbox

RUN_S = 60.0
"""What one scenario may take beyond its counted seconds: start, warm-up, drain."""


@dataclass(frozen=True, slots=True)
class Options:
    """How hard and how long every scenario is driven."""

    connections: int = 64
    seconds: float = 5.0
    json: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """What `--json` prints."""

    connections: int
    seconds: float
    valid: bool
    scenarios: list[Figures]


async def measure_all(options: Options, scenarios: Sequence[Scenario] = SCENARIOS) -> list[Figures]:
    """Measure every scenario, one server at a time; whatever was started is stopped when this returns or raises.

    Raises:
        ChildFailed: a server or the load generator did not run.
    """
    runs: list[tuple[Scenario, Measured]] = []
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        async with open_sandbox(Path(folder)) as sandbox:
            bed = Bed(folder=Path(folder), upstream_url=sandbox.url)
            for server, rows in itertools.groupby(scenarios, key=lambda row: row.server):
                async with SERVERS[server](bed) as target:
                    for row in rows:
                        load = load_for(row, target, connections=options.connections, seconds=options.seconds)
                        runs.append((row, await drive(load)))
    return figures(runs)


async def drive(load: Load) -> Measured:
    """Run `load` in a process of its own.

    Raises:
        ChildFailed: the load generator failed or did not end in time.
    """
    command = (PYTHON, "-m", "bench.load")
    try:
        with trio.fail_after(load.warmup_s + load.seconds + RUN_S):
            return msgspec.json.decode(await run_command(command, stdin=msgspec.json.encode(load)), type=Measured)
    except trio.TooSlowError as exc:
        raise ChildFailed("the load generator did not end in time") from exc


async def run_until_told(options: Options) -> list[Figures]:
    """`measure_all`; SIGINT and SIGTERM cancel it, so that it cleans up, and then the list is empty."""
    token = trio.lowlevel.current_trio_token()
    with trio.CancelScope() as scope:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: token.run_sync_soon(scope.cancel))
        return await measure_all(options)
    return []


def options_from(arguments: Sequence[str]) -> Options:
    """The options that a command line gives."""
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description=__doc__)
    parser.add_argument("--connections", type=int, default=64, help="keep-alive connections (default 64)")
    parser.add_argument("--seconds", type=float, default=5.0, help="counted seconds of each scenario (default 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    given = parser.parse_args(arguments)
    if given.connections < 1 or given.seconds <= 0:
        parser.error("--connections and --seconds must be above 0")
    return Options(connections=given.connections, seconds=given.seconds, json=given.json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print. The exit code says whether the figures count (1: they do not), never whether a mark is met."""
    options = options_from(sys.argv[1:] if arguments is None else arguments)
    try:
        lines = trio.run(run_until_told, options)
    except ChildFailed as exc:
        print(exc, file=sys.stderr)
        return 1
    if not lines:
        print("stopped", file=sys.stderr)
        return 1
    valid = not any(line.unexpected for line in lines)
    if options.json:
        document = Document(connections=options.connections, seconds=options.seconds, valid=valid, scenarios=lines)
        print(msgspec.json.encode(document).decode())
    else:
        print(table(lines))
    return 0 if valid else 1


if __name__ == "__main__":
    sys.exit(main())
