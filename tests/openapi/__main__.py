"""`python -m tests.openapi --examples 100`: run Schemathesis over the whole document, for longer than a test."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.openapi.conformance import PHASES, run_schemathesis
from tests.openapi.described_node import open_described_node


def main() -> int:
    """Run Schemathesis and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.openapi", description=__doc__)
    parser.add_argument("--examples", type=int, default=100, help="the maximum of random requests per operation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--phases", default=",".join(PHASES))
    parser.add_argument("--only", default="", help="a regular expression that selects the paths to test")
    chosen = parser.parse_args()
    more = ("--include-path-regex", chosen.only) if chosen.only else ()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, open_described_node(Path(folder)) as node:
        phases = chosen.phases.split(",")
        found = run_schemathesis(
            node, Path(folder), phases=phases, examples=chosen.examples, seed=chosen.seed, more=more
        )
    print(found.output)
    print(f"{found.cases} requests in {time.monotonic() - began:.0f} s; exit code {found.exit_code}")
    return found.exit_code


if __name__ == "__main__":
    sys.exit(main())
