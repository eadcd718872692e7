"""Run all tests of some platforms in one process, and print a line for each group of tests.

    sluice platforms check mastodon              the same command
    python -m tests.gate.one_platform mastodon lemmy [--whole]

`SLUICE_WHOLE_MATRIX` restricts generic tests to these platforms (`tests.gate.matrix`). Without `--whole`, the longest
test, which sends hostile values to every parameter, is left to the gate. Exits with 1 if a test fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from xml.etree import ElementTree

from tests.gate.changed import INTEGRATION
from tests.gate.matrix import WHOLE
from tests.gate.whole import MATRICES, PROJECT, folders_of

LONGEST: Final = "tests/spec/test_7_2_no_500.py"
TRAPS: Final = "traps"
GENERIC: Final = "generic"
_OUTCOMES: Final[Mapping[str, Sequence[str]]] = {"failed": ("failure", "error"), "skipped": ("skipped",)}
"""The elements of pytest's report that stand for an outcome. A test without any of them has passed."""
GROUPS: Final[Mapping[str, Sequence[str]]] = {
    TRAPS: (),
    "cases": ("tests/platforms/test_recordings.py",),
    "stand-in": ("tests/platforms/test_stand_ins.py",),
    GENERIC: (),
    "roles": ("tests/platforms/test_roles.py",),
    "addresses": (
        "tests/upstreams/composites/test_addresses.py::test_declared_url_forms_match_endpoints_and_parameters",
        "tests/upstreams/composites/test_addresses.py::test_every_kind_of_single_record_can_be_looked_up",
        "tests/upstreams/composites/test_addresses.py::test_every_lookup_target_has_the_standard_tier",
    ),
    "tables": ("tests/docs/test_platform_tables.py",),
    "house": (
        "tests/test_house.py",
        "tests/test_prose.py::test_adjacent_texts_keep_the_space_between_them",
    ),
    "docs": (
        "tests/gateway/docs/test_operations.py::test_document_is_valid_and_fully_named_and_priced",
        "tests/gateway/docs/test_operations.py::test_platform_document_contains_only_its_platform_and_references",
        "tests/gateway/docs/test_operations.py::test_declared_platform_reasons_are_in_endpoint_guides",
        "tests/spec/test_2_3_catalog.py",
    ),
}
"""The tests of each group. The traps are those in the platforms' folders, and the generic tests are all other tests in
`tests.gate.whole.MATRICES`."""


def tests_of(slugs: Sequence[str], *, whole: bool) -> dict[str, tuple[str, ...]]:
    """Return the tests to run, by their groups."""
    named = {test for tests in GROUPS.values() for test in tests}
    generic = (test for test in MATRICES if test not in named and (whole or not test.startswith(LONGEST)))
    found = {TRAPS: folders_of(slugs), GENERIC: tuple(generic)}
    return {group: found.get(group, tuple(tests)) for group, tests in GROUPS.items()}


def main(words: Sequence[str] | None = None) -> int:
    """Run the tests. Return 0 if all of them pass, and otherwise 1."""
    parser = argparse.ArgumentParser(description="Run all tests of some platforms.")
    parser.add_argument("slugs", nargs="+", metavar="SLUG")
    parser.add_argument("--whole", action="store_true", help="also send every hostile value to every parameter")
    given = parser.parse_args(words)
    began_s = time.monotonic()
    groups = tests_of(given.slugs, whole=given.whole)
    with TemporaryDirectory(prefix="sluice-check-") as folder:
        report = Path(folder, "report.xml")
        ended = run_tests([test for tests in groups.values() for test in tests], given.slugs, report)
        print(*lines_of(report.read_text() if report.exists() else "<none/>", groups), sep="\n")
    linted = lint(given.slugs)
    print(f"{'ok' if linted else 'FAILED':<8}linters")
    print(f"{time.monotonic() - began_s:.0f} s in all")
    return 0 if ended == 0 and linted else 1


def run_tests(tests: Sequence[str], slugs: Sequence[str], report: Path) -> int:
    """Run the tests in a new process that writes a report, and return its exit code. Its output is printed if it fails.

    It is a new process because pytest must be the first to import the modules whose assertions it explains.
    """
    options = (
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "--color=no",
        "--continue-on-collection-errors",
        f"--junitxml={report}",
        "-o",
        "junit_family=xunit1",
    )
    environ = {**os.environ, WHOLE: ",".join(slugs)}
    environ.pop(INTEGRATION, None)  # an author's branch leaves the tables as they are
    command = [sys.executable, "-m", "pytest", *options, *tests]
    ended = subprocess.run(command, cwd=PROJECT, env=environ, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        print(ended.stdout, ended.stderr, sep="")
    return ended.returncode


def lines_of(report: str, groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a line for each group, from pytest's report. A module that cannot be imported counts as a failed test."""
    counts = {group: Counter[str]() for group in groups}
    spent_s = Counter[str]()
    for test in ElementTree.fromstring(report).iter("testcase"):
        file = test.get("file") or f"{test.get('name', '').replace('.', '/')}.py"
        group = _group_of(f"{file}::{test.get('name')}", groups)
        outcome = next((of for of, tags in _OUTCOMES.items() if any(one.tag in tags for one in test)), "passed")
        counts[group][outcome] += 1
        spent_s[group] += float(test.get("time", 0))
    for group, found in counts.items():
        numbers = ", ".join(f"{found[outcome]} {outcome}" for outcome in ("passed", *_OUTCOMES) if found[outcome])
        is_good = found["passed"] and not found["failed"]
        yield f"{'ok' if is_good else 'FAILED':<8}{group:<11}{numbers or 'no test ran'}, {spent_s[group]:.1f} s"


def _group_of(test: str, groups: Mapping[str, Sequence[str]]) -> str:
    return next((group for group, tests in groups.items() if test.startswith(tuple(tests))), TRAPS)


def lint(slugs: Sequence[str]) -> bool:
    """Run ruff on the platforms' files, and return whether it has no complaint. Its complaints are printed."""
    folders = [f"{parent}/{slug}" for parent in ("upstreams/platforms", "tests/platforms") for slug in slugs]
    existing = [folder for folder in folders if Path(PROJECT / folder).is_dir()]
    commands = (("check", "--quiet"), ("format", "--check", "--quiet"))
    ended = [
        subprocess.run([sys.executable, "-m", "ruff", *command, *existing], cwd=PROJECT, check=False).returncode
        for command in commands
        if existing
    ]
    return not any(ended)


if __name__ == "__main__":
    sys.exit(main())
