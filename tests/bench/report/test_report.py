"""The tables show every figure, and say which do not count."""

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


def test_cost_is_cpu_time_over_requests() -> None:
    cost = cost_of("miss", 64, measured())
    assert (cost.cpu_us, cost.per_second, cost.client_us) == pytest.approx((200, 2_000, 5))


def test_a_run_without_an_answer_has_figures_too() -> None:
    cost = cost_of("miss", 64, measured(requests=0))
    assert (cost.cpu_us, cost.per_second, cost.client_us) == (0, 0, 0)


def test_ratios_are_to_the_peers_of_the_run_and_a_dash_without_a_valid_one() -> None:
    hello = replace(COST, scenario="hello", cpu_us=20.0)
    plain = replace(COST, scenario="plain", cpu_us=2_000.0, unexpected={"closed": 1})
    row = row_of(cost_table([hello, plain, COST]), "miss")
    assert row[:7] == ["miss", "10000", "2000", "200", "10", "-", "-"]


def test_a_cost_that_does_not_count_says_why_and_has_no_mark() -> None:
    cost = replace(COST, unexpected={"429": 3, "closed": 1})
    assert row_of(cost_table([cost]), "miss")[-1] == "invalid: 3 x 429, 1 x closed"
    assert [mark.value for mark in cost_marks([cost])] == [None]


def test_scenarios_with_a_mark_are_held_to_it() -> None:
    costs = [replace(COST, cpu_us=130.0), replace(COST, scenario="hit", cpu_us=46.0), replace(COST, scenario="plain")]
    assert [(mark.name, mark.met) for mark in cost_marks(costs)] == [("miss, CPU", True), ("hit, CPU", False)]


def test_a_node_with_both_servers_is_held_to_its_ratio_over_one_without_in_the_same_run() -> None:
    miss, shared = replace(COST, cpu_us=200.0), replace(COST, scenario="shared", cpu_us=330.0)
    mark = cost_marks([miss, shared])[-1]
    assert (mark.value, mark.met) == (1.65, False)
    assert cost_marks([miss, replace(shared, unexpected={"503": 1})])[-1].value is None
    assert len(cost_marks([shared])) == 0


def test_what_wrk_says_stands_beside() -> None:
    row = row_of(cost_table([replace(COST, wrk_per_second=2_100.0, wrk_cpu_us=190.4)]), "miss")
    assert row[-2:] == ["2100", "190"]


def test_marks_say_whether_they_are_met() -> None:
    table = marks_table([Mark("fast", 4.2, 5, "ms"), Mark("small", 6, 5, "MB"), Mark("absent", None, 5, "s")])
    assert row_of(table, "fast") == ["fast", "4.2", "5", "ms", "met"]
    assert (row_of(table, "small")[-1], row_of(table, "absent")[-1]) == ("not met", "not judged")


def test_a_point_shows_the_medians_of_its_repeats_and_the_range_of_p99() -> None:
    steps = [replace(STEP, p50_ms=1.0 * n, p99_ms=10.0 * n) for n in (1, 2, 9)]
    row = row_of(points_table([Point("hit", "50%", "", steps)]), "hit")
    assert row[:4] == ["hit", "50%", "1000", "1000"]
    assert row[7:11] == ["2", "2", "20", "10 to 90"]


def test_a_point_that_was_not_measured_is_left_out() -> None:
    assert points_table([Point("hit", "50%")]).row_count == 0


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
        ({"requests": 0}, "no request in so short a time"),
        ({}, ""),
    ],
)
def test_a_point_says_what_to_know_of_it(changed: dict[str, object], said: str) -> None:
    assert remark(Point("hit", "50%", "", [replace(STEP, **changed)])) == said


def test_changes_are_shown_and_what_did_not_change_only_when_asked_for() -> None:
    changes = compare(noisy_results(1, noise=0.01), noisy_results(2, noise=0.01, factor=2))
    few, all_ = (changes_table(changes, everything=everything) for everything in (False, True))
    assert few.row_count == len([change for change in changes if change.verdict != "same"]) >= 4 * 4
    assert all_.row_count == len(changes) == 4 * 6
    assert "worse" in text_of(few)
    assert "same" not in text_of(few)


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0, "0"), (0.01234, "0.0123"), (12.34, "12.3"), (999.6, "1000"), (-3.25, "-3.25")]
)
def test_a_figure_has_three_digits_that_count(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_a_table_without_rows_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show(marks_table([]), marks_table([Mark("fast", 4.2, 5, "ms")]))
    assert capsys.readouterr().out.count("Marks") == 1


def test_a_narrow_terminal_gets_the_columns_that_matter_most() -> None:
    points = [Point("unauthorized", "100%", "", [replace(STEP, machine_share=1.0)])]
    console = Console(width=80, no_color=True)
    for table in (points_table(points, wide=False), cost_table([COST], wide=False)):
        with console.capture() as capture:
            console.print(table)
        assert "…" not in capture.get()
        assert all(column in capture.get() for column in ("us/req", "p50 ms", "p99 ms"))


def test_what_a_narrow_table_has_no_room_for_stands_below(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: COLUMNS and FORCE_COLOR make the output a terminal of that width."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    results = noisy_results(1, points=1)
    results.points[0].steps[:] = [replace(STEP, unanswered=3)]
    results.costs.append(replace(COST, unexpected={"429": 3}))
    show_results(results, as_json=False)
    out = capsys.readouterr().out
    assert "\nhit 00%: 3 unanswered\n" in out
    assert "\nmiss: invalid: 3 x 429\n" in out
    assert "\nwrk is not installed" in out
    assert "\non a CPU, 2 CPUs, 8 GB; " in out
    assert "generat\n" not in out


def test_rates_below_one_a_second_are_no_zero() -> None:
    row = row_of(points_table([Point("hit", "0.5/s", "", [replace(STEP, rate=0.5, served_per_s=0.25)])]), "hit")
    assert row[1:4] == ["0.5/s", "0.5", "0.25"]


def test_where_nothing_was_served_there_is_no_latency() -> None:
    nothing = {"p50_ms": 0.0, "p90_ms": 0.0, "p99_ms": 0.0, "p999_ms": 0.0, "max_ms": 0.0, "cpu_us": 0.0}
    row = row_of(points_table([Point("hit", "50%", "", [replace(STEP, **nothing)])]), "hit")
    assert row[5:12] == ["-", "10", "-", "-", "-", "-", "-"]


@pytest.mark.parametrize("wide", [True, False])
def test_a_setting_has_a_column_and_is_no_markup(wide: bool) -> None:
    point = Point("hit", "50%", 'webhooks.x=["a"][b]', [STEP])
    assert row_of(points_table([point], wide=wide), "hit")[1] == 'webhooks.x=["a"][b]'


def test_no_word_of_a_setting_is_broken_on_a_narrow_terminal() -> None:
    point = Point("discover-walks", "100%", "upstreams.max_connections=100 limits.long_polls=5", [STEP])
    console = Console(width=80, no_color=True)
    with console.capture() as capture:
        console.print(points_table([point], wide=False))
    assert {"upstreams.max_connections=100", "limits.long_polls=5"} <= set(capture.get().split())


def test_noise_is_told_in_both_directions() -> None:
    change = Change("hit", "50%", "p99 ms", 1.0, 2.0, change=1.0, noise=0.25, verdict="worse")
    assert "-20.0% +25.0%" in text_of(changes_table([change], everything=False))
