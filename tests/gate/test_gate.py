"""The gate distinguishes shaky tests from broken ones."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.gate.__main__ import AGAIN_MAX, SHAKY_MAX, judge, main, report
from tests.gate.critical import CRITICAL, MEASURED, is_critical
from tests.gate.failures import FAILURES_FILE, Failure, Failures

ROOT = Path(__file__).parents[2]
SUITE = """
import pathlib
import pytest

MARK = pathlib.Path(__file__).with_suffix(".seen")

def test_shaky():
    seen, _ = MARK.exists(), MARK.touch()
    assert seen, "first try"

def test_broken():
    assert 0

@pytest.mark.critical
def test_critical():
    assert 0

def test_passes():
    pass
"""
CONFTEST = """
import os
from pathlib import Path
from tests.gate.failures import FAILURES_FILE, FailureRecorder

def pytest_configure(config):
    config.addinivalue_line("markers", "critical: x")
    if FAILURES_FILE in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailureRecorder(Path(os.environ[FAILURES_FILE])))
"""


def failure(name: str, *, again: bool = True) -> Failure:
    return Failure(name, again, f"{name} failed")


@pytest.mark.parametrize("processes", ["0", "2"])
def test_recorder_writes_each_failure_and_whether_it_may_be_retried(tmp_path: Path, processes: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_suite.py").write_text(SUITE)
    written = tmp_path / "failures.json"
    environ = {**os.environ, FAILURES_FILE: str(written), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-n", processes, "--rootdir", str(tmp_path), str(tmp_path)]
    assert subprocess.run(command, env=environ, cwd=tmp_path, check=False, capture_output=True).returncode == 1
    found = msgspec.json.decode(written.read_bytes(), type=Failures)
    assert found.exit_code == 1
    assert {test.nodeid.rpartition("::")[2]: test.again for test in found.tests} == {
        "test_shaky": True,
        "test_broken": True,
        "test_critical": False,
    }
    assert any("first try" in test.text for test in found.tests)


def test_judge_lists_tests_that_pass_alone_as_shaky() -> None:
    runs = [Failures("sqlite", 1, [failure("a"), failure("b")]), Failures("postgresql", 1, [failure("c")])]
    tried = []

    def run(nodeid: str, store: str) -> bool:
        tried.append((nodeid, store))
        return nodeid != "b"

    failed, shaky = judge(runs, run)
    assert tried == [("a", "sqlite"), ("b", "sqlite"), ("c", "postgresql")]
    assert [test.nodeid for test in failed] == ["b"]
    assert [test.nodeid for test in shaky] == ["a", "c"]
    assert "    a failed" in report(failed, shaky)


def test_judge_never_reruns_a_critical_test() -> None:
    failed, shaky = judge([Failures("sqlite", 1, [failure("a", again=False)])], lambda *_: pytest.fail("reran"))
    assert [test.nodeid for test in failed] == ["a"]
    assert not shaky


def test_judge_limits_retries() -> None:
    many = [failure(str(number)) for number in range(AGAIN_MAX + 3)]
    failed, shaky = judge([Failures("sqlite", 1, many)], lambda *_: True)
    assert (len(failed), len(shaky)) == (3, AGAIN_MAX)


@pytest.mark.parametrize(("exit_code", "code"), [(0, 0), (1, 1), (2, 1), (3, 1)])
def test_nonzero_exit_code_without_a_recorded_failure_fails_the_gate(tmp_path: Path, exit_code: int, code: int) -> None:
    path = tmp_path / "failures.json"
    path.write_bytes(msgspec.json.encode(Failures("sqlite", exit_code, [])))
    assert main([str(path)]) == code


@pytest.mark.parametrize("count", [SHAKY_MAX, SHAKY_MAX + 1])
def test_more_shaky_tests_than_the_limit_fail_the_gate(tmp_path: Path, count: int) -> None:
    path = tmp_path / "failures.json"
    path.write_bytes(msgspec.json.encode(Failures("sqlite", 1, [failure(str(number)) for number in range(count)])))
    assert main([str(path)], lambda *_: True) == int(count > SHAKY_MAX)


@pytest.mark.parametrize("prefix", CRITICAL)
def test_critical_prefix_names_tests_that_exist(prefix: str) -> None:
    folder, _, name = prefix.rpartition("/")
    assert list((ROOT / folder).glob(f"{name}*")), f"nothing begins with {prefix}"
    assert is_critical(f"{prefix}x.py::test_y")


@pytest.mark.parametrize("module", MEASURED)
def test_measured_module_exists_and_is_not_critical(module: str) -> None:
    assert (ROOT / module).is_file()
    assert not is_critical(f"{module}::test_x")
