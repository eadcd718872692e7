"""Fuzz for minutes, or replay a saved failure; see the package's docstring."""

import argparse
import secrets
import sys
import time
import traceback
from itertools import count, cycle
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings

from tests.fuzz.targets import TARGETS, Case, Target, as_text, from_text

CASES_A_ROUND = 1_000
ROUND = settings(
    max_examples=CASES_A_ROUND,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def run_round(target: Target, number: int) -> Case | None:
    """Run one round of a target. Return the smallest failing case, or None."""
    failed: list[Case] = []

    @seed(number)
    @ROUND
    @given(target.cases)
    def hold(case: Case) -> None:
        try:
            target.check(case)
        except BaseException:
            failed.append(case)  # the last one is the smallest, because Hypothesis shrinks it
            raise

    try:
        hold()
    except Exception:  # noqa: BLE001 - whatever broke is what was looked for
        traceback.print_exc()
        return failed[-1]
    return None


def fuzz(minutes: float, first: int, save: Path) -> int:
    """Run rounds, each with the next seed, until the time is over or a case fails."""
    ends_at = time.monotonic() + minutes * 60
    for number, name in zip(count(first), cycle(TARGETS)):
        if time.monotonic() > ends_at:
            print(f"nothing found in {number - first} rounds of {CASES_A_ROUND} cases")
            return 0
        failed = run_round(TARGETS[name], number)
        if failed is not None:
            save.write_text(as_text(name, failed))
            print(f"{name}, seed {number}: saved in {save}; python -m tests.fuzz --replay {save}")
            return 1
    raise AssertionError("the rounds never end")


def replay(file: Path) -> int:
    """Run a saved case. It raises the same error as when it was saved."""
    name, case = from_text(file.read_text())
    TARGETS[name].check(case)
    print("the case passes now")
    return 0


def main() -> int:
    """Read the arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--save", type=Path, default=Path("fuzz-failure.json"))
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    if options.replay:
        return replay(options.replay)
    print(f"seed {options.seed}", flush=True)
    return fuzz(options.minutes, options.seed, options.save)


if __name__ == "__main__":
    sys.exit(main())
