"""`sluice platforms new`, `check` and `tables`: the commands for authors of platforms, which need a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gate.clones import copy_checkout
from tests.gate.one_platform import GROUPS, LONGEST, PROJECT, lines_of
from tests.gate.one_platform import tests_of as groups_of
from tests.gate.whole import MATRICES
from tests.processes.commands import SLUICE
from tests.processes.place import Place
from upstreams.skeletons import KINDS

CHECK_S = 300.0
"""Seconds for the tests of all skeletons. They take less than 30 on an idle core."""


def sluice(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the program in another checkout."""
    environ = {**os.environ, "PYTHONPATH": str(checkout)}
    return subprocess.run(
        [*SLUICE, *arguments], cwd=checkout, env=environ, capture_output=True, text=True, check=False, timeout=CHECK_S
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, as a repository, with a new platform of each kind."""
    project = copy_checkout(tmp_path_factory.mktemp("copy"))
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "everything")):
        subprocess.run(["git", *identity, *words], cwd=project, check=True)
    for kind in KINDS:
        ended = sluice(project, "platforms", "new", f"a_{kind}", "--kind", kind)
        assert ended.returncode == 0, ended.stderr
        assert f"upstreams/sandbox/made/a_{kind}.json" in ended.stdout
    return project


def outcomes(output: str, groups: Sequence[str] = (*GROUPS, "linters")) -> dict[str, str]:
    """Return the outcome of each group of tests."""
    words = (line.split() for line in output.splitlines())
    return {found[1]: found[0] for found in words if len(found) > 1 and found[1] in groups}


def test_skeleton_of_each_kind_passes_all_tests_of_a_platform(checkout: Path) -> None:
    ended = sluice(checkout, "platforms", "check", *(f"a_{kind}" for kind in KINDS))
    assert ended.returncode == 0, ended.stdout
    assert outcomes(ended.stdout) == dict.fromkeys((*GROUPS, "linters"), "ok")


def test_check_reports_the_group_that_fails(checkout: Path) -> None:
    traps = checkout / "tests/platforms/a_json/test_traps.py"
    correct = traps.read_text()
    traps.write_text(correct.replace('"account_gone"', '"account_away"') + "\n\nimport os\n")
    try:
        ended = sluice(checkout, "platforms", "check", "a_json")
    finally:
        traps.write_text(correct)
    assert (ended.returncode, ended.stderr) == (1, "sluice: tests of a_json failed\n")
    found = outcomes(ended.stdout)
    assert {group for group, outcome in found.items() if outcome == "FAILED"} == {"traps", "linters"}
    assert "test_suspended_account_is_gone" in ended.stdout


def test_stand_ins_of_skeletons_are_those_of_the_tool(checkout: Path) -> None:
    for kind in KINDS:
        file = checkout / f"upstreams/sandbox/made/a_{kind}.json"
        before = file.read_bytes()
        command = [*SLUICE[:1], "-m", "tests.platforms.stand_in", f"a_{kind}"]
        environ = {**os.environ, "PYTHONPATH": str(checkout)}
        ended = subprocess.run(command, cwd=checkout, env=environ, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert file.read_bytes() == before, kind


def test_tables_are_checked_and_written(checkout: Path) -> None:
    readme = checkout / "README.md"
    assert "A Json" not in readme.read_text()
    ended = sluice(checkout, "platforms", "tables", "--check")
    assert ended.returncode == 1
    assert ended.stderr.startswith("sluice: out of date: ")
    assert "A Json" not in readme.read_text(), "a check writes nothing"
    assert "written: README.md" in sluice(checkout, "platforms", "tables").stdout
    assert "A Json" in readme.read_text()
    assert sluice(checkout, "platforms", "tables", "--check").returncode == 0


@pytest.mark.parametrize("command", [("check", "github"), ("tables",)])
def test_commands_refuse_an_installed_package(command: tuple[str, ...], tmp_path: Path) -> None:
    """Method: copy the packages that a wheel contains."""
    for package in ("gateway", "scheduler", "events", "upstreams", "billing", "limits", "storage"):
        shutil.copytree(PROJECT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    ended = sluice(tmp_path, "platforms", *command)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "does not run from a checkout" in ended.stderr
    assert "pip install -e '.[test]'" in ended.stderr


def test_unknown_platform_and_kind_are_refused(place: Place) -> None:
    assert "unknown platform githb; did you mean github?" in place.run("platforms", "check", "githb").refused(2)
    assert "'--kind': 'xml' is not one of" in place.run("platforms", "new", "forum", "--kind", "xml").refused(2)


def test_generic_group_has_every_matrix_that_no_other_group_has() -> None:
    usual, whole = groups_of(["github"], whole=False), groups_of(["github"], whole=True)
    assert usual["traps"] == ("tests/platforms/github",)
    only_whole = set(whole["generic"]) - set(usual["generic"])
    assert only_whole == {test for test in MATRICES if test.startswith(LONGEST)} != set()
    everything = [test for tests in whole.values() for test in tests]
    assert len(everything) == len(set(everything))


def test_lines_count_outcomes_and_modules_that_cannot_be_imported() -> None:
    report = """<testsuites><testsuite>
        <testcase file="tests/a.py" name="one" time="1.5"/>
        <testcase file="tests/a.py" name="two" time="0.5"><skipped/></testcase>
        <testcase name="tests.b" time="0.0"><error/></testcase>
    </testsuite></testsuites>"""
    groups = {"first": ("tests/a.py",), "second": ("tests/b.py",), "third": ("tests/c.py",)}
    assert [line.split(maxsplit=2) for line in lines_of(report, groups)] == [
        ["ok", "first", "1 passed, 1 skipped, 2.0 s"],
        ["FAILED", "second", "1 failed, 0.0 s"],
        ["FAILED", "third", "no test ran, 0.0 s"],
    ]
