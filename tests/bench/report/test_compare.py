"""Comparing separates changes from noise. Repeats are simulated, from fixed seeds."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.core.results import Figure, Mark, Results
from bench.report.comparability import comparability_notes
from bench.report.compare import compare, compare_single, difference
from tests.bench.samples import COST, noisy_results

RUNS = 50


def verdicts(before: Results, after: Results, *figures: str) -> Counter[str]:
    return Counter(each.verdict for each in compare(before, after) if not figures or each.figure in figures)


@pytest.mark.parametrize(("noise", "repeats"), [(0.005, 5), (0.05, 3), (0.3, 2)])
def test_noise_is_not_a_change(noise: float, repeats: int) -> None:
    """Method: 50 pairs of runs of the same server; almost none of their 1,200 figures may count as changed."""
    seen = sum(
        (
            verdicts(
                noisy_results(seed, noise=noise, repeats=repeats),
                noisy_results(seed + 10_000, noise=noise, repeats=repeats),
            )
            for seed in range(RUNS)
        ),
        Counter(),
    )
    assert seen.total() == RUNS * 4 * 6
    assert seen["better"] + seen["worse"] <= 0.003 * seen.total()


@pytest.mark.parametrize(("factor", "verdict"), [(1.4, "worse"), (1 / 1.4, "better")])
def test_change_above_the_noise_is_reported(factor: float, verdict: str) -> None:
    seen = sum(
        (
            verdicts(noisy_results(seed), noisy_results(seed + 10_000, factor=factor), "us/req", "p50 ms")
            for seed in range(RUNS)
        ),
        Counter(),
    )
    assert seen[verdict] >= 0.95 * seen.total()
    assert seen[verdict] + seen["unknown"] == seen.total()


def test_certain_change_is_reported_from_two_percent_on() -> None:
    seen = verdicts(noisy_results(1, noise=0.004), noisy_results(2, noise=0.004, factor=1.05), "us/req", "p50 ms")
    assert seen == {"worse": 8}
    assert verdicts(noisy_results(1, noise=1e-6), noisy_results(2, noise=1e-6, factor=1.01), "us/req") == {"same": 4}


def test_higher_served_rate_is_better() -> None:
    before, after = noisy_results(1, noise=0.01), noisy_results(2, noise=0.01)
    for point in after.points:
        point.steps[:] = [replace(step, served_per_s=step.served_per_s * 1.5) for step in point.steps]
    assert verdicts(before, after, "served %") == {"better": 4}


def test_lower_offered_rate_is_noted_and_not_worse() -> None:
    """Method: the capacity that the closed loop found has halved, so half is offered, and all of it is served."""
    before, after = noisy_results(1, noise=0.001), noisy_results(2, noise=0.001)
    for point in after.points:
        point.steps[:] = [replace(step, rate=step.rate / 2, served_per_s=step.rate / 2) for step in point.steps]
    assert verdicts(before, after, "served %") == {"same": 4}
    assert {(each.figure, each.change, each.verdict) for each in compare_single(before, after)} == {
        ("offered/s", -0.5, "unknown")
    }


def test_one_additional_request_among_few_is_not_a_change() -> None:
    before, after = noisy_results(1, points=1), noisy_results(2, points=1)
    for results, served in ((before, 40.0), (after, 41.0)):
        results.points[0].steps[:] = [
            replace(step, rate=40.0, requests=40, served_per_s=served) for step in results.points[0].steps
        ]
    assert verdicts(before, after, "served %") == {"unknown": 1}, "one of 40 requests is more than 2 %"


def test_results_without_repeats_get_no_verdict() -> None:
    seen = verdicts(noisy_results(1, repeats=1), noisy_results(2, repeats=1, factor=3))
    assert seen == {"unknown": seen.total()}


def test_result_compared_with_itself_is_the_same_or_unknown() -> None:
    assert set(verdicts(noisy_results(1, noise=0.005), noisy_results(1, noise=0.005))) == {"same"}
    assert set(verdicts(noisy_results(1, noise=0.3), noisy_results(1, noise=0.3))) == {"unknown"}


def test_only_common_points_and_figures_are_compared() -> None:
    before, after = noisy_results(1, points=4), noisy_results(2, points=2)
    after.points[0].steps[:] = [replace(step, cpu_us=0.0) for step in after.points[0].steps]
    changes = compare(before, after)
    assert {change.label for change in changes} == {"00%", "10%"}
    assert [change.label for change in changes if change.figure == "us/req"] == ["10%"], "a figure of 0 is left out"


@pytest.mark.parametrize(("repeats", "verdict"), [(5, "worse"), (1, "unknown")])
def test_server_that_serves_nothing_is_worse_and_not_missing(repeats: int, verdict: str) -> None:
    before, after = (noisy_results(seed, points=1, repeats=repeats, noise=0.01) for seed in (1, 2))
    after.points[0].steps[:] = [replace(step, served_per_s=0.0) for step in after.points[0].steps]
    (change,) = (each for each in compare(before, after) if each.figure == "served %")
    assert (change.verdict, change.change) == (verdict, pytest.approx(-0.99, abs=0.001))
    (back,) = (each for each in compare(after, before) if each.figure == "served %")
    assert back.verdict == {"worse": "better"}.get(verdict, verdict)


def test_single_measurements_have_no_verdict() -> None:
    before, after = noisy_results(1, points=0), noisy_results(2, points=0)
    for results, factor in ((before, 1.0), (after, 1.5)):
        results.costs.append(replace(COST, cpu_us=200.0 * factor))
        results.costs.append(replace(COST, scenario="hit", unexpected={"500": 1}))
        results.marks.extend((Mark("waking", 2.0 * factor, 5, "s"), Mark("absent", None, 5, "s")))
        results.figures.append(Figure("runs", 100.0 * factor, "runs/s"))
    seen = compare_single(before, after)
    assert {each.verdict for each in seen} == {"unknown"}
    assert [(each.scenario, each.label, each.figure, round(each.change, 3)) for each in seen] == [
        ("miss", "at 64", "us/req", 0.5),
        ("miss", "at 64", "req/s", 0.0),
        ("mark", "s", "waking", 0.5),
        ("figure", "runs/s", "runs", 0.5),
    ]


values = st.lists(st.floats(min_value=0.1, max_value=1000), min_size=2, max_size=8)


@given(values, values, st.floats(min_value=0.01, max_value=100))
def test_unit_of_a_figure_does_not_affect_the_comparison(before: list[float], after: list[float], unit: float) -> None:
    change, noise = difference(before, after)
    scaled, scaled_noise = difference([each * unit for each in before], [each * unit for each in after])
    assert scaled == pytest.approx(change, rel=1e-6, abs=1e-9)
    assert scaled_noise == pytest.approx(noise, rel=1e-4)


@given(values, values)
def test_change_and_its_inverse_cancel(before: list[float], after: list[float]) -> None:
    there, _ = difference(before, after)
    back, _ = difference(after, before)
    assert (1 + there) * (1 + back) == pytest.approx(1)


def test_notes_name_every_reason_for_doubt() -> None:
    before, after = noisy_results(1), noisy_results(2)
    machine = replace(
        after.machine, cpus=8, python="CPython 3.12", libraries={"trio": "0.36.0", "sqlite": "3.45"}, load_average=9.0
    )
    other = replace(after, machine=machine, complete=False, hello_us=[each * 2 for each in after.hello_us])
    other.points[0].steps[:] = [replace(step, rate=2_000.0) for step in other.points[0].steps]
    other.points[1].steps[:] = [replace(step, unexpected={"500": 1}, unanswered=2) for step in other.points[1].steps]
    assert comparability_notes(before, other) == [
        "the results are of different machines (cpus)",
        "python: CPython 3.11 before, CPython 3.12 after",
        "trio 0.35.0 before, 0.36.0 after",
        "B was stopped before its end",
        "other work was running before B: a load average of 9.0",
        "not every response was as expected in B: hit",
        "some requests got no response in B: hit",
        "the bare server changed by +100.0% too: the machine explains part of the difference",
        "the offered rates differ in hit: run B with --like A.json to compare latencies",
    ]


def test_different_step_lengths_are_noted_if_both_files_have_them() -> None:
    before, after = noisy_results(1), noisy_results(2)
    for results, seconds in ((before, 3.0), (after, 1.0)):
        for point in results.points:
            point.steps[:] = [replace(step, seconds=seconds) for step in point.steps]
    assert comparability_notes(before, after) == [
        "the steps have different lengths in hit: run B with the --seconds of A"
    ]
    assert comparability_notes(before, noisy_results(2)) == []
    once, later = (replace(noisy_results(seed), hello_us=[us]) for seed, us in ((1, 10.0), (2, 10.1)))
    assert comparability_notes(once, later) == [], "a pace that was measured once is compared coarsely"
