"""The monitors scenario against a real node, with few monitors, and its report."""

import pytest
import trio

from bench.core.errors import ChildFailed
from bench.load.histogram import Histogram
from bench.scenarios.due import DueFigures
from bench.scenarios.feed import measure_monitors
from bench.scenarios.feed_marks import monitors_found


async def test_only_monitors_that_share_the_slot_run() -> None:
    with trio.fail_after(90):
        seen = await measure_monitors(30, stored=600, lead_s=1.0)
    assert (seen.count, seen.stored, Histogram(seen.lags).total) == (30, 600, 30)
    assert min(seen.took_s, seen.cpu_s) > 0


async def test_scenario_fails_if_the_slot_comes_before_its_monitors_exist() -> None:
    with trio.fail_after(90), pytest.raises(ChildFailed, match="came before its monitors were created"):
        await measure_monitors(30, stored=0, lead_s=-5.0)


def test_lateness_of_starts_has_a_mark_and_costs_have_figures() -> None:
    lags = Histogram()
    for nth in range(100):
        lags.record(round((0.25 if nth < 98 else 1.5) * 1e9))
    found = monitors_found(DueFigures(10_000, 100_000, dict(lags.counts), took_s=80.0, cpu_s=40.0))
    (mark,) = found.marks
    assert mark.value == pytest.approx(1.5, rel=0.001)
    assert (mark.limit, mark.unit, mark.met) == (2, "s", True)
    assert [figure.value for figure in found.figures] == pytest.approx([250, 1_500, 80, 125, 4_000], rel=0.001)
    assert len({figure.name for figure in found.figures}) == len(found.figures) == 5
