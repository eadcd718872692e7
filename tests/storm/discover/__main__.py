"""`python -m tests.storm.discover --store postgresql --legs 1000`: discover runs under kill -9, of full size."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.processes.commands import open_commands
from tests.storm.command import parser_of, run
from tests.storm.discover.run import Size, storm


def main() -> None:
    """Run the storm."""
    parser = parser_of("tests.storm.discover", __doc__)
    parser.add_argument("--legs", type=int, default=1_000, help="legs of a run, a multiple of 10")
    parser.add_argument("--runs", type=int, default=1)
    run(parser, _run_storm)


async def _run_storm(folder: Path, size: dict[str, Any], urls: dict[str, str]) -> dict[str, Any]:
    with open_commands() as commands:
        return {**size, **asdict(await storm(folder, Size(**size), commands, **urls))}


if __name__ == "__main__":
    main()
