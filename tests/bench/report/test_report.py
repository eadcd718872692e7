"""The tables show every figure, and mark invalid ones."""

import re
from dataclasses import replace

import pytest
from rich.console import Console
from rich.table import Table

from bench.core.results import Mark, Point
from bench.cost import cost_marks, cost_of
from bench.load.closed_load import Measured
from bench.report.compare import Change, compare
from bench.report.report import changes_table, cost_table, marks_table, number, points_table, remark, show, show_results
from tests.bench.samples import COST, STEP, noisy_results


def text_of(table: Table) -> str:
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def row_of(table: Table, first: str) -> list[str]:
    lines = [line.strip() for line in text_of(table).splitlines()]
    return next(re.split(r" {2,}", line) for line in lines if line.startswith(f"{first} "))


def measured(*, requests: int = 10_000, cpu_s: float = 2.0, **unexpected: int) -> Measured:
    return Measured(
        requests=requests,
        seconds=5.0,
        p50_ms=1.25,
        p99_ms=7.5,
        server_cpu_s=cpu_s,
        server_rss_bytes=50_000_000,
        client_cpu_s=0.05,
        unexpected=unexpected,
    )


def test_cost_is_cpu_time_per_request() -> None:
    for requests, figures in ((10_000, (200, 2_000, 5)), (0, (0, 0, 0))):
        cost = cost_of("miss", 64, measured(requests=requests))
        assert (cost.cpu_us, cost.per_second, cost.client_us) == pytest.approx(figures)


def test_ratios_use_the_peers_of_the_run_or_show_a_dash() -> None:
    hello = replace(COST, scenario="hello", cpu_us=20.0)
    plain = replace(COST, scenario="plain", cpu_us=2_000.0, unexpected={"closed": 1})
    row = row_of(cost_table([hello, plain, COST]), "miss")
    assert row[:7] == ["miss", "10000", "2000", "200", "10", "-", "-"]


def test_invalid_cost_shows_the_reason_and_has_no_mark() -> None:
    cost = replace(COST, unexpected={"429": 3, "closed": 1})
    assert row_of(cost_table([cost]), "miss")[-1] == "invalid: 3 x 429, 1 x closed"
    assert [mark.value for mark in cost_marks([cost])] == [None]


def test_scenarios_with_a_mark_are_compared_with_it() -> None:
    costs = [replace(COST, cpu_us=130.0), replace(COST, scenario="hit", cpu_us=46.0), replace(COST, scenario="plain")]
    assert [(mark.name, mark.met) for mark in cost_marks(costs)] == [("miss, CPU", True), ("hit, CPU", False)]


def test_shared_node_is_compared_with_a_single_node_of_the_same_run() -> None:
    miss, shared = replace(COST, cpu_us=200.0), replace(COST, scenario="shared", cpu_us=330.0)
    mark = cost_marks([miss, shared])[-1]
    assert (mark.value, mark.met) == (1.65, False)
    assert cost_marks([miss, replace(shared, unexpected={"503": 1})])[-1].value is None
    assert len(cost_marks([shared])) == 0


def test_marks_table_shows_which_marks_are_met() -> None:
    table = marks_table([Mark("fast", 4.2, 5, "ms"), Mark("small", 6, 5, "MB"), Mark("absent", None, 5, "s")])
    assert row_of(table, "fast") == ["fast", "4.2", "5", "ms", "met"]
    assert (row_of(table, "small")[-1], row_of(table, "absent")[-1]) == ("not met", "not judged")


def test_point_shows_medians_and_the_range_of_p99() -> None:
    steps = [replace(STEP, p50_ms=1.0 * n, p99_ms=10.0 * n) for n in (1, 2, 9)]
    row = row_of(points_table([Point("hit", "50%", "", steps)]), "hit")
    assert row[:4] == ["hit", "50%", "1000", "1000"]
    assert row[7:11] == ["2", "2", "20", "10 to 90"]
    assert points_table([Point("hit", "50%")]).row_count == 0, "an unmeasured point is left out"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"unexpected": {"500": 2}}, "invalid: 2 x 500"),
        ({"unanswered": 3}, "3 unanswered"),
        ({"machine_share": 1.0}, "machine full"),
        ({"machine_share": 1.0, "cpu_share": 0.99}, ""),
        ({"lag_p99_ms": 1.5}, "generator late 1.5 ms"),
        ({"requests": 999}, "p99.9 of 999"),
        ({"requests": 99}, "p99 of 99"),
        ({"requests": 0}, "no request in such a short time"),
        ({}, ""),
    ],
)
def test_point_shows_its_remark(changed: dict[str, object], said: str) -> None:
    assert remark(Point("hit", "50%", "", [replace(STEP, **changed)])) == said


def test_unchanged_figures_are_shown_only_on_request() -> None:
    changes = compare(noisy_results(1, noise=0.01), noisy_results(2, noise=0.01, factor=2))
    few, all_ = (changes_table(changes, everything=everything) for everything in (False, True))
    assert few.row_count == len([change for change in changes if change.verdict != "same"]) >= 4 * 4
    assert all_.row_count == len(changes) == 4 * 6
    assert "worse" in text_of(few)
    assert "same" not in text_of(few)


def test_figure_has_three_significant_digits() -> None:
    shown = [number(value) for value in (None, 0, 0.01234, 12.34, 999.6, -3.25)]
    assert shown == ["-", "0", "0.0123", "12.3", "1000", "-3.25"]


def test_table_without_rows_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show(marks_table([]), marks_table([Mark("fast", 4.2, 5, "ms")]))
    assert capsys.readouterr().out.count("Marks") == 1


def test_remarks_of_a_narrow_table_are_below_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: COLUMNS and FORCE_COLOR make the output a terminal of this width."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    results = noisy_results(1, points=1)
    results.points[0].steps[:] = [replace(STEP, unanswered=3)]
    results.costs.append(replace(COST, unexpected={"429": 3}))
    show_results(results, as_json=False)
    out = capsys.readouterr().out
    assert "\nhit 00%: 3 unanswered\n" in out
    assert "\nmiss: invalid: 3 x 429\n" in out
    assert "\nnginx is not installed" in out
    assert "\non a CPU, 2 CPUs, 8 GB; " in out
    assert "generat\n" not in out


def test_rates_below_one_per_second_are_not_zero() -> None:
    row = row_of(points_table([Point("hit", "0.5/s", "", [replace(STEP, rate=0.5, served_per_s=0.25)])]), "hit")
    assert row[1:4] == ["0.5/s", "0.5", "0.25"]


def test_run_that_served_nothing_shows_no_latency() -> None:
    nothing = {"p50_ms": 0.0, "p90_ms": 0.0, "p99_ms": 0.0, "p999_ms": 0.0, "max_ms": 0.0, "cpu_us": 0.0}
    row = row_of(points_table([Point("hit", "50%", "", [replace(STEP, **nothing)])]), "hit")
    assert row[5:12] == ["-", "10", "-", "-", "-", "-", "-"]


def test_narrow_terminal_keeps_the_main_columns_and_the_words_of_a_setting() -> None:
    """A setting is not parsed as markup."""
    setting = 'upstreams.max_connections=100 webhooks.x=["a"][b]'
    point = Point("discover-walks", "100%", setting, [replace(STEP, machine_share=1.0)])
    console = Console(width=80, no_color=True)
    for table in (points_table([replace(point, setting="")], wide=False), cost_table([COST], wide=False)):
        with console.capture() as capture:
            console.print(table)
        shown = capture.get()
        assert "…" not in shown
        assert all(column in shown for column in ("us/req", "p50 ms", "p99 ms"))
    with console.capture() as capture:
        console.print(points_table([point], wide=False))
    assert set(setting.split()) <= set(capture.get().split())


def test_noise_has_its_bounds_in_both_directions() -> None:
    change = Change("hit", "50%", "p99 ms", 1.0, 2.0, change=1.0, noise=0.25, verdict="worse")
    assert "-20.0% +25.0%" in text_of(changes_table([change], everything=False))
