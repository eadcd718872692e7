"""The scales of charts: round, covering all values, and with a distinct label for each line."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from events.instants import unix
from scheduler.monitors.history.scales import short, time_ticks, value_scale
from tests.scheduler.monitors.past import NUMBER


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 9_000, ["0", "5k", "10k"]),
        (91, 150, ["80", "100", "120", "140", "160"]),
        (-100, -3, ["-100", "-50", "0"]),
        (-0.3, 0.2, ["-0.4", "-0.2", "0", "0.2"]),
        (0, 0, ["0", "1"]),
        (42, 42, ["20", "40", "60", "80"]),
        (123_456_789_012, 123_456_789_099, ["123.457B", "+50", "+100"]),
        (999_999, 1_000_001, ["999.999k", "+0.5", "+1", "+1.5", "+2"]),
        (-1e300, 1e300, ["-1e300", "-5e299", "0", "5e299", "1e300"]),
    ],
)
def test_grid_lines_are_round_with_distinct_labels(low: float, high: float, labels: list[str]) -> None:
    assert value_scale(low, high).labels() == labels


@given(NUMBER, NUMBER)
@example(5e-324, 0)
@example(1.7e308, -1.7e308)
@example(2**53, 2**53 - 1)
def test_scale_of_any_numbers_has_a_few_lines_around_them(one: float, other: float) -> None:
    low, high = sorted((one, other))
    scale = value_scale(low, high)
    lines, labels = scale.lines(), scale.labels()
    assert 2 <= len(lines) <= 8
    assert len(lines) == len(set(labels))
    assert 0.0 <= scale.share(low) <= scale.share(high) <= 1.0
    assert max(map(len, labels)) <= 10


@pytest.mark.parametrize(
    ("first", "last", "names"),
    [
        ("2027-01-15T08:00:00Z", "2027-01-15T08:00:00Z", ["08:00"]),
        ("2027-01-15T08:10:00Z", "2027-01-15T11:00:00Z", ["09:00", "10:00", "11:00"]),
        ("2027-01-15T20:00:00Z", "2027-01-16T13:00:00Z", ["21:00", "01-16", "03:00", "06:00", "09:00", "12:00"]),
        ("2027-01-15T08:00:00Z", "2027-01-18T08:00:00Z", ["12:00", "01-16", "12:00", "01-17", "12:00", "01-18"]),
        ("2027-02-26T08:00:00Z", "2027-03-02T08:00:00Z", ["02-27", "02-28", "03-01", "03-02"]),
        ("2027-11-15T00:00:00Z", "2028-03-01T00:00:00Z", ["2027-12", "2028-01", "2028-02", "2028-03"]),
        ("2027-01-01T00:00:00Z", "2028-11-01T00:00:00Z", ["2027-07", "2028-01", "2028-07"]),
        ("2027-01-15T00:00:00Z", "2046-03-09T00:00:00Z", ["2030-01", "2035-01", "2040-01", "2045-01"]),
    ],
)
def test_time_ticks_are_round_in_utc(first: str, last: str, names: list[str]) -> None:
    assert [name for _, name in time_ticks(unix(first), unix(last))] == names


@given(st.integers(0, 2 * 10**10), st.floats(0, 6e9))
def test_time_ticks_of_any_span_are_few_and_within_it(first: float, span_s: float) -> None:
    ticks = [at for at, _ in time_ticks(first, first + span_s)]
    assert len(ticks) <= 9
    assert all(first <= at <= first + span_s for at in ticks)
    assert all(one < other for one, other in pairwise(ticks))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (12_500, "12.5k"),
        (3_000_000, "3M"),
        (9.5e12, "9.5T"),
        (2**60, "1.15292e18"),
        (0.1, "0.1"),
    ],
)
def test_large_number_has_a_short_label(number: float, text: str) -> None:
    assert short(number) == text
