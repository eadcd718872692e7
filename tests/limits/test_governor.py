"""Hold-until times."""

from hypothesis import given
from hypothesis import strategies as st

from limits.errors import LimitError, Throttled
from limits.governor import Governor


def test_a_held_name_waits_until_then_and_others_do_not():
    governor = Governor()
    governor.hold(("video", "search"), 110.0)
    assert governor.wait_s(("video", "search"), 100.0) == 10.0
    assert governor.wait_s(("video", "profile"), 100.0) == 0.0
    assert governor.wait_s(("video", "search"), 110.0) == 0.0


def test_an_earlier_end_does_not_shorten_a_hold():
    governor = Governor()
    governor.hold("a", 110.0)
    governor.hold("a", 105.0)
    assert governor.wait_s("a", 100.0) == 10.0
    governor.hold("a", 120.0)
    assert governor.wait_s("a", 100.0) == 20.0


def test_a_hold_that_ended_is_forgotten_when_looked_at():
    governor = Governor()
    governor.hold("a", 110.0)
    governor.wait_s("a", 111.0)
    assert len(governor) == 0


def test_an_absurd_hold_ends_after_the_longest_wait():
    governor = Governor(wait_s_max=3600.0)
    governor.hold("a", 1e12)
    assert governor.wait_s("a", 100.0) == 3600.0
    assert governor.wait_s("a", 3600.0) == 100.0
    assert governor.wait_s("a", 3700.0) == 0.0


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 100)), max_size=60))
def test_it_stays_within_its_bound_and_lets_the_soonest_end_go(holds):
    governor, longest = Governor(names_max=5), {}
    for name, until in holds:
        governor.hold(name, until)
        longest[name] = max(until, longest.get(name, until))
        assert len(governor) <= 5
    if longest:
        last_to_end = max(longest, key=longest.__getitem__)
        assert governor.wait_s(last_to_end, 0.0) == longest[last_to_end]


def test_the_refusal_carries_the_wait():
    refusal = Throttled(30)
    assert isinstance(refusal, LimitError)
    assert refusal.retry_after_s == 30
