"""`python -m tests.storm.slots --store postgresql --slots 100000`: the storm of slots for longer than a test allows."""

from math import inf
from pathlib import Path
from typing import Any

from tests.processes.commands import open_commands
from tests.storm.command import parser_of, run
from tests.storm.slots.run import Size, storm


def main() -> None:
    """Run the storm."""
    parser = parser_of("tests.storm.slots", __doc__)
    parser.add_argument("--slots", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--resumed", type=int, default=0, help="continue until this many runs were taken over")
    parser.add_argument("--accounts", type=int, default=20)
    parser.add_argument("--monitors", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=inf, help="stop after this many seconds")
    run(parser, _run_storm)


async def _run_storm(folder: Path, size: dict[str, Any], urls: dict[str, str]) -> dict[str, Any]:
    with open_commands() as commands:
        return await storm(folder, Size(**size), commands, **urls)


if __name__ == "__main__":
    main()
