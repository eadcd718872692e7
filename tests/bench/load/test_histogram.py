"""A histogram has exact counts, and values to a thousandth."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.histogram import Histogram, bucket_of, highest_of

nanoseconds = st.integers(min_value=0, max_value=10**13)
many = st.lists(nanoseconds, max_size=60)


def recorded(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


@given(nanoseconds)
def test_bucket_contains_its_value_and_is_a_thousandth_wide(value: int) -> None:
    highest = highest_of(bucket_of(value))
    assert value <= highest <= value * (1 + 2**-10)
    assert bucket_of(highest) == bucket_of(value)
    assert bucket_of(highest + 1) == bucket_of(value) + 1


@given(many.filter(bool), st.floats(min_value=0.001, max_value=1))
def test_percentile_is_exact_to_a_thousandth(values: list[int], share: float) -> None:
    exact_ms = sorted(values)[max(1, math.ceil(share * len(values))) - 1] / 1e6
    assert exact_ms <= recorded(values).percentile_ms(share) <= exact_ms * 1.001


@given(st.lists(many, max_size=5))
def test_merged_histograms_equal_the_histogram_of_all_values(parts: list[list[int]]) -> None:
    merged = Histogram()
    for part in parts:
        merged.merge(recorded(part))
    whole = recorded([value for part in parts for value in part])
    assert merged.counts == whole.counts
    assert merged.total == sum(map(len, parts))


def test_empty_histogram_and_negative_value_count_as_zero() -> None:
    assert Histogram().percentile_ms(0.99) == 0
    assert recorded([-5]).percentile_ms(1) == pytest.approx(0)
