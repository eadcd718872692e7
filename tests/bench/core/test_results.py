"""Results are saved as one document, and drawn."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bench.core.errors import ResultsUnreadable
from bench.core.results import Mark, Point, Results, load, new_results, save
from bench.report.plots import draw, draw_sweep
from tests.bench.samples import noisy_results

PNG = b"\x89PNG\r\n"


def test_results_round_trip(tmp_path: Path) -> None:
    results = noisy_results(1)
    results.marks.append(Mark("a mark", None, 5, "ms"))
    save(results, tmp_path / "new" / "a.json")
    assert load(tmp_path / "new" / "a.json") == results


def test_file_without_results_or_of_another_format_is_rejected_by_name(tmp_path: Path) -> None:
    other = msgspec.json.encode(msgspec.to_builtins(noisy_results(1)) | {"format": 99})
    unreadable = [(content, "holds no results") for content in (b"", b"[]", b"{", b'{"format": 1}')]
    for content, said in (*unreadable, (other, "format 99")):
        (tmp_path / "a.json").write_bytes(content)
        with pytest.raises(ResultsUnreadable, match=rf"a\.json .*{said}"):
            load(tmp_path / "a.json")


@pytest.mark.parametrize(("value", "met"), [(4.9, True), (5, True), (5.1, False), (None, False), (-1, True)])
def test_mark_is_met_up_to_its_limit_and_never_without_a_figure(value: float | None, met: bool) -> None:
    assert Mark("a mark", value, 5, "ms").met is met


def test_results_are_drawn_as_svg_and_png_with_scenario_names(tmp_path: Path) -> None:
    results = noisy_results(1)
    results.points.append(Point("miss", "50%", "", results.points[0].steps))
    assert draw(new_results(), tmp_path, "r") == []
    files = draw(results, tmp_path, "r")
    assert sorted(file.name for file in files) == sorted(
        f"r-{what}.{kind}" for what in ("latency", "cpu", "memory") for kind in ("svg", "png")
    )
    for file in files:
        written = file.read_bytes()
        assert written.startswith(PNG) if file.suffix == ".png" else b"</svg>" in written
    assert "hit" in (tmp_path / "r-latency.svg").read_text()
    assert "miss" in (tmp_path / "r-cpu.svg").read_text()


def test_sweep_plot_has_a_line_for_each_setting(tmp_path: Path) -> None:
    results = noisy_results(1)
    points = [
        Point("mixed", point.label, f"limits.concurrent_requests={value}", point.steps)
        for value in (10, 50)
        for point in results.points
    ]
    results.points[:] = points
    svg, png = draw_sweep(results, tmp_path, "r")
    assert "limits.concurrent_requests=10" in svg.read_text()
    assert png.read_bytes().startswith(PNG)


@pytest.mark.parametrize("draw_it", [draw, draw_sweep])
def test_plot_has_an_empty_panel_if_nothing_was_served(
    draw_it: Callable[[Results, Path, str], list[Path]], tmp_path: Path
) -> None:
    results = replace(noisy_results(1, points=1), hello_us=[])
    nothing = {"served_per_s": 0.0, "p50_ms": 0.0, "p90_ms": 0.0, "p99_ms": 0.0, "p999_ms": 0.0, "cpu_us": 0.0}
    results.points[0].steps[:] = [replace(step, **nothing) for step in results.points[0].steps]
    files = draw_it(results, tmp_path, "r")
    assert all(file.stat().st_size for file in files)
    assert draw_it is draw_sweep or "no answers" in (tmp_path / "r-cpu.svg").read_text()


def test_older_files_with_fewer_fields_are_read(tmp_path: Path) -> None:
    document = msgspec.to_builtins(noisy_results(1))
    for name in ("build", "cpu_quota", "store_on", "commit"):
        del document["machine"][name]
    for point in document["points"]:
        for step in point["steps"]:
            del step["seconds"]
    (tmp_path / "a.json").write_bytes(msgspec.json.encode(document))
    assert load(tmp_path / "a.json") == noisy_results(1)
