"""A pytest plugin that writes down what failed, for the gate to judge when all tests have ended."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import pytest

FAILURES_FILE: Final = "SLUICE_TEST_FAILURES"
"""The environment variable that names the file to write; without it the plugin is not registered."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed test. `again` is True if the gate may try it once more."""

    nodeid: str
    again: bool
    text: str


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one run of pytest. `store` is the run's engine, and `exit_code` is pytest's."""

    store: str
    exit_code: int
    tests: list[Failure]


class FailureRecorder:
    """Collects the first failure of each test and writes all of them at the end of the run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: dict[str, Failure] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a failure of a test, its set-up or its tear-down."""
        if report.failed and report.nodeid not in self._failed:
            # A test that ends its process is reported without its markers, so it counts as critical.
            again = report.when in ("setup", "call", "teardown") and "critical" not in report.keywords
            self._failed[report.nodeid] = Failure(report.nodeid, again, report.longreprtext)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a module that cannot be collected. It gets no second try."""
        if report.failed:
            self._failed[report.nodeid] = Failure(report.nodeid, again=False, text=report.longreprtext)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the file."""
        store = os.environ.get("SLUICE_TEST_STORE", "sqlite")
        found = Failures(store, int(exitstatus), list(self._failed.values()))
        self._path.write_bytes(msgspec.json.encode(found))
