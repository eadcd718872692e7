"""Give tests that failed a second try, alone and one after another, and report which of them are shaky.

    python -m tests.gate FILE ...     each FILE is what `tests.gate.failures` wrote for one run of pytest

A test that passes on its second try is listed under SHAKY with its first failure. Exits 1 if a test failed twice, if a
critical test failed, if a run of pytest did not end properly, or if more than `SHAKY_MAX` tests are shaky.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tests.gate.failures import Failure, Failures

SHAKY_MAX: Final = 5
AGAIN_MAX: Final = 20
"""The maximum number of second tries. With more failures the run has failed, and retrying all would take too long."""
TEXT_MAX: Final = 6_000
"""Characters of a failure that are printed."""
TESTS_FAILED: Final = 1

Run = Callable[[str, str], bool]
"""Runs one test, by its id and the store's engine, and returns whether it passed."""


def run_alone(nodeid: str, store: str) -> bool:
    """Run one test in a separate process and return whether it passed."""
    environ = {name: value for name, value in os.environ.items() if name != "SLUICE_TEST_STORE"}
    if store != "sqlite":
        environ["SLUICE_TEST_STORE"] = store
    command = [sys.executable, "-m", "pytest", "-n", "0", nodeid]
    return subprocess.run(command, env=environ, check=False).returncode == 0


def judge(runs: list[Failures], run: Run) -> tuple[list[Failure], list[Failure]]:
    """Return the tests that failed for good and the shaky ones, which passed on their second try."""
    failed, shaky = [], []
    left = AGAIN_MAX
    for each in runs:
        for test in each.tests:
            if test.again and left:
                left -= 1
                (shaky if run(test.nodeid, each.store) else failed).append(test)
            else:
                failed.append(test)
    return failed, shaky


def report(failed: list[Failure], shaky: list[Failure]) -> list[str]:
    """Return the lines to print: the shaky tests with their first failure, then the failed ones."""
    lines = [f"== SHAKY: {len(shaky)} failed once and passed alone; fix them next"] if shaky else []
    for test in shaky:
        lines += [test.nodeid, *(f"    {line}" for line in test.text[-TEXT_MAX:].splitlines())]
    if len(shaky) > SHAKY_MAX:
        lines.append(f"== More than {SHAKY_MAX} shaky tests")
    if failed:
        lines += [f"== FAILED: {len(failed)}", *(test.nodeid for test in failed)]
    return lines


def main(paths: list[str], run: Run = run_alone) -> int:
    """Judge the failures of each run and return the exit code."""
    runs = [msgspec.json.decode(Path(path).read_bytes(), type=Failures) for path in paths]
    broken = [each for each in runs if each.exit_code > TESTS_FAILED or (each.exit_code and not each.tests)]
    failed, shaky = judge(runs, run)
    print("\n".join(report(failed, shaky)))
    return int(bool(broken or failed or len(shaky) > SHAKY_MAX))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
