"""Headers that say how long to wait, in each form that they come in."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.model.refusals import retry_after_s, until_reset_s

SENT = "Wed, 01 Jan 2025 00:00:00 GMT"
LATER = "Wed, 01 Jan 2025 00:01:30 GMT"


@pytest.mark.parametrize(
    ("retry_after", "date", "wait_s"),
    [
        ("7", "", 7.0),
        ("0", SENT, None),
        ("", SENT, None),
        ("-5", SENT, None),
        ("1.5", SENT, None),
        ("soon", SENT, None),
        ("9" * 400, "", math.inf),
        (LATER, SENT, 90.0),
        ("Wednesday, 01-Jan-25 00:01:30 GMT", SENT, 90.0),
        ("Wed Jan  1 00:01:30 2025", SENT, 90.0),
        (SENT, LATER, None),
        (SENT, SENT, None),
        (LATER, "", None),
        (LATER, "today", None),
        ("Wed, 01 Jan 99999 00:01:30 GMT", SENT, None),
        ("Wed, 01 Jan 99999999999999999999 00:01:30 GMT", SENT, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(retry_after: str, date: str, wait_s: float | None) -> None:
    assert retry_after_s({"retry-after": retry_after, "date": date}) == wait_s


def test_headers_that_say_nothing_ask_for_nothing() -> None:
    assert retry_after_s({}) is None
    assert until_reset_s({}, "x-reset") is None


@pytest.mark.parametrize(
    ("reset", "date", "wait_s"),
    [
        ("1735689690", SENT, 90.0),
        ("1735689600", SENT, None),
        ("1735689500", SENT, None),
        ("1735689690", "", None),
        ("-1", SENT, None),
        ("soon", SENT, None),
        ("9" * 5000, SENT, math.inf),
    ],
)
def test_a_reset_is_a_unix_time_by_the_answers_own_clock(reset: str, date: str, wait_s: float | None) -> None:
    assert until_reset_s({"x-reset": reset, "date": date}, "x-reset") == wait_s


DATES = st.builds(
    lambda day, date, month, year, time, zone: f"{day}, {date} {month} {year} {time} {zone}",
    st.sampled_from(("Wed", "", "Mittwoch")),
    st.integers(-1, 99),
    st.sampled_from(("Jan", "Feb", "Mai", "13")),
    st.integers(-10, 10**20),
    st.sampled_from(("00:00:00", "99:99:99", "1:2", "::", "")),
    st.sampled_from(("GMT", "+9999", "-99999999999999999999", "")),
)


@given(st.text(max_size=30) | DATES | st.just(SENT), st.text(max_size=30) | DATES | st.just(SENT))
def test_whatever_is_told_a_wait_is_ahead_or_none(told: str, date: str) -> None:
    headers = {"retry-after": told, "x-reset": told, "date": date}
    assert all(wait_s is None or wait_s > 0 for wait_s in (retry_after_s(headers), until_reset_s(headers, "x-reset")))
