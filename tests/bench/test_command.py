"""`sluice bench` as an operator meets it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from bench.command import compare_results, rates_of, run_scenarios, sweep_setting
from bench.core.errors import BenchError, WrongUse
from bench.core.results import Results, load, save
from bench.report.compare import Comparison
from bench.report.terminal import Files
from bench.suite import NAMES
from tests.bench.samples import noisy_results
from tests.processes.children import finish
from tests.processes.ending import keeper

PROJECT = Path(__file__).resolve().parents[2]
SLUICE = "from gateway.cli import main; main()"
WAIT_S = 180.0
STEP = "hit: 40/s\n"
"""The line that is printed as a step begins."""


def sluice(*arguments: str, before: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", before + SLUICE, "bench", *arguments]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=WAIT_S, check=False)


def test_without_its_packages_it_says_in_one_line_how_to_install_them() -> None:
    ended = sluice("run", "hit", before="import sys; sys.modules['rich'] = None; ")
    assert ended.returncode == 1
    assert ended.stderr == "sluice: the bench needs more packages: pip install -c constraints.txt -e '.[bench]'\n"


def test_the_program_itself_loads_neither_the_suite_nor_its_packages() -> None:
    code = "import sys, gateway.cli; print({'bench', 'matplotlib', 'quart_trio'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, timeout=WAIT_S, check=True)
    assert ended.stdout == b"set()\n"


def test_wrong_use_is_one_line_and_exit_2() -> None:
    ended = sluice("run", "frobnicate")
    assert ended.returncode == 2
    assert ended.stderr.startswith("sluice: there is no scenario 'frobnicate'; there are miss, ")
    assert ended.stderr.count("\n") == 1


def test_a_setting_that_the_node_refuses_is_refused_at_once_in_the_node_s_words(tmp_path: Path) -> None:
    ended = sluice("sweep", "limits.concurrent_request=10", "--scenario", "hit", "--rate", "10", "--out", str(tmp_path))
    assert ended.returncode == 2
    assert ended.stderr == (
        "sluice: limits.concurrent_request=10: limits.concurrent_request: unknown key; "
        'did you mean "limits.concurrent_requests"?\n'
    )
    assert list(tmp_path.iterdir()) == []


def test_a_run_prints_a_table_and_leaves_its_files(tmp_path: Path) -> None:
    ended = sluice(
        "run", "hit", "--rate", "40", "--seconds", "0.3", "--repeats", "1", "--out", str(tmp_path), "--name", "a"
    )
    assert ended.returncode == 0, ended.stderr
    assert "\n hit " in ended.stdout
    assert {file.name for file in tmp_path.iterdir()} == {
        "a.json",
        *(f"a-{what}.{kind}" for what in ("latency", "cpu", "memory") for kind in ("svg", "png")),
    }
    results = load(tmp_path / "a.json")
    assert results.complete
    assert rates_of(results) == {"hit": {"40/s": 40.0}}


def test_a_run_prints_the_document_that_it_leaves_when_json_is_asked_for(tmp_path: Path) -> None:
    ended = sluice(
        *("run", "hit", "--rate", "40", "--seconds", "0.3", "--repeats", "1", "--out", str(tmp_path), "--name", "a"),
        "--json",
    )
    assert ended.returncode == 0, ended.stderr
    assert msgspec.json.decode(ended.stdout, type=Results) == load(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("folder", "name", "said"),
    [
        ("/dev/null/x", None, "nothing can be written in /dev/null/x (--out): "),
        ("out", "a/b", "--name 'a/b' is no file's name"),
        ("out", "", "--name '' is no file's name"),
    ],
)
def test_a_place_where_nothing_can_be_written_is_refused_before_anything_runs(
    folder: str, name: str | None, said: str, tmp_path: Path
) -> None:
    files = Files(tmp_path / folder, name)
    with pytest.raises(WrongUse, match=re.escape(said)):
        run_scenarios(("hit",), rates=(40,), like=None, seconds=0.3, repeats=1, files=files)


def test_a_node_that_dies_fails_the_run_by_name_and_what_was_measured_is_kept(tmp_path: Path) -> None:
    """Method: the node is killed when the second step has begun, or a later one where this process was held up."""
    with running("hit", "--rate", "40", "--seconds", "1", "--repeats", "100", "--out", str(tmp_path)) as popen:
        assert popen.stderr is not None
        assert [popen.stderr.readline() for _ in range(3)][-1] == STEP
        started = descendants(popen.pid)
        (node,) = (pid for pid in started if b"\0serve\0" in command_of(pid))
        os.kill(node, signal.SIGKILL)
        out, err = popen.communicate(timeout=WAIT_S)
    assert popen.returncode == 1
    assert "ended with -9" in err
    assert "\n hit " in out
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []
    results = load(tmp_path / "a.json")
    assert not results.complete
    assert len(results.points[0].steps) == 1 + err.count(STEP)  # each that had begun, but for the last


def test_a_scenario_of_the_feed_prints_its_marks_and_figures_and_leaves_them(tmp_path: Path) -> None:
    ended = sluice("run", "depth", "--events", "1000", "--out", str(tmp_path), "--name", "a")
    assert ended.returncode == 0, ended.stderr
    assert "a page of 100 of 1000 events, p99" in ended.stdout
    assert "appending 1000 events" in ended.stdout
    results = load(tmp_path / "a.json")
    assert (len(results.marks), len(results.figures)) == (2, 3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_and_a_closed_terminal_end_a_run_with_what_is_known_by_then(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Method: the signal comes when the second step has begun; each would take a second, and there are a hundred.

    It comes amid a later one where this process was held up: how many had begun, the program has told.
    """
    with running("hit", "--rate", "40", "--seconds", "1", "--repeats", "100", "--out", str(tmp_path)) as popen:
        assert popen.stderr is not None
        assert [popen.stderr.readline() for _ in range(3)][-1] == STEP
        started = descendants(popen.pid)
        popen.send_signal(number)
        _, err = popen.communicate(timeout=WAIT_S)
    assert popen.returncode == 1
    assert "stopped before the end" in err
    assert len(started) >= 2  # the node and the sandbox at least
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []
    results = load(tmp_path / "a.json")
    assert not results.complete
    assert len(results.points[0].steps) == 1 + err.count(STEP)  # each that had begun, but for the last


def test_a_long_log_that_is_stopped_in_the_middle_leaves_no_files(tmp_path: Path) -> None:
    """Method: the signal comes once the store's process has begun to write it, in a folder of its own."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = ("depth", "--events", "1000000", "--out", str(tmp_path / "out"))
    with running(*command, environ={"TMPDIR": str(temporary)}) as popen:
        deadline = time.monotonic() + WAIT_S
        while not any(temporary.rglob("sluice.db")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        popen.send_signal(signal.SIGINT)
        out, err = popen.communicate(timeout=WAIT_S)
    assert (popen.returncode, out) == (1, "")
    assert "stopped before the end" in err
    assert list(temporary.iterdir()) == list((tmp_path / "out").iterdir()) == []


@contextmanager
def running(*arguments: str, environ: Mapping[str, str] = MappingProxyType({})) -> Iterator["subprocess.Popen[str]"]:
    """A run under way, whose files are named `a`; it ends with the block, with all that it started."""
    with subprocess.Popen(
        [sys.executable, "-c", SLUICE, "bench", "run", *arguments, "--name", "a"],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
        start_new_session=True,
    ) as popen:
        keeper().keep(popen.pid)
        try:
            yield popen
        finally:
            finish(popen)


def command_of(pid: int) -> bytes:
    """The process's command line; empty once it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def descendants(pid: int) -> list[int]:
    """The processes that one has started; of those that end meanwhile not all."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found + [each for child in found for each in descendants(child)]


def test_comparing_says_what_changed_and_whether_something_is_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    save(noisy_results(1, noise=0.01), before)
    save(noisy_results(2, noise=0.01, factor=2), after)
    assert compare_results(before, after, everything=False)
    assert "16 worse" in capsys.readouterr().out
    assert not compare_results(after, before, everything=False)
    assert not compare_results(before, before, everything=True)
    capsys.readouterr()
    compare_results(before, after, everything=False, as_json=True)
    said = msgspec.json.decode(capsys.readouterr().out, type=Comparison)
    assert said.counts == {"better": 0, "worse": 16, "same": 8, "unknown": 4}
    assert len(said.changes) == 28


def test_results_with_nothing_in_common_cannot_be_compared(tmp_path: Path) -> None:
    save(noisy_results(1, points=0), tmp_path / "a.json")
    with pytest.raises(WrongUse, match="nothing was measured in both"):
        compare_results(tmp_path / "a.json", tmp_path / "a.json", everything=True)


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        (("mised",), {}, "there is no scenario 'mised'; did you mean \"mixed\"? there are miss, "),
        (("hit",), {"polls": [1_000]}, "--polls changes nothing in hit: it is for parked alone"),
        (("hit", "parked"), {"events": 1_000}, "--events changes nothing in hit, parked: it is for depth alone"),
        (("hit",), {"deliveries": 100}, "--deliveries changes nothing in hit"),
        (("depth",), {"rates": [5.0]}, "--rate changes nothing in depth: it is for scenarios with rates"),
        (("depth", "parked"), {"seconds": 1.0}, "--seconds changes nothing in depth, parked"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(
    names: tuple[str, ...], options: dict[str, Any], said: str
) -> None:
    given = {"rates": (), "seconds": None, **options}
    with pytest.raises(WrongUse, match=re.escape(said)):
        run_scenarios(names, like=None, repeats=1, files=Files(), **given)


def test_rates_like_those_of_a_result_need_the_scenario_in_it(tmp_path: Path) -> None:
    save(noisy_results(1), tmp_path / "a.json")
    save(noisy_results(1, points=0), tmp_path / "empty.json")
    for names, file, said in (
        (("hit", "miss"), "a.json", "has no rates of miss"),
        ((), "empty.json", "has no rates of any scenario"),
    ):
        with pytest.raises(WrongUse, match=said):
            run_scenarios(names, rates=(), like=tmp_path / file, seconds=1, repeats=1, files=Files())


def test_the_help_names_every_scenario() -> None:
    words = sluice("run", "--help").stdout.split()
    assert set(NAMES) <= set(words)


@pytest.mark.parametrize("names", [("hello",), ("hit", "nginx"), ("",)])
def test_only_scenarios_of_the_gateway_can_be_run(names: tuple[str, ...]) -> None:
    with pytest.raises(WrongUse, match="there is no scenario"):
        run_scenarios(names, rates=(), like=None, seconds=1, repeats=1, files=Files())


def test_rates_are_given_in_one_way_only(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="exclude each other"):
        run_scenarios((), rates=(5,), like=tmp_path, seconds=1, repeats=1, files=Files())


@pytest.mark.parametrize("name", ["parked", "reads", "depth", "monitors", "deliveries"])
def test_scenarios_of_the_feed_have_nothing_to_sweep(name: str) -> None:
    with pytest.raises(BenchError, match="has no settings"):
        sweep_setting("limits.long_polls=1,2", scenario=name, rates=(), seconds=1, repeats=1, files=Files())
