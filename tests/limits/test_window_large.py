"""Windows with large limits: they cost only actual admissions, have no slow step, and are as exact as others."""

import time
import tracemalloc
from bisect import bisect_right
from collections.abc import Iterator
from random import Random

import pytest

from limits.errors import RateLimited
from limits.window import Window

PERIOD_S = 60.0
LARGEST = 10_000_000
STEP_BYTES = 50_000
"""The maximum of bytes that a step may allocate, and thus copy."""


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held_bytes() -> int:
    return tracemalloc.get_traced_memory()[0]


def peak_bytes() -> int:
    return tracemalloc.get_traced_memory()[1]


def test_key_with_one_request_uses_little_memory_under_every_limit(traced: None) -> None:
    for limit in (1, 600, LARGEST):
        window, before = Window(limit, PERIOD_S), held_bytes()
        for key in range(200):
            window.admit(key, 0.0)
        assert (held_bytes() - before) / 200 < 1_000


def test_no_step_of_a_large_window_copies_much_memory(traced: None) -> None:
    """Method: a hundred thousand requests of one key, measuring the memory that each allocates."""
    window, before, worst = Window(LARGEST, PERIOD_S), held_bytes(), 0
    for number in range(100_000):
        tracemalloc.reset_peak()
        held = held_bytes()
        window.admit("k", number * 1e-4)
        worst = max(worst, peak_bytes() - held)
    assert worst < STEP_BYTES
    assert 800_000 <= held_bytes() - before < 1_000_000

    tracemalloc.reset_peak()
    held = held_bytes()
    window.resize(LARGEST // 2)
    assert window.look("k", 10.0).remaining == LARGEST // 2 - 100_000
    window.resize(10)
    assert window.look("k", 10.0).remaining == 0
    assert peak_bytes() - held < STEP_BYTES

    window.look("k", 65.0)
    assert held_bytes() - before < 500_000
    window.look("k", 71.0)
    assert held_bytes() - before < 1_000


def test_memory_of_silent_keys_is_freed(traced: None) -> None:
    """Method: one key after another fills a window and stops; their number alone is too low to trigger a sweep."""
    window, before = Window(2_000, PERIOD_S), held_bytes()
    for key in range(60):
        for number in range(2_000):
            window.admit(key, key * 61.0 + number * 1e-4)
    assert len(window) < 40
    assert held_bytes() - before < 40 * 2_000 * 8


def test_removing_many_admissions_is_cheaper_than_adding_them() -> None:
    window = Window(LARGEST, PERIOD_S)
    began = time.thread_time()
    for number in range(300_000):
        window.admit("k", number * 1e-5)
    came = time.thread_time()
    assert window.look("k", 100.0).remaining == LARGEST
    assert time.thread_time() - came < (came - began) / 20


@pytest.mark.parametrize("seed", range(3))
def test_window_matches_a_list_for_any_limits_and_bursts(seed: int) -> None:
    """Goal: exact across the bounds of its pieces. Method: bursts, pauses, other limits, and undone admissions."""
    rng, now, limit = Random(seed), 0.0, 5_000
    window, admitted = Window(limit, PERIOD_S), list[float]()

    def used() -> int:
        return len(admitted) - bisect_right(admitted, now, key=lambda at: at + PERIOD_S)

    for _ in range(150):
        now += rng.choice((0.0, 0.01, 1.0, 20.0, 59.0, 60.0, 61.0))
        if rng.random() < 0.2:
            limit = rng.choice((1, 63, 64, 65, 500, 5_000, 20_000))
            window.resize(limit)
        for _ in range(rng.choice((1, 2, 64, 65, 700, 4_000))):
            now += rng.choice((0.0, 1e-4))
            if used() >= limit:
                with pytest.raises(RateLimited) as refused:
                    window.admit("k", now)
                wait_s = refused.value.state.retry_after_s
                freed = admitted[-limit] + PERIOD_S
                assert now + wait_s >= freed > now + wait_s - 1
                break
            assert window.admit("k", now).remaining == limit - used() - 1
            if rng.random() < 0.1:
                window.take_back("k")
            else:
                admitted.append(now)
        assert window.look("k", now).remaining == max(0, limit - used())
