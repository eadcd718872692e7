"""Retry budgets and the pause before a retry."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from limits.retries import RetryBudget, full_jitter


def taken(budget: RetryBudget, now: float, *, tries: int = 100) -> int:
    return sum(budget.take_nowait(now) for _ in range(tries))


def test_fifth_of_the_calls_may_be_retried_in_addition_to_three_retries():
    budget = RetryBudget()
    for _ in range(100):
        budget.count_call(1000.0)
    assert taken(budget, 1000.0) == 23


def test_calls_and_retries_expire_with_their_window():
    budget = RetryBudget(window_s=10.0)
    for _ in range(50):
        budget.count_call(1000.0)
    assert taken(budget, 1000.0) == 13
    assert taken(budget, 1009.0) == 0
    assert taken(budget, 1010.0) == 3
    assert taken(budget, 5000.0) == 3


@given(
    st.lists(
        st.tuples(st.sampled_from(["call", "retry"]), st.one_of(st.just(0.0), st.floats(0, 12))),
        min_size=1,
        max_size=120,
    )
)
def test_retries_are_granted_exactly_while_the_window_has_room(steps):
    """The model keeps every call and retry with its tenth of the window."""
    budget, now, calls, retries = RetryBudget(window_s=10.0), 0.0, [], []
    for action, pause_s in steps:
        now += pause_s
        tenth = int(now / 1.0)
        recent_calls = sum(1 for at in calls if at > tenth - 10)
        recent_retries = sum(1 for at in retries if at > tenth - 10)
        if action == "call":
            budget.count_call(now)
            calls.append(tenth)
        else:
            granted = budget.take_nowait(now)
            assert granted == (recent_retries < 3 + recent_calls // 5)
            retries += [tenth] if granted else []


@given(attempt=st.integers(0, 10_000), seed=st.integers())
def test_pause_is_between_zero_and_the_capped_doubled_base(attempt, seed):
    pause_s = full_jitter(attempt, Random(seed))
    assert 0.0 <= pause_s <= min(2.0, 0.1 * 2 ** min(attempt, 10))


def test_pauses_use_the_whole_range():
    rng = Random(7)
    pauses = [full_jitter(3, rng) for _ in range(2000)]
    assert min(pauses) < 0.02
    assert max(pauses) > 0.78
    assert 0.37 < sum(pauses) / len(pauses) < 0.43
