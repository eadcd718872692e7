"""Whole seconds are never too few and never one too many."""

from hypothesis import example, given
from hypothesis import strategies as st

from limits.waits import whole_seconds


@given(now=st.floats(0, 1e9), ahead_s=st.one_of(st.floats(-100, 4000), st.integers(0, 300)))
@example(now=0.1 + 0.2, ahead_s=60.0)
@example(now=1e-9, ahead_s=30.0)
@example(now=240.21519346421482, ahead_s=60.0)
def test_waiting_them_is_enough_and_a_second_less_is_not(now, ahead_s):
    until = now + ahead_s
    seconds = whole_seconds(now, until)
    assert now + seconds >= until
    assert seconds == 0 or now + (seconds - 1) < until
