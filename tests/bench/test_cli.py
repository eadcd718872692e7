"""`sluice bench` for its operator: messages, exit codes, files, and Ctrl-C."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bench.command import rates_of
from bench.core.results import load
from bench.suite import NAMES
from tests.processes.commands import PROJECT, Commands
from tests.processes.place import Ended, Place
from tests.processes.process import STOP_S, Process
from tests.processes.waiting import wait_until

INTERPRETER_S = 180.0
STEP = "hit: 40/s\n"
"""The line printed when a step starts."""
RATE = ("--rate", "40", "--repeats", "1", "--seconds", "0.1")
BARE = """
import sys
sys.modules["rich"] = None
import gateway.cli
print({"bench", "matplotlib", "quart_trio"} & set(sys.modules))
sys.argv = ["sluice", "bench", "run", "hit"]
gateway.cli.main()
"""


@pytest.fixture
def place(tmp_path: Path, commands: Commands) -> Place:
    return place_in(tmp_path, commands)


def place_in(folder: Path, commands: Commands) -> Place:
    """A folder to run the bench in; the fonts of the plots are looked up once per home directory."""
    return Place(folder, commands, {"HOME": os.environ.get("HOME", str(folder))})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> tuple[Ended, Path]:
    """A whole run of a scenario with rates and of a feed scenario, and the folder of its files."""
    folder = tmp_path_factory.mktemp("run")
    ended = place_in(folder, commands).run(
        *("bench", "run", "hit", "depth", *RATE, "--events", "1000", "--out", str(folder / "files"), "--name", "a")
    )
    assert ended.exit_code == 0, ended.err
    return ended, folder / "files"


def test_run_prints_tables_and_saves_its_files(run: tuple[Ended, Path]) -> None:
    ended, folder = run
    assert "\n hit " in ended.out
    assert "appending 1000 events" in ended.out
    assert {file.name for file in folder.iterdir()} == {
        "a.json",
        *(f"a-{what}.{kind}" for what in ("latency", "cpu", "memory") for kind in ("svg", "png")),
    }
    results = load(folder / "a.json")
    assert results.complete
    assert (len(results.marks), len(results.figures)) == (2, 3)
    assert rates_of(results) == {"hit": {"40/s": 40.0}}
    (point,) = results.points
    assert [(step.unexpected, step.unanswered) for step in point.steps] == [({}, 0)]


def test_suite_is_imported_lazily_and_missing_packages_get_an_install_hint() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BARE], cwd=PROJECT, capture_output=True, text=True, timeout=INTERPRETER_S, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "set()\n")
    assert ended.stderr == "sluice: the bench needs more packages: pip install -c constraints.txt -e '.[bench]'\n"


def test_invalid_setting_is_rejected_with_the_nodes_message(place: Place) -> None:
    out = place.folder / "files"
    options = ("--scenario", "hit", "--rate", "10", "--out", str(out))
    assert place.run("bench", "sweep", "limits.concurrent_request=10", *options).refused(2) == (
        "limits.concurrent_request=10: limits.concurrent_request: unknown key; "
        'did you mean "limits.concurrent_requests"?'
    )
    assert not out.exists()


def test_help_names_every_scenario(place: Place) -> None:
    assert set(NAMES) <= set(place.run("bench", "run", "--help").out.split())


def test_ctrl_c_ends_a_run_and_its_processes_and_keeps_results(place: Place) -> None:
    """Method: the signal is sent when the second step has started; each takes a second, and there are a hundred.

    If this process was delayed, the signal arrives in a later step; the program's output shows how many had started.
    """
    out = place.folder / "files"
    options = ("--rate", "40", "--seconds", "1", "--repeats", "100", "--out", str(out), "--name", "a")
    with running(place, "hit", *options) as process:
        wait_until(lambda: process.log.read_text().count(STEP) > 1, within_s=STOP_S)
        started = descendants(process.pid)
        process.signal(signal.SIGINT)
        assert process.wait() == 1
    said = process.log.read_text()
    assert "stopped before the end" in said
    assert len(started) >= 2  # at least the node and the sandbox
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []
    results = load(out / "a.json")
    assert not results.complete
    assert len(results.points[0].steps) == said.count(STEP) - 1  # every started step except the last


def test_stopped_depth_run_leaves_no_files(place: Place) -> None:
    """Method: the signal is sent once the store's process has started to write, in its own folder."""
    temporary, out = place.folder / "temporary", place.folder / "files"
    temporary.mkdir()
    with running(place, "depth", "--events", "1000000", "--out", str(out), TMPDIR=str(temporary)) as process:
        wait_until(lambda: any(temporary.rglob("sluice.db")), within_s=STOP_S)
        process.signal(signal.SIGINT)
        assert process.wait() == 1
        assert process.popen.stdout is not None
        assert process.popen.stdout.read() == b""
    assert "stopped before the end" in process.log.read_text()
    assert list(temporary.iterdir()) == list(out.iterdir()) == []


@contextmanager
def running(place: Place, *arguments: str, **environ: str) -> Iterator[Process]:
    """Start a run, which is ended with the block together with the servers that it has started."""
    log = place.folder / "bench.log"
    popen = place.commands.start(
        ("bench", "run", *arguments), folder=place.folder, environ={**place.environ, **environ}, err=log
    )
    process = Process(popen, log)
    try:
        yield process
    finally:
        with suppress(subprocess.TimeoutExpired):
            process.stop()
        process.close()


def descendants(pid: int) -> list[int]:
    """Return the child processes of a process; some that end in the meantime may be missing."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found + [each for child in found for each in descendants(child)]
