"""`python -m tests.storm --store postgresql --events 1000000`: the storm for longer than a test run allows."""

from pathlib import Path
from typing import Any

from tests.processes.commands import open_commands
from tests.storm.command import parser_of, run
from tests.storm.run import Size, storm


def main() -> None:
    """Run the storm."""
    parser = parser_of("tests.storm", __doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--accounts", type=int, default=8)
    parser.add_argument("--consumers", type=int, default=8)
    run(parser, _run_storm)


async def _run_storm(folder: Path, size: dict[str, Any], urls: dict[str, str]) -> dict[str, Any]:
    with open_commands() as commands:
        return await storm(folder, Size(**size), commands, **urls)


if __name__ == "__main__":
    main()
