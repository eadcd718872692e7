"""`python -m tests.storm.cohorts --members 10000`: a cohort of full size under kill -9, on either engine."""

from pathlib import Path
from typing import Any

from tests.processes.commands import open_commands
from tests.storm.cohorts.run import Size, storm
from tests.storm.command import parser_of, run


async def run_storm(folder: Path, chosen: dict[str, Any], urls: dict[str, str]) -> dict[str, Any]:
    """Run the storm, and print the result."""
    with open_commands() as commands:
        return await storm(folder, Size(**chosen), commands, **urls)


def main() -> None:
    """Run the storm according to the command line."""
    parser = parser_of("tests.storm.cohorts", __doc__)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=1)
    run(parser, run_storm)


if __name__ == "__main__":
    main()
