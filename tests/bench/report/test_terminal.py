"""A run in a terminal: its tables and files, however it ends."""

import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import trio

from bench.core.errors import ChildFailed
from bench.core.results import Figure, Mark, Point, Results, load
from bench.report.terminal import Announce, Files, Measure, measure_and_show
from tests.bench.samples import STEP

MARK = Mark("a mark", 4.0, 5.0, "ms")


def measure(then: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint) -> Measure:
    """Return a measurement that finds a mark, and then runs an action."""

    async def find(results: Results, announce: Announce) -> None:
        announce("a step")
        results.marks.append(MARK)
        await then()
        announce("another one")
        results.figures.append(Figure("a figure", 1.0, "s"))

    return find


async def fail() -> None:
    await trio.lowlevel.checkpoint()
    raise ChildFailed("sluice serve ended with -9")


async def be_stopped() -> None:
    signal.raise_signal(signal.SIGINT)
    await trio.sleep_forever()


def test_finished_run_is_shown_and_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure_and_show(measure(), works=2, files=Files(tmp_path, "a"))
    said, told = capsys.readouterr()
    assert "a mark" in said
    assert "a figure" in said
    assert told == f"a step\nanother one\nwritten: {tmp_path / 'a.json'}\n"
    results = load(tmp_path / "a.json")
    assert results.complete
    assert (results.marks, results.figures) == ([MARK], [Figure("a figure", 1.0, "s")])


def test_json_output_equals_the_saved_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure_and_show(measure(), works=2, files=Files(tmp_path, "a", as_json=True))
    assert msgspec.json.decode(capsys.readouterr().out, type=Results) == load(tmp_path / "a.json")


def test_results_of_an_interrupted_run_are_shown_and_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ChildFailed, match="ended with -9"):
        measure_and_show(measure(fail), works=2, files=Files(tmp_path, "dead"))
    assert "a mark" in capsys.readouterr().out
    assert not measure_and_show(measure(be_stopped), works=2, files=Files(tmp_path, "stopped"))
    said, told = capsys.readouterr()
    assert "a mark" in said
    assert told.endswith("stopped before the end\n")
    for name in ("dead", "stopped"):
        results = load(tmp_path / f"{name}.json")
        assert (results.complete, results.marks, results.figures) == (False, [MARK], [])


def test_run_stopped_without_results_leaves_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def find(_results: Results, _announce: Announce) -> None:
        await be_stopped()

    assert not measure_and_show(find, works=1, files=Files(tmp_path / "out", "a"))
    assert capsys.readouterr() == ("", "stopped before the end\n")
    assert list((tmp_path / "out").iterdir()) == []


def test_run_with_unexpected_responses_is_not_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def find(results: Results, _announce: Announce) -> None:
        await trio.lowlevel.checkpoint()
        results.points.append(Point("hit", "40/s", "", [replace(STEP, unexpected={"500": 1})]))

    assert not measure_and_show(find, works=1, files=Files(tmp_path, "a"))
    assert "invalid: 1 x 500" in capsys.readouterr().out
