"""The window is exact: compared with a list of all times. `test_window_long_run` uses many more requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limits.errors import RateLimited, WindowState
from limits.window import Window

PERIOD_S = 60.0


class NaiveWindow:
    """The model: every admission ever, counted from scratch each time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.admitted: list[float] = []

    def used(self, now: float) -> int:
        return min(self.limit, sum(1 for at in self.admitted if at + PERIOD_S > now))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["look", "admit", "sweep"]),
        st.sampled_from(["a", "b"]),
        st.one_of(st.sampled_from([0.0, 1.0, 30.0, 59.0, 60.0, 61.0]), st.floats(0, 70, allow_nan=False)),
    ),
    max_size=60,
)


@given(limit=st.integers(1, 5), start=st.floats(0, 1e7), steps=STEPS)
def test_window_matches_a_list_of_all_admissions(limit, start, steps):
    window, models, now = Window(limit, PERIOD_S), {"a": NaiveWindow(limit), "b": NaiveWindow(limit)}, start
    for action, key, pause_s in steps:
        now += pause_s
        model = models[key]
        is_open = model.used(now) < limit
        assert (window.look(key, now).remaining > 0) is is_open
        if action == "sweep":
            window.sweep(now)
        elif action == "admit" and is_open:
            window.admit(key, now)
            model.admitted.append(now)
        elif action == "admit":
            with pytest.raises(RateLimited):
                window.admit(key, now)
        assert window.look(key, now).remaining == limit - model.used(now)


@given(limit=st.integers(1, 4), start=st.floats(0, 1e9), pauses=st.lists(st.floats(0, 40), min_size=1, max_size=30))
def test_retry_after_is_the_shortest_sufficient_wait(limit, start, pauses):
    window, now = Window(limit, PERIOD_S), start
    for pause_s in pauses:
        now += pause_s
        retry_after_s = window.look("k", now).retry_after_s
        if retry_after_s:
            assert window.look("k", now).remaining == 0
            assert retry_after_s >= 1
            assert window.look("k", now + (retry_after_s - 1)).remaining == 0
            now += retry_after_s
        window.admit("k", now)


def test_state_reports_remaining_and_the_next_free_slot():
    window = Window(2, PERIOD_S)
    assert window.look("k", 0.0) == WindowState(limit=2, remaining=2, reset_s=0)
    assert window.admit("k", 0.0) == WindowState(limit=2, remaining=1, reset_s=60)
    state = window.admit("k", 10.5)
    assert state == WindowState(limit=2, remaining=0, reset_s=50)
    assert state.retry_after_s == 50
    assert window.look("k", 59.9).retry_after_s == 1
    assert window.look("k", 60.0) == WindowState(limit=2, remaining=1, reset_s=11)
    assert window.look("k", 71.0) == WindowState(limit=2, remaining=2, reset_s=0)


@given(st.floats(0, 1e9))
def test_first_admission_frees_its_slot_after_exactly_a_period(now):
    assert Window(1, PERIOD_S).admit("k", now) == WindowState(limit=1, remaining=0, reset_s=60)


def test_sweep_removes_only_idle_keys():
    window = Window(3, PERIOD_S)
    window.admit("idle", 0.0)
    window.admit("busy", 30.0)
    window.sweep(60.0)
    assert len(window) == 1
    assert window.look("busy", 60.0).remaining == 2


def test_idle_keys_are_removed_automatically():
    window = Window(2, PERIOD_S)
    for visitor in range(20_000):
        window.admit(visitor, visitor * 1.0)
        assert len(window) <= 256


def test_automatic_sweep_checks_a_few_keys_per_new_key() -> None:
    """Goal: no admission checks all keys. Method: count how many idle keys each later admission removes."""
    window = Window(2, PERIOD_S)
    for visitor in range(10_000):
        window.admit(visitor, 0.0)
    dropped, before = [], len(window)
    for visitor in range(20_000, 40_000):
        window.admit(visitor, 100.0)
        dropped.append(before + 1 - len(window))
        before = len(window)
    assert max(dropped) == 8
    assert sum(dropped) == 10_000


@given(
    before=st.integers(1, 6),
    after=st.integers(1, 6),
    pauses=st.lists(st.sampled_from([0.0, 1.0, 20.0, 61.0]), max_size=15),
)
def test_changed_limit_applies_immediately_and_loses_no_admission(before, after, pauses):
    window, model, now = Window(before, PERIOD_S), NaiveWindow(before), 0.0
    for pause_s in pauses:
        now += pause_s
        if window.look("k", now).remaining:
            window.admit("k", now)
            model.admitted.append(now)
    window.resize(after)
    model.limit = after
    for _ in range(15):
        assert window.look("k", now).remaining == after - model.used(now)
        now += 7.0
        if window.look("k", now).remaining:
            window.admit("k", now)
            model.admitted.append(now)
