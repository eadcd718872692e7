"""The flood scenario: a short one against a real node, and its marks."""

from dataclasses import replace

import trio

from bench.core.results import new_results
from bench.report.plots import draw
from bench.scenarios.flood import AFTER, FLOOD, LEAST_SERVED, QUIET, Flooded, flood_found, measure_flood
from bench.suite import NAMES
from tests.bench.samples import STEP


async def test_flood_measures_a_quiet_key_and_the_time_after_the_flood() -> None:
    assert "flood" in NAMES
    with trio.fail_after(120):
        found = await measure_flood(0.3, times=(0.2,), capacity_s=0.1, after_s=0.2)
    assert [(point.scenario, point.label) for point in found.points] == [(FLOOD, "20%"), (QUIET, "20%"), (AFTER, "20%")]
    for point in found.points:
        (step,) = point.steps
        assert step.unexpected == {}
        assert step.served_per_s > 0
    assert found.marks == [], "without an overload, no mark applies"
    before, after, offered = (figure.value or 0.0 for figure in found.figures[:3])
    assert min(before, after) > 1
    assert offered > 1


def test_flood_marks_cover_served_requests_and_waits(tmp_path) -> None:
    flood = replace(
        STEP, rate=2_500.0, served_per_s=700.0, refused_per_s=1_800.0, p99_ms=100.0, refused_p99_ms=50.0, seconds=3.0
    )
    quiet = replace(STEP, requests=60, refused_per_s=0.0, p99_ms=80.0, seconds=3.0)
    after = replace(STEP, requests=300, refused_per_s=1.0, seconds=3.0)
    steady = (1_050.0, 950.0)
    found = flood_found([Flooded(times, flood, quiet, after, steady) for times in (1.0, 2.5)])
    met = {mark.name.partition(", ")[2]: mark.met for mark in found.marks}
    assert met == {
        "unserved share of capacity": True,
        "p99 of served requests": True,
        "p99 of refusals": True,
        "requests of the quiet key not served": True,
        "p99 of the quiet key": True,
        "not served one second later": False,
        "p99 one second later": True,
    }
    assert 2.5 in LEAST_SERVED
    slow = flood_found([Flooded(2.5, replace(flood, served_per_s=500.0, p99_ms=0.0), quiet, after, steady)])
    assert [mark.met for mark in slow.marks][:2] == [False, False]
    results = new_results()
    results.points.extend(found.points)
    assert "picture-flood.svg" in {file.name for file in draw(results, tmp_path, "picture")}


def test_flood_on_a_machine_of_unstable_pace_has_no_verdict() -> None:
    flood = replace(STEP, rate=2_500.0, served_per_s=700.0, seconds=3.0)
    for capacities in ((1_300.0, 700.0), (700.0, 700.0), (1_300.0, 1_300.0)):
        seen = Flooded(2.5, flood, STEP, STEP, capacities)
        assert not seen.is_comparable
        found = flood_found([seen])
        assert found.marks
        assert {mark.value for mark in found.marks} == {None}
        assert any("not comparable" in figure.name for figure in found.figures)
    assert Flooded(2.5, flood, STEP, STEP, (1_090.0, 910.0)).is_comparable
