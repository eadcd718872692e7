"""Counts, durations and fractions as people write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.content.amounts import duration, json_at_start, json_text, short_count
from upstreams.model.fields.values import INTEGER_MAX, fraction


@pytest.mark.parametrize(
    ("told", "count"),
    [
        ("1.2K", 1_200), ("1.2 k", 1_200), ("3,4M", 3_400_000), ("5B", 5_000_000_000), ("8.67M views", 8_670_000),
        ("12 345 subscribers", 12_345), ("1,234 views", 1_234), ("1.234", 1_234), ("1\u202f234", 1_234), ("0", 0),
        ("999", 999), (7, 7), ("1.2", None), ("12,34", None), ("K", None), ("", None), (None, None), (-1, None),
        ("9" * 60, None), (True, None), ([], None), ("1.2.3K", None),
    ],
)  # fmt: skip
def test_short_count_parses_written_counts(told: Any, count: int | None) -> None:
    assert short_count(told) == count


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("PT4M13S", 253), ("P1DT1H", 90_000), ("PT1.5S", 1), ("1:02:03", 3_723), ("3:00", 180), ("00:45", 45),
        ("3600", 3_600), ("3h8m33s", 11_313), ("45 min", 2_700), (90, 90), (90.7, 90), ("3:00.5", 180), ("P", None),
        ("PT", None), ("", None), ("abc", None), ("-5", None), ("1:2:3:4", None), ("P1.1.1D", None), (None, None),
        ("s", None), ("9" * 60, None), (float("nan"), None),
    ],
)  # fmt: skip
def test_duration_parses_written_durations(told: Any, seconds: int | None) -> None:
    assert duration(told) == seconds


@pytest.mark.parametrize(
    ("told", "number"),
    [("1.5", 1.5), (1, 1.0), ("1e3", 1_000.0), (True, None), ("nan", None), (float("inf"), None), (10**400, None),
     ("", None), (None, None), ("x", None), ({}, None)],
)  # fmt: skip
def test_fraction_parses_finite_numbers_only(told: Any, number: float | None) -> None:
    assert fraction(told) == number


def test_json_is_parsed_from_text_or_its_start() -> None:
    assert json_text('["0.1", 2]') == ["0.1", 2]
    assert json_text("[NaN]") == [None]
    assert json_at_start('{"a": 1}; var b = {}') == {"a": 1}
    assert [json_text(one) for one in ("{", "", None, 1, "[" * 99_999, " " * 2_000_000)] == [None] * 6
    assert json_at_start("var x") is None


@given(st.one_of(st.text(max_size=80), st.integers(), st.floats(), st.none(), st.booleans()))
def test_no_input_raises_or_exceeds_bounds(found: Any) -> None:
    for read in (short_count, duration):
        told = read(found)
        assert told is None or 0 <= told <= INTEGER_MAX
    assert fraction(found) is None or isinstance(fraction(found), float)
