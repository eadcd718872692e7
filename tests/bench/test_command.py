"""Errors of `sluice bench` before anything runs, and comparisons of results."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.command import compare_results, run_scenarios, sweep_setting
from bench.core.errors import BenchError, WrongUse
from bench.core.results import save
from bench.report.compare import Comparison
from bench.report.terminal import Files
from bench.scenarios import feed
from tests.bench.samples import noisy_results


@pytest.mark.parametrize(
    ("folder", "name", "said"),
    [
        ("/dev/null/x", None, "cannot write to /dev/null/x (--out): "),
        ("out", "a/b", "--name 'a/b' is not a file name"),
        ("out", "", "--name '' is not a file name"),
    ],
)
def test_unwritable_folder_is_rejected_before_anything_runs(
    folder: str, name: str | None, said: str, tmp_path: Path
) -> None:
    files = Files(tmp_path / folder, name)
    with pytest.raises(WrongUse, match=re.escape(said)):
        run_scenarios(("hit",), rates=(40,), like=None, seconds=0.3, repeats=1, files=files)


def test_compare_reports_changes_and_whether_any_is_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert said.counts == {"better": 0, "worse": 16, "same": 7, "unknown": 5}
    assert len(said.changes) == 28


def test_results_with_nothing_in_common_cannot_be_compared(tmp_path: Path) -> None:
    save(noisy_results(1, points=0), tmp_path / "a.json")
    with pytest.raises(WrongUse, match="nothing in common"):
        compare_results(tmp_path / "a.json", tmp_path / "a.json", everything=True)


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        (("mised",), {}, "unknown scenario 'mised'; did you mean \"mixed\"? known: miss, "),
        (("hello",), {}, "unknown scenario 'hello'"),
        (("hit", "nginx"), {}, "unknown scenario 'nginx'"),
        (("",), {}, "unknown scenario ''"),
        ((), {"rates": (5,), "like": Path()}, "cannot be combined"),
        (("hit",), {"polls": [1_000]}, "--polls has no effect in hit: the option is for parked only"),
        (("hit", "parked"), {"events": 1_000}, "--events has no effect in hit, parked: the option is for depth only"),
        (("hit",), {"deliveries": 100}, "--deliveries has no effect in hit"),
        (("depth",), {"rates": [5.0]}, "--rate has no effect in depth: the option is for scenarios with rates only"),
        (("depth", "parked"), {"seconds": 1.0}, "--seconds has no effect in depth, parked"),
    ],
)
def test_wrong_use_is_rejected(names: tuple[str, ...], options: dict[str, Any], said: str) -> None:
    given = {"rates": (), "seconds": None, "like": None, **options}
    with pytest.raises(WrongUse, match=re.escape(said)):
        run_scenarios(names, repeats=1, files=Files(), **given)


def test_like_requires_a_file_with_rates_of_the_scenario(tmp_path: Path) -> None:
    save(noisy_results(1), tmp_path / "a.json")
    save(noisy_results(1, points=0), tmp_path / "empty.json")
    for names, file, said in (
        (("hit", "miss"), "a.json", "has no rates for miss"),
        ((), "empty.json", "has no rates for any scenario"),
    ):
        with pytest.raises(WrongUse, match=said):
            run_scenarios(names, rates=(), like=tmp_path / file, seconds=1, repeats=1, files=Files())


def test_feed_scenarios_have_no_settings_to_sweep() -> None:
    for name in feed.SCENARIOS:
        with pytest.raises(BenchError, match="has no settings"):
            sweep_setting("limits.long_polls=1,2", scenario=name, rates=(), seconds=1, repeats=1, files=Files())
