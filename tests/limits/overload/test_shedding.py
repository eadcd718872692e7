"""Load shedding against a loop in virtual time: served requests, waiting times, and refused keys."""

import random
from collections.abc import Callable

import pytest

from limits.overload.shedding import FEW, ONSET_S, QUIET_S, LoadShedder
from tests.fakes.simulated_loop import Arrival, Ended, SimulatedLoop, percentile, steady

WORK_S = 250e-6
CAPACITY = 1 / WORK_S
FLOOD_S = 3.0
KEYS = frozenset((b"flood", b"quiet", b"busy", b"late"))
Flood = Callable[[random.Random], list[Arrival]]


def flood(times: float, *, key: bytes = b"flood") -> Flood:
    """Return arrivals at a multiple of the capacity."""
    return lambda rng: steady(times * CAPACITY, 0.0, FLOOD_S, key=key, rng=rng)


def served_by(
    *floods: Flood, seed: int = 1, work_s: float = WORK_S, wait_s: float = 0.0, until: float = FLOOD_S
) -> tuple[SimulatedLoop, Ended]:
    """Return the loop after all these arrivals. A refusal costs a twelfth of a request."""
    rng = random.Random(seed)
    loop = SimulatedLoop(LoadShedder(KEYS.__contains__), rng, work_s=work_s, refusal_s=work_s / 12, wait_s=wait_s)
    return loop, loop.run([each for one in floods for each in one(rng)], until + wait_s)


@pytest.mark.parametrize("times", [0.5, 0.8])
def test_node_with_enough_capacity_refuses_no_request(times: float) -> None:
    loop, ended = served_by(flood(times))
    assert ended.refused == []
    assert loop.limits == []


@pytest.mark.parametrize(("times", "share"), [(1.2, 0.9), (2.5, 0.75), (5.0, 0.5)])
def test_flooded_node_does_most_of_its_work_without_long_waits(times: float, share: float) -> None:
    loop, ended = served_by(flood(times))
    steady_state = ended.between(1.0, FLOOD_S)
    assert len(steady_state.served) > share * CAPACITY * (FLOOD_S - 1.0)
    assert percentile(steady_state.served, 0.99) < 0.25
    assert percentile(steady_state.refused, 0.99) < 0.1
    assert loop.busy_max < CAPACITY  # only the queue from before shedding started
    seconds = [ended.between(n / 4, (n + 1) / 4) for n in range(4, int(FLOOD_S * 4) - 1)]
    assert min(len(each.served) for each in seconds) > share * CAPACITY / 8, "throughput must not drop to zero"


def test_requests_waiting_upstream_are_not_a_queue() -> None:
    """Method: 2,000 wait upstream at any time, far above the limit; the node itself has time for all of them."""
    _, idle = served_by(flood(0.8), wait_s=0.5)
    assert idle.refused == []
    _, flooded = served_by(flood(2.5), wait_s=0.5)
    steady_state = flooded.between(1.0, FLOOD_S - 0.5)
    assert len(steady_state.served) > 0.75 * CAPACITY * (FLOOD_S - 1.5)
    assert percentile(steady_state.served, 0.99) < 0.25


def test_slow_machine_sheds_load_with_the_same_settings() -> None:
    rate = 0.25 * CAPACITY  # 2.5 times its capacity
    _, ended = served_by(lambda rng: steady(rate, 0.0, FLOOD_S, rng=rng), work_s=10 * WORK_S)
    steady_state = ended.between(1.0, FLOOD_S)
    assert len(steady_state.served) > 0.6 * CAPACITY / 10 * (FLOOD_S - 1.0)
    assert percentile(steady_state.served, 0.99) < 0.4


def test_node_recovers_a_second_after_the_flood() -> None:
    loop, ended = served_by(
        flood(5.0), lambda rng: steady(0.5 * CAPACITY, FLOOD_S, FLOOD_S + 2.5, rng=rng), until=FLOOD_S + 2.5
    )
    after = ended.between(FLOOD_S + 1.0, FLOOD_S + 2.5)
    assert after.refused == []
    assert percentile(after.served, 0.99) < 0.02
    assert loop.limits[-1][0] < FLOOD_S + 1.0 + QUIET_S


def test_quiet_key_is_served_without_delay_during_a_flood() -> None:
    _, ended = served_by(flood(5.0), lambda rng: steady(50, 0.0, FLOOD_S, key=b"quiet", rng=rng))
    quiet = ended.between(0.5, FLOOD_S).of(b"quiet")
    assert quiet.served_share > 0.99
    assert percentile(quiet.served, 0.99) < 0.25


def test_flooding_keys_get_equal_shares() -> None:
    _, ended = served_by(flood(2.0), flood(0.7, key=b"busy"), flood(0.25, key=b"late"))
    steady_state = ended.between(1.0, FLOOD_S)
    assert steady_state.of(b"late").served_share > 0.9, "a key that requests less than a third gets all of it"
    part = len(steady_state.of(b"busy").served) / len(steady_state.served)
    assert part > 0.28, "about a third, although another key requests three times as much"


def test_invented_key_names_share_one_part() -> None:
    """Method: 2.5 times the capacity, each request with an unknown key, together with a quiet known key."""
    names = lambda rng: [  # noqa: E731 - as `flood`
        Arrival(each.at, b"%d" % n) for n, each in enumerate(steady(2.5 * CAPACITY, 0.0, FLOOD_S, rng=rng))
    ]
    _, ended = served_by(names, flood(0.35, key=b"busy"))
    known = ended.between(1.0, FLOOD_S).of(b"busy")
    assert known.served_share > 0.95


def test_burst_and_stall_are_not_overload() -> None:
    """Method: bursts of 300 requests every second, which take 75 ms, and a loop that stalls without work."""
    _, ended = served_by(lambda _rng: [Arrival(float(n // 300), b"flood") for n in range(900)])
    assert ended.refused == []
    shedder = LoadShedder(KEYS.__contains__)
    for n in range(100):
        shedder.observe(n * 0.1, 50.0, FEW)
    assert not shedder.active


def test_shedding_starts_after_onset_and_ends_after_quiet() -> None:
    shedder = LoadShedder(KEYS.__contains__)
    shedder.observe(0.0, 1.1, FEW + 1)
    shedder.observe(ONSET_S / 2, 1.1, FEW + 1)
    assert not shedder.active
    assert shedder.is_wary
    shedder.observe(ONSET_S, 1.1, FEW + 1)
    assert shedder.active
    assert not shedder.admits(b"flood")
    shedder.observe(ONSET_S + 0.1, 0.1, 0)
    shedder.observe(ONSET_S + 0.1 + QUIET_S / 2, 0.1, 0)
    assert shedder.active
    shedder.observe(ONSET_S + 0.1 + QUIET_S, 0.1, 0)
    assert not shedder.active
    assert shedder.statistics().refused == {"known": 1, "strange": 0}


def test_shedding_limit_never_falls_below_its_minimum() -> None:
    shedder = LoadShedder(KEYS.__contains__)
    for n in range(1_000):
        shedder.observe(n * 0.1, 100.0, 1_000)
    assert shedder.statistics().limit == FEW
