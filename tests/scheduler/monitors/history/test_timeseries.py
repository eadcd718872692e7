"""Spec 4.5, decisions 12: the points and series of stored runs, and their limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from events.instants import iso
from scheduler.monitors.history.past_runs import RunNumbers
from scheduler.monitors.history.timeseries import Chosen, Timeseries
from tests.scheduler.monitors.past import FIRST, HISTORIES, HOUR_S, LIKES, VIEWS, past

PLAIN = past({"_": {"total": 1, "author.followers": 10}}, {"_": {"total": 2}}, {"_": {}})
ROWS = past({"_": {"total": 2}, "p1": {VIEWS: 1, LIKES: 5}}, {"p1": {VIEWS: 2}, "p2": {VIEWS: 7}})
EVERYTHING = Chosen()
T0, T1 = iso(FIRST), iso(FIRST + HOUR_S)


def projected(
    runs: list[RunNumbers], chosen: Chosen = EVERYTHING, *, by_row: bool = True, points_max: int = 100
) -> dict[str, object]:
    series = Timeseries(chosen, points_max)
    series.add(reversed(runs))
    return series.data("mon_1", by_row=by_row)


def test_ordinary_monitor_has_points_oldest_first_without_series() -> None:
    assert projected(PLAIN, by_row=False) == {
        "monitor_id": "mon_1",
        "metric_keys": ["total", "author.followers"],
        "points": [{"t": T0, "metrics": {"total": 1, "author.followers": 10}}, {"t": T1, "metrics": {"total": 2}}],
    }


def test_numbers_only_monitor_has_a_series_per_row_and_metric() -> None:
    assert projected(ROWS) == {
        "monitor_id": "mon_1",
        "metric_keys": ["total", VIEWS, LIKES],
        "points": [{"t": T0, "metrics": {"total": 2}}],
        "series": [
            {"row_id": "_", "metric": "total", "points": [{"t": T0, "value": 2}]},
            {"row_id": "p1", "metric": VIEWS, "points": [{"t": T0, "value": 1}, {"t": T1, "value": 2}]},
            {"row_id": "p1", "metric": LIKES, "points": [{"t": T0, "value": 5}]},
            {"row_id": "p2", "metric": VIEWS, "points": [{"t": T1, "value": 7}]},
        ],
    }


def test_metrics_and_a_row_narrow_both_points_and_series() -> None:
    assert projected(ROWS, Chosen({VIEWS}, "p1")) == {
        "monitor_id": "mon_1",
        "metric_keys": [VIEWS],
        "points": [{"t": T0, "metrics": {VIEWS: 1}}, {"t": T1, "metrics": {VIEWS: 2}}],
        "series": [{"row_id": "p1", "metric": VIEWS, "points": [{"t": T0, "value": 1}, {"t": T1, "value": 2}]}],
    }
    assert projected(ROWS, Chosen(row="nobody"))["series"] == []
    assert projected(ROWS, Chosen({"other"}))["metric_keys"] == []


def test_oldest_runs_beyond_points_max_are_left_out() -> None:
    told = projected(ROWS, points_max=4)
    assert told["series_truncated"] is True
    assert told["points"] == []
    assert told["series"] == [
        {"row_id": "p1", "metric": VIEWS, "points": [{"t": T1, "value": 2}]},
        {"row_id": "p2", "metric": VIEWS, "points": [{"t": T1, "value": 7}]},
    ]
    assert "series_truncated" not in projected(ROWS, points_max=5)


def test_runs_beyond_points_max_are_not_read() -> None:
    def newest_first() -> object:
        yield ROWS[1]
        yield ROWS[0]
        raise AssertionError("older runs are not needed")

    series = Timeseries(Chosen(), points_max=4)
    series.add(newest_first())  # type: ignore[arg-type]
    assert series.is_full
    assert series.data("mon_1", by_row=True)["series_truncated"] is True


@given(HISTORIES, st.integers(1, 40))
def test_at_most_points_max_points_are_returned_newest_kept(runs: list[RunNumbers], points_max: int) -> None:
    told = projected(runs, points_max=points_max)
    sizes = [sum(map(len, run.numbers.values())) for run in runs]
    series: list[dict[str, list[object]]] = told["series"]  # type: ignore[assignment]
    size = sum(len(one["points"]) for one in series)
    assert size <= points_max
    is_whole = "series_truncated" not in told
    assert size in [sum(sizes[start:]) for start in range(len(sizes) + 1)]
    assert is_whole == (sum(sizes) <= points_max)
    assert not is_whole or size == sum(sizes)
